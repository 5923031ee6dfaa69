"""Training and sampled evaluation, for batches of any system, on one process or many.

May import: batch, checkpoint, config, datasets, device, distributed, evaluation, models, schedule,
seed_plan, seeding, timing, transfer, torch, tqdm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from salient.batch import Batch
from salient.checkpoint import (
    EpochReport,
    TrainState,
    load_state,
    require_continuable,
    save_checkpoint,
    save_state,
    state_path,
)
from salient.config import TrainConfig
from salient.datasets import Dataset
from salient.device import device_of_rank, resolve_device
from salient.distributed import ALONE, World, data_parallel
from salient.evaluation import evaluate
from salient.models import MODELS
from salient.schedule import learning_rate, should_stop
from salient.seed_plan import SeedPlan
from salient.seeding import seed_everything, seed_for_batch
from salient.timing import EpochTimes, combine_ranks
from salient.transfer import DevicePrefetcher

__all__ = [
    "BatchSource",
    "FitResult",
    "evaluate",
    "fit",
    "make_model",
    "resolve_device",
    "seed_everything",
    "train_epoch",
]


class BatchSource(Protocol):
    """Gives the batches of one split of a data set; each iteration is a new epoch.

    To continue a run, what it returns needs ``set_epoch``, as :class:`salient.NeighborLoader` has;
    on several ranks it returns this rank's share of the batches, see :mod:`salient.seed_plan`.
    """

    def __call__(
        self, nodes: Tensor, fanouts: tuple[int, ...], batch_size: int, *, shuffle: bool
    ) -> Iterable[Batch]:
        """Return an iterable over batches that cover ``nodes`` once."""
        ...


@dataclass
class FitResult:
    """What a training run found, the same on every rank.

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


def train_epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[Batch],
    epoch: int,
    device: torch.device,
    *,
    seed: int = 0,
    world: World = ALONE,
    plan: SeedPlan | None = None,
    progress: bool = True,
) -> tuple[EpochTimes, float]:
    """Train one epoch; return its times and the training accuracy.

    Transfers to a GPU run beside the steps, and the loop never waits for it: what an epoch adds up
    stays on the device until its end.

    Parameters
    ----------
    model : Module
        On several ranks, from :func:`salient.distributed.data_parallel`.
    optimiser : Optimizer
    batches : iterable of Batch
        This rank's share of the epoch.
    epoch : int
    device : torch.device
    seed : int
        With epoch and global batch number, fixes what the model draws in a step.
    world : World
    plan : SeedPlan, optional
        How the seeds are shared out; needed on several ranks. There, a step's loss is the mean over
        the seeds of all ranks, and a rank without seeds adds nothing.
    progress : bool
        Show a progress bar; there is none without a terminal in any case.

    Raises
    ------
    ValueError
        No rank had a batch with seeds.
    """
    model.train()
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    seen = empty = 0
    total = len(batches) if isinstance(batches, Sized) else None
    hidden = None if progress and world.is_main else True
    bar = tqdm(total=total, desc=f"epoch {epoch}", leave=False, disable=hidden)
    prefetcher = DevicePrefetcher(batches, device)
    for step, batch in enumerate(prefetcher):
        seed_for_batch(seed, epoch, step * world.size + world.rank, device)
        optimiser.zero_grad(set_to_none=True)
        if batch.batch_size == 0:
            model().backward()
            empty += 1
        else:
            scores = model(batch.x.float(), batch.mfgs)
            loss = functional.cross_entropy(scores, batch.y, reduction="sum")
            # Gradients are averaged over ranks: the sum of all losses over all seeds is wanted.
            seeds = batch.batch_size if plan is None else plan.seeds_in_step(step)
            (loss * (world.size / seeds)).backward()
            loss_sum += loss.detach()
            correct += (scores.detach().argmax(1) == batch.y).sum()
        optimiser.step()
        seen += batch.batch_size
        bar.update()
    bar.close()
    times = prefetcher.times
    times.epoch = epoch
    times.batches -= empty
    return _add_up(world, times, float(loss_sum), int(correct), seen)


def _add_up(
    world: World, times: EpochTimes, loss_sum: float, correct: int, seen: int
) -> tuple[EpochTimes, float]:
    ranks = world.gather((times, loss_sum, correct, seen))
    seen = sum(of_rank[3] for of_rank in ranks)
    if seen == 0:
        raise ValueError("there is nothing to train on: the loader gave no batch")
    for of_rank in ranks:
        of_rank[0].loss = sum(other[1] for other in ranks) / seen
    return combine_ranks([of_rank[0] for of_rank in ranks]), sum(of[2] for of in ranks) / seen


def fit(
    dataset: Dataset,
    source: BatchSource,
    config: TrainConfig,
    *,
    device: str = "cpu",
    checkpoint: Path | None = None,
    resume: Path | None = None,
    world: World = ALONE,
    progress: bool = True,
    on_epoch: Callable[[EpochReport], Any] | None = None,
) -> FitResult:
    """Train a model, validate after each epoch, test the best epoch's weights.

    Parameters
    ----------
    dataset : Dataset
    source : BatchSource
        Where batches come from: our loader or a baseline's.
    config : TrainConfig
    device : str
        ``"cpu"`` or ``"cuda"``; on several ranks, each takes the device of its local rank.
    checkpoint : Path, optional
        Where the best epoch's weights and the configuration are saved, after each improvement. The
        state to continue from is kept beside it, in ``last.pt``, after each epoch. Rank 0 writes.
    resume : Path, optional
        State of a run to continue. On a CPU, the weights are then bit for bit those of a run that
        never stopped.
    world : World
        From :func:`salient.distributed.joined_world`.
    progress : bool
        Show a progress bar; there is none without a terminal in any case.
    on_epoch : callable, optional
        Called after each epoch of this call, on every rank, when its state has been saved.

    Raises
    ------
    FileNotFoundError, ValueError
        There is no state in ``resume``, or it is of another run.
    """
    target = device_of_rank(device, world.local_rank, world.local_size)
    sha256 = str(dataset.description["sha256"])
    world.require_agreement("settings", config.as_dict())
    state = TrainState(config, sha256)
    if resume is not None:
        state = load_state(resume)
        require_continuable(state, config, sha256)
        state.config = config
    model = make_model(config, dataset).to(target)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr)
    accuracies = [report.valid_accuracy for report in state.epochs]
    if state.epochs:
        model.load_state_dict(state.weights)
        optimiser.load_state_dict(state.optimiser)
        if checkpoint is not None and world.is_main:  # it may be another place than before
            best = state.best_epoch
            save_checkpoint(checkpoint, state.best_weights, config, best, accuracies[best])
    splits = dataset.split_idx
    train = source(splits["train"], config.fanouts, config.batch_size, shuffle=True)
    valid, test = (
        source(splits[name], config.eval_fanouts, config.eval_batch_size, shuffle=False)
        for name in ("valid", "test")
    )
    if state.epochs:
        for loader in (train, valid):
            loader.set_epoch(len(state.epochs))  # type: ignore[attr-defined]
    plan = SeedPlan(len(splits["train"]), config.batch_size, world.rank, world.size)
    parallel = data_parallel(model, world)
    for epoch in range(len(state.epochs), config.epochs):
        if should_stop(config, accuracies):
            break
        lr = learning_rate(config, epoch, accuracies)
        for group in optimiser.param_groups:
            group["lr"] = lr
        times, train_accuracy = train_epoch(
            parallel,
            optimiser,
            train,
            epoch,
            target,
            seed=config.seed,
            world=world,
            plan=plan if world.size > 1 else None,
            progress=progress,
        )
        world.share_buffers(model)
        accuracies.append(evaluate(model, valid, target, world))
        state.epochs.append(EpochReport(times, train_accuracy, accuracies[-1], lr))
        if epoch == 0 or accuracies[-1] > accuracies[state.best_epoch]:
            state.best_epoch = epoch
            state.best_weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            if checkpoint is not None and world.is_main:
                save_checkpoint(checkpoint, state.best_weights, config, epoch, accuracies[-1])
        if checkpoint is not None and world.is_main:
            state.weights, state.optimiser = model.state_dict(), optimiser.state_dict()
            save_state(state_path(checkpoint), state)
        if on_epoch is not None:
            on_epoch(state.epochs[-1])
    model.load_state_dict(state.best_weights)
    return FitResult(
        [report.times for report in state.epochs],
        accuracies,
        [report.train_accuracy for report in state.epochs],
        state.best_epoch,
        evaluate(model, test, target, world),
        checkpoint,
    )
