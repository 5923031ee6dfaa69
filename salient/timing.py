"""Where an epoch's time goes: work done and exposed wait, stage by stage. May import nothing."""

from __future__ import annotations

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
