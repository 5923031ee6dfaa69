"""Files of a training run: the best weights, and the state to continue from.

May import: config, timing, torch.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from salient.config import TrainConfig
from salient.timing import EpochTimes, StageSeconds

STATE_VERSION = 1

# What a continued run may be told otherwise than the run that it continues.
_MAY_CHANGE = ("epochs", "patience")


@dataclass(frozen=True)
class EpochReport:
    """What one epoch brought.

    Parameters
    ----------
    times : EpochTimes
        With the loss.
    train_accuracy : float
        On batches in training mode, while the weights changed.
    valid_accuracy : float
        Sampled, after the epoch.
    lr : float
    """

    times: EpochTimes
    train_accuracy: float
    valid_accuracy: float
    lr: float


@dataclass
class TrainState:
    """Where a run stands after an epoch: all that it needs to go on as if it had not stopped.

    Random draws depend on seed, epoch and batch number alone, and the learning rate on the
    accuracies so far, so there is no further state of either.

    Parameters
    ----------
    config : TrainConfig
    dataset_sha256 : str
    weights, optimiser : dict
        State dicts.
    best_weights : dict of Tensor
    best_epoch : int
    epochs : list of EpochReport
        One per finished epoch.
    """

    config: TrainConfig
    dataset_sha256: str
    weights: dict[str, Tensor] = field(default_factory=dict)
    optimiser: dict[str, Any] = field(default_factory=dict)
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    epochs: list[EpochReport] = field(default_factory=list)


def state_path(checkpoint: Path) -> Path:
    """Return where the state is kept, given where the best weights are: beside them."""
    return checkpoint.with_name("last.pt")


def save_checkpoint(
    path: Path, weights: dict[str, Tensor], config: TrainConfig, epoch: int, accuracy: float
) -> None:
    """Write weights and configuration; the file is complete or not there at all.

    ``torch.load(path, weights_only=True)`` reads it.
    """
    _save(
        path,
        {
            "weights": weights,
            "config": config.as_dict(),
            "epoch": epoch,
            "valid_accuracy": accuracy,
        },
    )


def save_state(path: Path, state: TrainState) -> None:
    """Write a state; the file is complete or not there at all."""
    _save(
        path,
        {
            "version": STATE_VERSION,
            "config": state.config.as_dict(),
            "dataset_sha256": state.dataset_sha256,
            "weights": state.weights,
            "optimiser": state.optimiser,
            "best_weights": state.best_weights,
            "best_epoch": state.best_epoch,
            "epochs": [asdict(report) for report in state.epochs],
        },
    )


def _save(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        torch.save(content, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_state(path: Path) -> TrainState:
    """Read a state. No code in the file is run.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is damaged, of another version, or something else.
    """
    try:
        file = path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: there is no such file; a run keeps its state in last.pt beside --checkpoint, "
            "from its first finished epoch on"
        ) from error
    try:
        content = torch.load(io.BytesIO(file), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{path}: cannot be read as the state of a run: {reason}; start a new run"
        ) from error
    version = content.get("version") if isinstance(content, dict) else None
    if version is None:
        raise ValueError(
            f"{path}: is not the state of a run; to continue one, give last.pt beside its best.pt"
        )
    if version != STATE_VERSION:
        raise ValueError(
            f"{path}: is of version {version}, this code reads {STATE_VERSION}; continue with the "
            "code that wrote it, or start anew"
        )
    return TrainState(
        TrainConfig(**content["config"]),
        content["dataset_sha256"],
        content["weights"],
        content["optimiser"],
        content["best_weights"],
        content["best_epoch"],
        [_as_report(report) for report in content["epochs"]],
    )


def _as_report(content: dict[str, Any]) -> EpochReport:
    times: dict[str, Any] = {
        name: StageSeconds(**value) if isinstance(value, dict) else value
        for name, value in content["times"].items()
    }
    return EpochReport(**{**content, "times": EpochTimes(**times)})


def require_continuable(state: TrainState, config: TrainConfig, dataset_sha256: str) -> None:
    """Raise ValueError unless a run with these settings continues the one of the state."""
    if dataset_sha256 != state.dataset_sha256:
        raise ValueError("resume: the run was on another data set; give the same one")
    before, now = state.config.as_dict(), config.as_dict()
    may_change = ("patience",) if config.schedule == "cosine" else _MAY_CHANGE
    for name, value in before.items():
        if name not in may_change and now[name] != value:
            why = ", on which the cosine schedule depends" if name == "epochs" else ""
            raise ValueError(
                f"resume: {name} is {now[name]!r}, but the run was started with {value!r}{why}; "
                "give the same, or start a new run"
            )
