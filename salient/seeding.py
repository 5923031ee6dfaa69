"""Seeds of the generators that models draw from. May import: numpy, torch."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - for libraries that use the global generator
    torch.manual_seed(seed)


def seed_for_batch(seed: int, epoch: int, number: int, device: torch.device) -> None:
    """Seed all generators for one training step on a device, by the batch's global number.

    What a model draws in a step, dropout above all, then depends neither on the steps before it nor
    on the rank that takes it: a run continued from a checkpoint, or on another number of ranks,
    draws the same. So checkpoints need no generator states.
    """
    sequence = np.random.SeedSequence([seed, epoch, number])
    own = int(sequence.generate_state(1, np.uint64)[0])
    random.seed(own)
    np.random.seed(own % 2**32)  # noqa: NPY002 - as above
    # Not torch.manual_seed, which takes 90 us to look for devices of every kind.
    torch.default_generator.manual_seed(own)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(own)
