"""Which batch of an epoch is whose: global batches dealt out to ranks. May import: numpy, sampler.

An epoch's seeds, in its order, are cut into global batches of ``batch_size``; the last may be
smaller. In step ``s`` of an epoch on ``world_size`` ranks, rank ``r`` takes global batch
``s * world_size + r``. What is in a batch, and what is sampled for it, thus depends on its global
number and never on the world size. All ranks take the same number of steps; where fewer batches
than ranks are left for the last step, the others get a batch without seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from salient.sampler import require_bool, require_int


@dataclass(frozen=True)
class SeedPlan:
    """How the seeds of an epoch are shared out.

    Parameters
    ----------
    num_seeds : int
        Of the whole epoch, all ranks together.
    batch_size : int
        Seeds per batch of one rank.
    rank, world_size : int
    drop_last : bool
        Leave out a last global batch of fewer than ``batch_size`` seeds.

    Raises
    ------
    TypeError, ValueError
        A value of the wrong kind or out of its range, by name.
    """

    num_seeds: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name, least in (("num_seeds", 0), ("batch_size", 1), ("world_size", 1), ("rank", 0)):
            value = require_int(getattr(self, name), name, least, 2**63 - 1)
            object.__setattr__(self, name, value)
        require_bool(self.drop_last, "drop_last")
        if self.rank >= self.world_size:
            raise ValueError(
                f"rank: is {self.rank}, expected less than world_size, which is {self.world_size}"
            )

    @property
    def num_batches(self) -> int:
        """Number of global batches that have seeds."""
        whole, rest = divmod(self.num_seeds, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def num_steps(self) -> int:
        """Number of batches that each rank gets, the empty one of the last step included."""
        return -(-self.num_batches // self.world_size)

    @property
    def seeds_used(self) -> int:
        """Number of seeds in an epoch: all of them, unless ``drop_last`` leaves some out."""
        return min(self.num_seeds, self.num_batches * self.batch_size)

    def batch_numbers(self) -> npt.NDArray[np.int64]:
        """Return the global numbers of this rank's batches; those past the end have no seeds."""
        return np.arange(self.num_steps, dtype=np.int64) * self.world_size + self.rank

    def seeds_in_step(self, step: int) -> int:
        """Return the number of seeds of all ranks together in a step.

        The mean loss over them has the gradient that one process would get from the same seeds,
        whatever the world size: each rank weights the sum of its losses by one over this.

        Raises
        ------
        IndexError
            The epoch has no such step.
        """
        if not 0 <= step < self.num_steps:
            raise IndexError(f"step: is {step}, but the epoch has {self.num_steps} steps")
        per_step = self.batch_size * self.world_size
        return min(self.seeds_used - step * per_step, per_step)
