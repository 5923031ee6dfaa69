"""What a training run is told, and its files. May import: the argument checks of sampler, tomli."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from salient.sampler import require_fanouts, require_int

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEDULES = ("none", "cosine", "plateau")

# Seconds without a sign of life after which the other ranks give one up.
RANK_TIMEOUT = 25.0


@dataclass(frozen=True)
class TrainConfig:
    """Hyperparameters of one run; the defaults are the paper's for SAGE on one GPU.

    Parameters
    ----------
    model : str
        Name of a class in :mod:`salient.models`.
    hidden : int
        Width of the inner layers.
    fanouts : tuple of int
        Training fanouts, the hop at the seeds first; their number is the number of layers.
    eval_fanouts : tuple of int
        Fanouts of sampled validation and test.
    batch_size, eval_batch_size : int
        Seeds per batch, and per rank where there are several.
    lr : float
        Learning rate of Adam.
    dropout : float
    epochs : int
    seed : int
        Fixes weights, dropout, order of seeds and sampling.
    schedule : {"none", "cosine", "plateau"}
        Of the learning rate, see :func:`salient.schedule.learning_rate`.
    patience : int
        Stop after so many epochs without a better validation accuracy; 0 for never.

    Raises
    ------
    TypeError, ValueError
        A value of the wrong kind or out of its range, by name.
    """

    model: str = "SAGE"
    hidden: int = 256
    fanouts: tuple[int, ...] = (15, 10, 5)
    eval_fanouts: tuple[int, ...] = (20, 20, 20)
    batch_size: int = 1024
    eval_batch_size: int = 512
    lr: float = 0.003
    dropout: float = 0.5
    epochs: int = 5
    seed: int = 0
    schedule: str = "none"
    patience: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            raise TypeError(f"model: expected a name, got {self.model!r}")
        if self.schedule not in SCHEDULES:
            raise ValueError(
                f"schedule: {self.schedule!r} is unknown, expected one of {', '.join(SCHEDULES)}"
            )
        require_int(self.patience, "patience", 0)
        for name in ("hidden", "batch_size", "eval_batch_size", "epochs"):
            require_int(getattr(self, name), name, 1)
        require_int(self.seed, "seed", 0, 2**63 - 1)
        for name in ("fanouts", "eval_fanouts"):
            object.__setattr__(self, name, tuple(require_fanouts(getattr(self, name), name)))
        if len(self.fanouts) != len(self.eval_fanouts):
            raise ValueError(
                f"eval_fanouts: has {len(self.eval_fanouts)} hops, but fanouts has "
                f"{len(self.fanouts)}; a model has one layer per hop"
            )
        for name, least, largest in (("lr", 0.0, math.inf), ("dropout", 0.0, 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{name}: expected a number, got {value!r}")
            if not least <= value < largest:
                raise ValueError(f"{name}: is {value}, expected in [{least}, {largest})")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file: a flat table.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is no TOML, or has sections.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: there is no such configuration file") from error
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: is not TOML: {error}") from error
    sections = [key for key, value in settings.items() if isinstance(value, dict)]
    if sections:
        raise ValueError(f"{path}: has a section [{sections[0]}]; write all settings at the top")
    return settings


def write_toml(path: Path, settings: dict[str, Any]) -> None:
    """Write settings so that :func:`read_toml` returns them; None is left out.

    Parameters
    ----------
    path : Path
    settings : dict
        Values are str, int, float or lists of int.
    """
    # Such values are written alike in JSON and TOML.
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in settings.items()
        if value is not None
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
