"""Sampling, slicing and batch preparation on CPU threads, each system against the others.

``python -m benchmarks.sampling`` measures, on one graph and in one process: one thread that
samples, for every system that works here; one thread that slices, against ``torch.index_select``;
and whole batches by SALIENT's threads.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch
from tabulate import tabulate

from baselines import SYSTEMS, get_system
from benchmarks.contest import (
    Contestant,
    describe_system,
    graph_info,
    interleave,
    sampling_contestants,
    write_contest,
)
from benchmarks.design_study.floor import count_workload, least_seconds
from benchmarks.design_study.programs import BuildError, build, run_json
from benchmarks.graphs import GRAPHS, make_graph
from salient.cli import IntList
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.run_record import RunClock
from salient.tables import gather_rows

log = logging.getLogger(__name__)


def measure_floor(
    graph: Graph, fanouts: Sequence[int], seeds: npt.NDArray[np.int64]
) -> tuple[float | None, str]:
    """Return the least seconds that a batch can take on this machine, and the sum in words.

    Without a way to build the program that measures the machine's parts: None, and why.
    """
    try:
        program = build(swiss=False, targets=("floor",)) / "floor"
    except BuildError as error:
        return None, f"not measured: {str(error).splitlines()[0]}"
    workload = count_workload(graph, fanouts, seeds)
    results = run_json(program, 7, *workload.sizes)
    terms = least_seconds(workload, {one["name"]: one["values"] for one in results})
    words = " + ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in terms.items())
    return sum(terms.values()), f"{sum(terms.values()) * 1e3:.1f} ms = {words}"


def measure_slicing(
    num_rows: int, row_bytes: int, ids: Sequence[npt.NDArray[np.int64]]
) -> list[Contestant]:
    """Return ``torch.index_select`` and ours, both into a buffer that is there already."""
    table = torch.ones(num_rows, row_bytes // 2, dtype=torch.float16)
    out = torch.zeros(max(len(part) for part in ids), row_bytes // 2, dtype=torch.float16)

    def index_select(rows: npt.NDArray[np.int64]) -> tuple[int, int]:
        torch.index_select(table, 0, torch.from_numpy(rows), out=out[: len(rows)])
        return len(rows), 0

    def ours(rows: npt.NDArray[np.int64]) -> tuple[int, int]:
        gather_rows(table, rows, out[: len(rows)])
        return len(rows), 0

    contestants = [Contestant("torch.index_select", index_select), Contestant("salient", ours)]
    interleave(contestants, ids)
    return contestants


def measure_preparation(
    graph: Graph,
    fanouts: Sequence[int],
    batch_size: int,
    threads: Sequence[int],
    rounds: int,
    batches_per_epoch: int = 128,
) -> dict[str, list[float]]:
    """Return seconds per batch of whole epochs by number of threads, interleaved.

    Features are 100 float16 columns, as ogbn-products has them.
    """
    x = torch.ones(graph.num_nodes, 100, dtype=torch.float16)
    y = torch.zeros(graph.num_nodes, dtype=torch.int64)
    nodes = np.random.default_rng(1).permutation(graph.num_nodes)
    nodes = nodes[: min(batches_per_epoch * batch_size, graph.num_nodes)]
    loaders = {
        count: NeighborLoader(
            (graph, x, y), fanouts, nodes, batch_size, shuffle=True, num_threads=count
        )
        for count in threads
    }
    # One loader a thread: nothing is shared but the machine, which bounds what threads can gain.
    apart = {
        count: [
            NeighborLoader((graph, x, y), fanouts, nodes, batch_size, shuffle=True, num_threads=1)
            for _ in range(count)
        ]
        for count in threads
        if count > 1
    }
    seconds: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for count, loader in loaders.items():
            spent = _drain([loader])
            if number > 0:  # the first epoch grows slabs and scratch
                seconds.setdefault(str(count), []).append(spent)
        for count, several in apart.items():
            spent = _drain(several)
            if number > 0:
                seconds.setdefault(f"{count}, a loader each", []).append(spent)
    return seconds


def _drain(loaders: Sequence[NeighborLoader]) -> float:
    """Return seconds per batch of one epoch of all loaders at once, each drained by a thread."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(loaders)) as pool:
        num_batches = sum(pool.map(lambda loader: sum(1 for _ in loader), loaders))
    return (time.perf_counter() - began) / num_batches


def _github(rows: list[list[Any]], headers: list[str]) -> str:
    return str(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def _sampling_table(
    contestants: Sequence[Contestant], missing: dict[str, str], floor: float | None
) -> str:
    ours = next((c.median for c in contestants if c.name == "salient"), None)
    rows = []
    for c in contestants:
        low, high = c.quartiles
        edges = statistics.mean(c.edges)
        rows.append(
            [
                get_system(c.name).label,
                get_system(c.name).form,
                _milliseconds(c.median),
                f"{_milliseconds(low)} to {_milliseconds(high)}",
                f"{statistics.mean(c.nodes):,.0f}",
                f"{edges:,.0f}",
                f"{edges / c.median / 1e6:.2f}",
                "n/a" if ours is None else f"{c.median / ours:.2f}",
                "n/a" if floor is None else f"{c.median / floor:.2f}",
            ]
        )
    rows += [[name, "", "n/a", reason[:60], *[""] * 5] for name, reason in missing.items()]
    headers = [
        "system", "form", "ms per batch", "quartiles", "nodes", "edges", "M edges/s", "time / ours",
        "time / floor",
    ]  # fmt: skip
    return _github(rows, headers)


def _slicing_table(measured: dict[int, list[Contestant]]) -> str:
    rows = [
        [
            row_bytes,
            c.name,
            _milliseconds(c.median),
            f"{statistics.mean(c.nodes) * row_bytes / c.median / 1e9:.2f}",
            f"{c.median / contestants[-1].median:.2f}",
        ]
        for row_bytes, contestants in measured.items()
        for c in contestants
    ]
    return _github(rows, ["bytes per row", "slicing by", "ms per batch", "GB/s", "time / ours"])


def _preparation_table(seconds: dict[str, list[float]]) -> str:
    first = statistics.median(next(iter(seconds.values())))
    rows = [
        [
            count,
            _milliseconds(statistics.median(values)),
            f"{_milliseconds(min(values))} to {_milliseconds(max(values))}",
            f"{first / statistics.median(values):.2f}",
        ]
        for count, values in seconds.items()
    ]
    headers = ["threads", "ms per batch", "range", "speed-up"]
    return _github(rows, headers)


@click.command()
@click.option(
    "--graph", "graph_name", type=click.Choice(sorted(GRAPHS)), default="products",
    show_default=True, help="Size of the heavy-tailed random graph.",
)  # fmt: skip
@click.option("--fanouts", type=IntList(), default=(15, 10, 5), help="[default: 15,10,5]")
@click.option("--batch-size", default=1024, show_default=True)
@click.option("--rounds", default=10, show_default=True, help="Batches that are kept.")
@click.option("--systems", default=",".join(SYSTEMS), show_default=True)
@click.option("--threads", type=IntList(), default=(1, 2), help="[default: 1,2]")
@click.option("--results", type=click.Path(path_type=Path), help="Folder for result records.")
def main(
    graph_name: str,
    fanouts: tuple[int, ...],
    batch_size: int,
    rounds: int,
    systems: str,
    threads: tuple[int, ...],
    results: Path | None,
) -> None:
    """Measure samplers, slicing and batch preparation, and print their ratios."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    clock = RunClock()
    log.info("making the %s graph", graph_name)
    graph = make_graph(graph_name)
    permutation = np.random.default_rng(0).permutation(graph.num_nodes)
    starts = range(0, graph.num_nodes - batch_size + 1, batch_size)
    batches = [permutation[start : start + batch_size] for start in starts[: rounds + 2]]

    intra_op = torch.get_num_threads()
    torch.set_num_threads(1)
    log.info("sampling, %d rounds; systems are got ready first", rounds)
    contestants, missing = sampling_contestants(graph, fanouts, systems.split(","))
    interleave(contestants, batches)
    click.echo(f"\nSampling on one thread, {graph}, fanouts {list(fanouts)}, batch {batch_size}\n")
    floor, words = measure_floor(graph, fanouts, batches[0])
    click.echo(_sampling_table(contestants, missing, floor))
    click.echo(f"\nFloor, the least time for such a batch here: {words}")
    if results is not None:
        write_contest(
            results,
            "sampling",
            contestants,
            missing,
            systems={name: describe_system(name) for name in systems.split(",")},
            dataset=graph_info(graph, graph_name),
            config={"fanouts": list(fanouts), "batch_size": batch_size},
            clock=clock,
        )
    contestants.clear()  # and with them the baselines' copies of the graph

    rng = np.random.default_rng(2)
    rows = min(500_000, graph.num_nodes)
    ids = [rng.choice(graph.num_nodes, rows, replace=False) for _ in range(rounds + 2)]
    click.echo(f"\nSlicing {rows:,} of {graph.num_nodes:,} rows on one thread\n")
    sizes = (200, 256, 512, 1024)
    click.echo(_slicing_table({b: measure_slicing(graph.num_nodes, b, ids) for b in sizes}))

    click.echo("\nBatch preparation by SALIENT: sampling and slicing 200-byte rows\n")
    prepared = measure_preparation(graph, fanouts, batch_size, threads, max(3, rounds // 2))
    click.echo(_preparation_table(prepared))
    torch.set_num_threads(intra_op)


if __name__ == "__main__":
    main()
