"""The ladder's rungs, and what becomes of their measurements: a table and records.

May import: baselines, salient, the contest's description of systems, the sources of the ladder.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tabulate import tabulate

from benchmarks.contest import describe_system
from benchmarks.ladder_sources import PREPARATIONS, SAMPLERS
from salient import records
from salient.config import TrainConfig
from salient.datasets import Dataset
from salient.emulated import EmulatedDevice
from salient.run_record import WARM_UP_EPOCHS, RunClock, dataset_info, epoch_stages, mean_work
from salient.timing import EpochTimes
from salient.transfer import Device

EXPERIMENT = "ladder"
DEPTHS = {"blocking": 1, "pipelined": 2}


@dataclass
class Rung:
    """One combination of remedies, and what was measured of it.

    Parameters
    ----------
    sampler, preparation, transfer : str
        See :func:`benchmarks.ladder_sources.make_source`; the transfer is "blocking", where a copy
        begins when the step before it has ended, or "pipelined".
    label : str
        Name of the row.
    missing : str
        Why it could not be measured; empty if it could.
    """

    sampler: str
    preparation: str
    transfer: str
    label: str = ""
    missing: str = ""
    epochs: list[EpochTimes] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Rung:
        """Return the rung of "sampler/preparation/transfer"; ValueError if there is none."""
        parts = text.split("/")
        choices = (SAMPLERS, PREPARATIONS, tuple(DEPTHS))
        if len(parts) != 3 or any(p not in c for p, c in zip(parts, choices, strict=True)):
            raise ValueError(
                f"rung: {text!r} is none; expected one of each of "
                + " / ".join("|".join(choice) for choice in choices)
            )
        sampler, preparation, transfer = parts
        return cls(sampler, preparation, transfer, label=text)

    @property
    def measured(self) -> list[EpochTimes]:
        """The epochs after warm-up."""
        return self.epochs[WARM_UP_EPOCHS:]

    @property
    def seconds(self) -> list[float]:
        """Seconds of the measured epochs."""
        return [times.total_seconds for times in self.measured]


def paper_rungs() -> list[Rung]:
    """Return the rungs of the paper's Table 3."""
    return [
        Rung("pyg", "processes", "blocking", "PyG"),
        Rung("salient", "processes", "blocking", "+ fast sampling"),
        Rung("salient", "threads", "blocking", "+ shared-memory preparation"),
        Rung("salient", "threads", "pipelined", "+ pipelined transfers"),
    ]


def emulated_mark(device: Device) -> str:
    """Return what every title and row of an emulated device's times bears."""
    return " (emulated)" if isinstance(device, EmulatedDevice) else ""


def report(
    rungs: Sequence[Rung],
    device: Device,
    dataset: Dataset,
    config: TrainConfig,
    workers: int,
    alone: Sequence[float],
) -> str:
    """Return the table and how far its last row is from what bounds it."""
    mark = emulated_mark(device)
    headers = (
        "rung", "epoch s", "spread", "prep exposed", "prep work", "copy exposed", "copy work",
        "step", "edges/batch", "MB/batch",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for rung in rungs:
        if rung.missing:
            rows.append((rung.label + mark, f"n/a: {rung.missing}"))
            continue
        stages = [
            statistics.mean(getattr(getattr(times, stage), kind) for times in rung.measured)
            for stage, kind in (
                ("batch_preparation", "exposed"),
                ("batch_preparation", "work"),
                ("transfer", "exposed"),
                ("transfer", "work"),
                ("training", "work"),
            )
        ]
        batches = sum(times.batches for times in rung.epochs)
        rows.append(
            (
                rung.label + mark,
                f"{statistics.mean(rung.seconds):.3f}",
                f"{statistics.stdev(rung.seconds):.3f}" if len(rung.seconds) > 1 else "",
                *(f"{seconds:.3f}" for seconds in stages),
                f"{sum(times.edges for times in rung.epochs) / batches:,.0f}",
                f"{sum(times.num_bytes for times in rung.epochs) / batches / 1e6:.1f}",
            )
        )
    title = (
        f"Ladder on {dataset.name}, {config.model}, fanouts {list(config.fanouts)}, batches of "
        f"{config.batch_size}, device {device.name}{mark}, {workers} workers: seconds per epoch, "
        "mean and standard deviation"
    )
    text = f"{title}\n\n{tabulate(rows, headers, disable_numparse=True)}\n"
    last = rungs[-1]
    if isinstance(device, EmulatedDevice):
        text += (
            f"\nEmulated: no model is computed; copies and steps take stated times, host work is "
            f"real.\nNumbers: {device.describe()}\n"
        )
    if last.measured and alone:
        prepared = statistics.mean(alone)
        steps = statistics.mean(times.training.work for times in last.measured)
        excess = statistics.mean(last.seconds) / max(prepared, steps) - 1
        text += (
            f"\nPreparation alone, {last.preparation}: {prepared:.3f} s; steps{mark}: {steps:.3f} "
            f"s.\nThe last row{mark} is {excess:+.1%} from the larger of the two.\n"
        )
    return text


def make_record(
    rung: Rung,
    *,
    device: Device,
    requested: str,
    dataset: Dataset,
    config: TrainConfig,
    workers: int,
    alone: Sequence[float],
    clock: RunClock,
) -> records.Record:
    """Return the record of a rung: one epoch per turn."""
    system = describe_system("pyg_classic" if rung.sampler == "pyg" else "salient")
    settings = {
        "rung": rung.label,
        "sampler": rung.sampler,
        "preparation": rung.preparation,
        "transfer": rung.transfer,
        "depth": DEPTHS[rung.transfer],
        "workers": workers,
    }
    emulated = isinstance(device, EmulatedDevice)
    described: dict[str, Any] = {"emulated_device": device.describe()} if emulated else {}  # type: ignore[attr-defined]
    samples = [("preparation alone", list(alone))] if alone else []
    return records.Record(
        record_id=records.new_record_id(),
        experiment=EXPERIMENT,
        item="table3",
        system=system.model_copy(
            update={
                "label": rung.label + emulated_mark(device),
                "settings": {**system.settings, **settings},
            }
        ),
        dataset=dataset_info(dataset),
        config={k: v for k, v in config.as_dict().items() if k != "seed"} | settings | described,
        seed=config.seed,
        repeat=0,
        device=records.Device(
            requested=requested, actual="" if rung.missing else device.name, emulated=emulated
        ),
        work=mean_work(rung.epochs) if rung.epochs else None,
        stages=[epoch_stages(times) for times in rung.epochs],
        samples=[records.Sample(name=name, unit="s", values=values) for name, values in samples],
        environment=clock.environment,
        status="not_available" if rung.missing else "ok",
        reason=rung.missing,
        started_at=clock.started_at,
        seconds=clock.seconds(),
    )
