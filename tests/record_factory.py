"""Result records for tests: `make_record` fills in everything that a test does not name."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from salient.records import (
    Accuracy,
    DatasetInfo,
    Device,
    EpochStages,
    Record,
    StageSeconds,
    System,
    Work,
    new_record_id,
)

ENVIRONMENT: dict[str, Any] = {
    "git": {"commit": "a" * 40, "dirty": False, "reason": ""},
    "machine": {"cpu_model": "Test CPU", "cores": 4, "affinity": 2, "memory_bytes": 8 * 2**30},
    "gpus": {"names": [], "driver": None, "reason": "none"},
}


def make_stage(work: float | None, exposed: float | None, reason: str = "") -> StageSeconds:
    return StageSeconds(work_seconds=work, exposed_seconds=exposed, reason=reason)


def make_epochs(
    totals: list[float],
    preparation: tuple[float | None, float | None] = (0.5, 0.4),
    transfer: tuple[float | None, float | None] = (0.2, 0.1),
    training: float | None = 0.3,
    reason: str = "test",
) -> list[EpochStages]:
    """A slow warm-up epoch of 1000 s in every stage, then one epoch per total."""
    slow = make_stage(1000.0, 1000.0)
    epochs = [
        EpochStages(
            epoch=0,
            warm_up=True,
            total_seconds=1000.0,
            batch_preparation=slow,
            transfer=slow,
            training=slow,
        )
    ]
    for number, total in enumerate(totals, start=1):
        epochs.append(
            EpochStages(
                epoch=number,
                warm_up=False,
                total_seconds=total,
                batch_preparation=make_stage(*preparation, reason),
                transfer=make_stage(*transfer, reason),
                training=make_stage(training, training, reason),
            )
        )
    return epochs


def make_record(
    system: str = "salient",
    *,
    label: str | None = None,
    form: str = "mfg",
    dataset: str = "tiny",
    checksum: str = "c0",
    num_nodes: int = 100,
    workers: int = 2,
    config: dict[str, Any] | None = None,
    totals: list[float] | None = None,
    edges: float | None = 1000.0,
    test: float | None = None,
    status: str = "ok",
    device: Device | None = None,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> Record:
    values: dict[str, Any] = {
        "record_id": new_record_id(),
        "experiment": "epoch_breakdown",
        "system": System(
            name=system,
            label=label or system,
            version="1.0",
            form=form,
            settings=settings or {},
        ),
        "dataset": DatasetInfo(
            name=dataset,
            num_nodes=num_nodes,
            num_edges=500,
            num_features=8,
            num_classes=3,
            checksum=checksum,
            description="made for tests",
        ),
        "config": {"model": "SAGE", "fanouts": [15, 10, 5], "batch_size": 1024, "workers": workers}
        | (config or {}),
        "seed": 0,
        "repeat": 0,
        "device": device or Device(requested="cpu", actual="cpu"),
        "environment": ENVIRONMENT,
        "status": status,
        "started_at": datetime(2025, 1, 1, tzinfo=timezone.utc),
        "seconds": 1.0,
    }
    if status == "ok":
        values["stages"] = make_epochs([1.0] if totals is None else totals)
        values["work"] = Work(
            batches=4, nodes_per_batch=300.0, edges_per_batch=edges, bytes_per_batch=4800.0
        )
        values["accuracy"] = Accuracy(test=test)
    return Record(**(values | fields))
