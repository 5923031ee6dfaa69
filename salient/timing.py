"""Where an epoch's time goes: work done and exposed wait, stage by stage. May import nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class StageSeconds:
    """Seconds of one stage in one epoch.

    Parameters
    ----------
    work : float
        Time that the stage itself took, wherever it ran, all threads or processes added up.
    exposed : float
        Time that the training loop stood still for it.
    """

    work: float = 0.0
    exposed: float = 0.0


@dataclass
class EpochTimes:
    """Times and amount of work of one training epoch.

    Parameters
    ----------
    epoch : int
    total_seconds : float
        Wall-clock time from asking for the first batch to the end of the last step.
    batch_preparation, transfer, training : StageSeconds
    batches, nodes, edges, num_bytes : int
        Sums over the epoch: batches, nodes and sampled edges in them, bytes handed to the device.
    loss : float
        Mean over the seeds.
    """

    epoch: int
    total_seconds: float = 0.0
    batch_preparation: StageSeconds = field(default_factory=StageSeconds)
    transfer: StageSeconds = field(default_factory=StageSeconds)
    training: StageSeconds = field(default_factory=StageSeconds)
    batches: int = 0
    nodes: int = 0
    edges: int = 0
    num_bytes: int = 0
    loss: float = 0.0


def combine_ranks(times: Sequence[EpochTimes]) -> EpochTimes:
    """Return the times of an epoch that several ranks trained together, from those of each.

    Work, batches, nodes, edges and bytes are sums over the ranks, and exposed waits are means, so
    that they add up to an epoch; ``total_seconds`` is that of the slowest rank, and the loss is to
    be the same everywhere.
    """
    combined = EpochTimes(times[0].epoch, max(of_rank.total_seconds for of_rank in times))
    for name in ("batch_preparation", "transfer", "training"):
        parts: list[StageSeconds] = [getattr(of_rank, name) for of_rank in times]
        work = sum(part.work for part in parts)
        exposed = sum(part.exposed for part in parts) / len(parts)
        setattr(combined, name, StageSeconds(work, exposed))
    for name in ("batches", "nodes", "edges", "num_bytes"):
        setattr(combined, name, sum(getattr(of_rank, name) for of_rank in times))
    combined.loss = times[0].loss
    return combined
