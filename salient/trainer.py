"""Training and sampled evaluation on one process, for batches of any system.

May import: batch, config, datasets, models, timing, transfer, torch, tqdm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from salient.batch import Batch
from salient.config import TrainConfig
from salient.datasets import Dataset
from salient.models import MODELS
from salient.timing import EpochTimes
from salient.transfer import DevicePrefetcher


class BatchSource(Protocol):
    """Gives the batches of one split of a data set; each iteration is a new epoch."""

    def __call__(
        self, nodes: Tensor, fanouts: tuple[int, ...], batch_size: int, *, shuffle: bool
    ) -> Iterable[Batch]:
        """Return an iterable over batches that cover ``nodes`` once."""
        ...


@dataclass
class FitResult:
    """What a training run found.

    Parameters
    ----------
    epochs : list of EpochTimes
    valid_accuracy : list of float
        After each epoch.
    best_epoch : int
        The first with the highest validation accuracy; its weights are tested and kept.
    test_accuracy, train_accuracy : float
        Of the best epoch; the latter is measured on batches in training mode.
    checkpoint : Path or None
    """

    epochs: list[EpochTimes] = field(default_factory=list)
    valid_accuracy: list[float] = field(default_factory=list)
    train_accuracies: list[float] = field(default_factory=list)
    best_epoch: int = 0
    test_accuracy: float = 0.0
    checkpoint: Path | None = None

    @property
    def train_accuracy(self) -> float:
        """Training accuracy of the best epoch."""
        return self.train_accuracies[self.best_epoch]


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - for libraries that use the global generator
    torch.manual_seed(seed)


def make_model(config: TrainConfig, dataset: Dataset) -> nn.Module:
    """Return a model with initial weights drawn from the configured seed.

    Raises
    ------
    ValueError
        There is no model of this name.
    """
    if config.model not in MODELS:
        raise ValueError(f"model: {config.model!r} is unknown, expected one of {', '.join(MODELS)}")
    seed_everything(config.seed)
    return MODELS[config.model](
        dataset.num_features,
        config.hidden,
        dataset.num_classes,
        num_layers=len(config.fanouts),
        dropout=config.dropout,
    )


def resolve_device(name: str) -> torch.device:
    """Return the device of this name.

    Raises
    ------
    ValueError
        There is no such device on this machine.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device: {name!r} is not known to torch; use cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: {name!r} is not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name!r} asked for, but torch sees no CUDA device; use cpu")
    return device


def train_epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[Batch],
    epoch: int,
    device: torch.device,
    *,
    progress: bool = True,
) -> tuple[EpochTimes, float]:
    """Train one epoch; return its times and the training accuracy.

    Transfers to a GPU run beside the steps, and the loop never waits for it: what an epoch adds up
    stays on the device until its end.
    """
    model.train()
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    seen = 0
    total = len(batches) if isinstance(batches, Sized) else None
    bar = tqdm(total=total, desc=f"epoch {epoch}", leave=False, disable=None if progress else True)
    prefetcher = DevicePrefetcher(batches, device)
    for batch in prefetcher:
        optimiser.zero_grad(set_to_none=True)
        scores = model(batch.x.float(), batch.mfgs)
        loss = functional.cross_entropy(scores, batch.y)
        loss.backward()
        optimiser.step()
        loss_sum += loss.detach() * batch.batch_size
        correct += (scores.detach().argmax(1) == batch.y).sum()
        seen += batch.batch_size
        bar.update()
    bar.close()
    if seen == 0:
        raise ValueError("there is nothing to train on: the loader gave no batch")
    times = prefetcher.times
    times.epoch = epoch
    times.loss = float(loss_sum) / seen
    return times, int(correct) / seen


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> float:
    """Return the accuracy of sampled inference: each seed is counted once.

    Raises
    ------
    ValueError
        No batch, so there is no accuracy.
    """
    model.eval()
    correct, seen = torch.zeros((), dtype=torch.int64, device=device), 0
    for batch in DevicePrefetcher(batches, device):
        scores = model(batch.x.float(), batch.mfgs)
        correct += (scores.argmax(1) == batch.y).sum()
        seen += batch.batch_size
    if seen == 0:
        raise ValueError("there is nothing to evaluate: the loader gave no batch")
    return int(correct) / seen


def fit(
    dataset: Dataset,
    source: BatchSource,
    config: TrainConfig,
    *,
    device: str = "cpu",
    checkpoint: Path | None = None,
    progress: bool = True,
    on_epoch: Callable[[EpochTimes, float], Any] | None = None,
) -> FitResult:
    """Train a model, validate after each epoch, test the best epoch's weights.

    Parameters
    ----------
    dataset : Dataset
    source : BatchSource
        Where batches come from: our loader or a baseline's.
    config : TrainConfig
    device : str
        ``"cpu"`` or ``"cuda"``.
    checkpoint : Path, optional
        Where the best epoch's weights and the configuration are saved, after each improvement.
    progress : bool
        Show a progress bar; there is none without a terminal in any case.
    on_epoch : callable, optional
        Called after each epoch with its times and validation accuracy.
    """
    target = resolve_device(device)
    model = make_model(config, dataset).to(target)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr)
    splits = dataset.split_idx
    train = source(splits["train"], config.fanouts, config.batch_size, shuffle=True)
    valid, test = (
        source(splits[name], config.eval_fanouts, config.eval_batch_size, shuffle=False)
        for name in ("valid", "test")
    )
    result = FitResult(checkpoint=checkpoint)
    best: dict[str, Tensor] = {}
    for epoch in range(config.epochs):
        times, train_accuracy = train_epoch(
            model, optimiser, train, epoch, target, progress=progress
        )
        accuracy = evaluate(model, valid, target)
        result.epochs.append(times)
        result.train_accuracies.append(train_accuracy)
        result.valid_accuracy.append(accuracy)
        if epoch == 0 or accuracy > result.valid_accuracy[result.best_epoch]:
            result.best_epoch = epoch
            best = {name: value.detach().clone() for name, value in model.state_dict().items()}
            if checkpoint is not None:
                save_checkpoint(checkpoint, best, config, epoch, accuracy)
        if on_epoch is not None:
            on_epoch(times, accuracy)
    model.load_state_dict(best)
    result.test_accuracy = evaluate(model, test, target)
    return result


def save_checkpoint(
    path: Path, weights: dict[str, Tensor], config: TrainConfig, epoch: int, accuracy: float
) -> None:
    """Write weights and configuration; the file is complete or not there at all.

    ``torch.load(path, weights_only=True)`` reads it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    torch.save(
        {
            "weights": weights,
            "config": config.as_dict(),
            "epoch": epoch,
            "valid_accuracy": accuracy,
        },
        partial,
    )
    partial.replace(path)
