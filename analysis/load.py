"""Result records as tidy data frames: one row per run, one column per quantity.

May import: ``salient.records``; numpy, pandas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pandas as pd

from salient.records import EpochStages, Record

EPOCH_BREAKDOWN = "epoch_breakdown"

QUANTITIES = (
    "epoch_seconds",
    "batch_preparation_work_seconds",
    "batch_preparation_exposed_seconds",
    "transfer_work_seconds",
    "transfer_exposed_seconds",
    "training_work_seconds",
    "training_exposed_seconds",
)

_STAGES = ("batch_preparation", "transfer", "training")

# Setting keys that change how much work an epoch is; the others change how it is done.
_WORKLOAD_KEYS = ("model", "hidden", "fanouts", "batch_size")


def runs_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per epoch-breakdown record, in the order of the records.

    Parameters
    ----------
    records : iterable of Record
        Records of other experiments are left out.

    Returns
    -------
    DataFrame
        Texts that identify the row (``dataset``, ``checksum``, ``system``, ``label``, ...),
        ``config`` as a dict, the mean of each of ``QUANTITIES`` over the epochs after the
        warm-up (NaN where not measured, with the reason in ``<stage>_reason``),
        ``nodes_per_batch``, ``edges_per_batch``, ``test_accuracy``, and where the run was
        made (``machine``, ``commit``, ``dirty``).
    """
    rows = [_run_row(record) for record in records if record.experiment == EPOCH_BREAKDOWN]
    return pd.DataFrame(rows)


def _run_row(record: Record) -> dict[str, object]:
    timed = [stage for stage in record.stages if not stage.warm_up]
    status, reason = record.status, record.reason
    if status == "ok" and not timed:
        status, reason = "failed", "no epoch after the warm-up was recorded"
    git = _section(record, "git")
    return {
        "record_id": record.record_id,
        "dataset": record.dataset.name,
        "checksum": record.dataset.checksum,
        "num_nodes": record.dataset.num_nodes,
        "description": record.dataset.description,
        "system": record.system.name,
        "label": record.system.label,
        "version": record.system.version,
        "form": record.system.form,
        "settings": _canonical(record.system.settings),
        "config": record.config,
        "config_text": _canonical(record.config),
        "workers": record.config.get("workers"),
        "workload": _canonical({key: record.config.get(key) for key in _WORKLOAD_KEYS}),
        "device": record.device.actual or record.device.requested,
        "emulated": record.device.emulated,
        "simulated": record.device.simulated,
        "seed": record.seed,
        "repeat": record.repeat,
        "status": status,
        "reason": reason,
        **_stage_means(timed),
        **{f"{stage}_reason": _reason(timed, stage) for stage in _STAGES},
        "nodes_per_batch": _number(record.work.nodes_per_batch if record.work else None),
        "edges_per_batch": _number(record.work.edges_per_batch if record.work else None),
        "test_accuracy": _number(record.accuracy.test if record.accuracy else None),
        "machine": machine_of(record),
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
    }


def _stage_means(timed: list[EpochStages]) -> dict[str, float]:
    means = {"epoch_seconds": _mean([stage.total_seconds for stage in timed])}
    for name in _STAGES:
        for kind in ("work_seconds", "exposed_seconds"):
            values = [getattr(getattr(stage, name), kind) for stage in timed]
            means[f"{name}_{kind}"] = _mean(values)
    return means


def _mean(values: list[float | None]) -> float:
    """Mean of the values, NaN if one of them was not measured or there are none."""
    measured = [value for value in values if value is not None]
    if not measured or len(measured) < len(values):
        return math.nan
    return math.fsum(measured) / len(measured)


def _reason(timed: list[EpochStages], name: str) -> str:
    reasons = (getattr(stage, name).reason.strip() for stage in timed)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _section(record: Record, name: str) -> dict[str, object]:
    section = record.environment.get(name)
    return dict(section) if isinstance(section, dict) else {}


def machine_of(record: Record) -> str:
    """Name the machine by what makes it fast or slow; hosts have no names in records."""
    machine = _section(record, "machine")
    if not machine:
        return "unknown machine"
    text = f"{machine.get('cpu_model')}, {machine.get('affinity')} of {machine.get('cores')} cores"
    memory = machine.get("memory_bytes")
    if isinstance(memory, int):
        text += f", {memory / 2**30:.0f} GiB"
    names = _section(record, "gpus").get("names")
    if isinstance(names, list) and names:
        text += f", {', '.join(str(name) for name in names)}"
    return text
