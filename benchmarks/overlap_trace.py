"""How much of the transfer's time the GPU spends computing too, by torch's profiler.

``python -m benchmarks.overlap_trace --dataset synthetic:small --device cuda --out trace.json``
trains a few batches with pipelined transfers, writes the profiler's trace for chrome://tracing, and
prints the share of copy time in which kernels ran. May import: salient, the ladder's step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.ladder import make_step
from salient.config import TrainConfig
from salient.datasets import load_dataset
from salient.loader import NeighborLoader
from salient.models import MODELS
from salient.transfer import CpuDevice, DevicePrefetcher, open_device

Interval = tuple[float, float]


def merge(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the union of intervals as disjoint ones, in order."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def overlap(first: Sequence[Interval], second: Sequence[Interval]) -> float:
    """Return how long intervals of both kinds hold at a time."""
    left, right = merge(first), merge(second)
    total, i, j = 0.0, 0, 0
    while i < len(left) and j < len(right):
        total += max(0.0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return total


def device_intervals(trace: dict[str, Any]) -> tuple[list[Interval], list[Interval]]:
    """Return the times of host-to-device copies and of kernels in a trace, in microseconds."""
    copies, kernels = [], []
    for event in trace["traceEvents"]:
        if "dur" not in event:
            continue
        interval = (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        if event.get("cat") == "kernel":
            kernels.append(interval)
        elif event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"]:
            copies.append(interval)
    return copies, kernels


@click.command()
@click.option("--dataset", required=True, help="Name of a data set.")
@click.option("--root", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option("--device", default="cuda", show_default=True, help="cuda or cpu.")
@click.option("--model", type=click.Choice(list(MODELS)), default="SAGE", show_default=True)
@click.option("--batches", type=click.IntRange(2), default=20, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("trace.json"), show_default=True
)
def main(dataset: str, root: Path | None, device: str, model: str, batches: int, out: Path) -> None:
    """Profile some training steps; print the share of copy time that kernels ran beside."""
    try:
        opened = open_device(device)
        loaded = load_dataset(dataset, root)
    except (OSError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    config = TrainConfig(model=model)
    loader = NeighborLoader(
        (loaded.graph, loaded.x, loaded.y),
        config.fanouts,
        input_nodes=loaded.split_idx["train"],
        batch_size=config.batch_size,
        shuffle=True,
    )
    step = make_step(opened, loaded, config)
    prefetcher = DevicePrefetcher(loader, opened)
    for batch in prefetcher:  # warm-up: memory, page-locking, kernels chosen
        step(batch)
    activities = [ProfilerActivity.CPU]
    activities += [] if isinstance(opened, CpuDevice) else [ProfilerActivity.CUDA]
    with profile(activities=activities) as profiler:
        for batch in islice(prefetcher, batches):
            with record_function("step"):
                step(batch)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    out.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(out))
    click.echo(f"written: {out}")
    copies, kernels = device_intervals(json.loads(out.read_text(encoding="utf-8")))
    if not copies:
        click.echo(f"{opened.name}: no copies to a device, so no overlap to measure")
        return
    copying = sum(end - begin for begin, end in merge(copies))
    click.echo(
        f"{opened.name}: {len(copies)} host-to-device copies, {copying / 1e3:.2f} ms; "
        f"{overlap(copies, kernels) / copying:.1%} of that time kernels ran"
    )


if __name__ == "__main__":
    main()
