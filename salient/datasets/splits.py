"""Train, validation and test nodes. May import: numpy, torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SPLIT_NAMES = ("train", "valid", "test")


def random_split(y: Tensor, seed: int) -> dict[str, Tensor]:
    """Split the labelled nodes at random: 60 % train, 20 % validation, the rest test.

    The same labels and seed give the same split on any machine: the order comes from sorting raw
    words of the PCG64 generator, whose stream NumPy guarantees, as it does not that of a shuffle.

    Parameters
    ----------
    y : Tensor of int64, shape (num_nodes,)
        -1 marks unlabelled nodes.
    seed : int
        From 0.

    Returns
    -------
    dict of Tensor
        Sorted ids, int64, under "train", "valid" and "test".
    """
    labelled = np.flatnonzero(y.numpy() >= 0)
    words = np.asarray(np.random.PCG64(seed).random_raw(labelled.size))
    order = labelled[np.argsort(words, kind="stable")]
    # In whole numbers: 0.6 times the size can fall just below the number that it means.
    ends = [order.size * 3 // 5, order.size * 4 // 5]
    parts = np.split(order, ends)
    return {
        name: torch.from_numpy(np.sort(part).astype(np.int64))
        for name, part in zip(SPLIT_NAMES, parts, strict=True)
    }


def describe_random_split(seed: int, remark: str) -> str:
    """Return the words by which every description names a random split."""
    return f"random 60/20/20 split, seed {seed}, {remark}"
