"""What a training run is told. May import: the argument checks of sampler."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from salient.sampler import require_fanouts, require_int


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
        Seeds per batch.
    lr : float
        Learning rate of Adam.
    dropout : float
    epochs : int
    seed : int
        Fixes weights, dropout, order of seeds and sampling.

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

    def __post_init__(self) -> None:
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
