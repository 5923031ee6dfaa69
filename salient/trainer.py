"""Training and sampled evaluation on one process, for batches of any system.

May import: batch, config, datasets, models, timing, torch, tqdm.
"""

from __future__ import annotations

import random
import time
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


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _batch_bytes(batch: Batch) -> int:
    tensors = [batch.x, batch.y, batch.n_id]
    for mfg in batch.mfgs:
        tensors += [mfg.indptr, mfg.indices]
    return sum(t.numel() * t.element_size() for t in tensors)


def train_epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[Batch],
    epoch: int,
    device: torch.device,
    *,
    progress: bool = True,
) -> tuple[EpochTimes, float]:
    """Train one epoch, stage after stage; return its times and the training accuracy.

    The device is synchronised between stages, so that each second is booked on its own stage.
    """
    model.train()
    times = EpochTimes(epoch)
    loss_sum, correct, seen = 0.0, 0, 0
    total = len(batches) if isinstance(batches, Sized) else None
    bar = tqdm(total=total, desc=f"epoch {epoch}", leave=False, disable=None if progress else True)
    began = time.perf_counter()
    iterator = iter(batches)
    while True:
        asked = time.perf_counter()
        batch = next(iterator, None)
        if batch is None:
            break
        arrived = time.perf_counter()
        on_device = batch if device.type == "cpu" else batch.to(device)
        _synchronise(device)
        transferred = time.perf_counter()

        optimiser.zero_grad(set_to_none=True)
        scores = model(on_device.x.float(), on_device.mfgs)
        loss = functional.cross_entropy(scores, on_device.y)
        loss.backward()
        optimiser.step()
        loss_sum += float(loss.detach()) * batch.batch_size
        correct += int((scores.detach().argmax(1) == on_device.y).sum())
        _synchronise(device)
        trained = time.perf_counter()

        seen += batch.batch_size
        times.batch_preparation.work += batch.times.sample_seconds + batch.times.gather_seconds
        times.batch_preparation.exposed += arrived - asked
        times.transfer.work += transferred - arrived
        times.transfer.exposed += transferred - arrived
        times.training.work += trained - transferred
        times.training.exposed += trained - transferred
        times.batches += 1
        times.nodes += batch.num_nodes
        times.edges += batch.num_edges
        times.num_bytes += _batch_bytes(batch)
        bar.update()
    times.total_seconds = time.perf_counter() - began
    bar.close()
    if seen == 0:
        raise ValueError("there is nothing to train on: the loader gave no batch")
    times.loss = loss_sum / seen
    return times, correct / seen


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> float:
    """Return the accuracy of sampled inference: each seed is counted once.

    Raises
    ------
    ValueError
        No batch, so there is no accuracy.
    """
    model.eval()
    correct = seen = 0
    for batch in batches:
        on_device = batch if device.type == "cpu" else batch.to(device)
        scores = model(on_device.x.float(), on_device.mfgs)
        correct += int((scores.argmax(1) == on_device.y).sum())
        seen += batch.batch_size
    if seen == 0:
        raise ValueError("there is nothing to evaluate: the loader gave no batch")
    return correct / seen


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
