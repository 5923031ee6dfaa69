"""From a training run to its result record.

May import: config, datasets, provenance, records, timing, trainer.
"""

from __future__ import annotations

import statistics
from datetime import datetime, timezone
from typing import Any, Literal

from salient import records
from salient.config import TrainConfig
from salient.datasets import Dataset
from salient.provenance import environment
from salient.timing import EpochTimes, StageSeconds
from salient.trainer import FitResult

WARM_UP_EPOCHS = 1


class RunClock:
    """When a run began, and the state of the machine just before."""

    def __init__(self) -> None:
        self.environment = environment()
        self.started_at = datetime.now(timezone.utc)

    def seconds(self) -> float:
        """Return the seconds since the start, never negative if the clock was set back."""
        return max((datetime.now(timezone.utc) - self.started_at).total_seconds(), 0.0)


def dataset_info(dataset: Dataset) -> records.DatasetInfo:
    """Return what a record says of a data set."""
    return records.DatasetInfo(
        name=dataset.name,
        num_nodes=dataset.num_nodes,
        num_edges=dataset.graph.num_edges,
        num_features=dataset.num_features,
        num_classes=dataset.num_classes,
        checksum=str(dataset.description["sha256"]),
        description="; ".join(
            f"{key}: {dataset.description[key]}"
            for key in ("source", "edges", "features", "split", "licence")
            if dataset.description.get(key)
        ),
    )


def training_record(
    *,
    experiment: str,
    system: dict[str, Any],
    dataset: Dataset,
    config: TrainConfig,
    settings: dict[str, Any],
    samples: dict[str, float] | None = None,
    device: str,
    clock: RunClock,
    result: FitResult | None = None,
    status: Literal["ok", "not_available", "failed"] = "ok",
    reason: str = "",
) -> records.Record:
    """Return the record of one training run, or of one that could not be made.

    Parameters
    ----------
    experiment : str
        What the run was for; part of the file name.
    system : dict
        As ``System.describe`` of the baselines returns it.
    settings : dict
        What was chosen besides ``config``, for example the number of workers.
    samples : dict, optional
        Seconds measured on the way to that choice, by name.
    result : FitResult, optional
        Absent if ``status`` is not ``"ok"``; ``reason`` says why.
    """
    return records.Record(
        record_id=records.new_record_id(),
        experiment=experiment,
        item="table1",
        system=records.System(**system),
        dataset=dataset_info(dataset),
        config={key: value for key, value in config.as_dict().items() if key != "seed"} | settings,
        seed=config.seed,
        repeat=0,
        device=records.Device(requested=device, actual=device if result else ""),
        work=None if result is None else mean_work(result.epochs),
        stages=[] if result is None else [epoch_stages(times) for times in result.epochs],
        samples=[
            records.Sample(name=name, unit="s", values=[value])
            for name, value in (samples or {}).items()
        ],
        accuracy=None
        if result is None
        else records.Accuracy(
            train=result.train_accuracy,
            valid=result.valid_accuracy[result.best_epoch],
            test=result.test_accuracy,
            best_epoch=result.best_epoch,
        ),
        environment=clock.environment,
        status=status,
        reason=reason,
        started_at=clock.started_at,
        seconds=clock.seconds(),
    )


def mean_work(epochs: list[EpochTimes]) -> records.Work:
    """Return the batches of an epoch and their mean size, over all epochs."""
    batches = sum(times.batches for times in epochs)
    return records.Work(
        batches=round(statistics.mean(times.batches for times in epochs)),
        nodes_per_batch=sum(times.nodes for times in epochs) / batches,
        edges_per_batch=sum(times.edges for times in epochs) / batches,
        bytes_per_batch=sum(times.num_bytes for times in epochs) / batches,
    )


def epoch_stages(times: EpochTimes) -> records.EpochStages:
    """Return one epoch's times; the first epochs of a run are warm-up."""
    return records.EpochStages(
        epoch=times.epoch,
        warm_up=times.epoch < WARM_UP_EPOCHS,
        total_seconds=times.total_seconds,
        batch_preparation=_seconds(times.batch_preparation),
        transfer=_seconds(times.transfer),
        training=_seconds(times.training),
    )


def _seconds(stage: StageSeconds) -> records.StageSeconds:
    return records.StageSeconds(work_seconds=stage.work, exposed_seconds=stage.exposed)
