"""Accuracy of sampled inference, on one process or many.

May import: batch, distributed, transfer, torch.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from salient.batch import Batch
from salient.distributed import ALONE, World
from salient.transfer import DevicePrefetcher


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    device: torch.device,
    world: World = ALONE,
) -> float:
    """Return the accuracy of sampled inference: each seed is counted once.

    Parameters
    ----------
    model : Module
        With the same weights and buffers on every rank.
    batches : iterable of Batch
        This rank's share; batches without seeds are passed over.
    device : torch.device
    world : World
        The ranks whose counts are added up; all of them get the result.

    Raises
    ------
    ValueError
        No rank had a seed, so there is no accuracy.
    """
    model.eval()
    correct, seen = torch.zeros((), dtype=torch.int64, device=device), 0
    for batch in DevicePrefetcher(batches, device):
        if batch.batch_size == 0:
            continue
        scores = model(batch.x.float(), batch.mfgs)
        correct += (scores.argmax(1) == batch.y).sum()
        seen += batch.batch_size
    correct_everywhere, seen_everywhere = world.sum([int(correct), seen])
    if seen_everywhere == 0:
        raise ValueError("there is nothing to evaluate: the loader gave no batch")
    return correct_everywhere / seen_everywhere
