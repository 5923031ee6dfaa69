"""From an edge list to CSC form: ours against SciPy, torch and DGL, in time and in memory.

``python -m benchmarks.conversion`` converts one list of random edges, heavy-tailed in both ends and
in random order, by every contestant in turn. Memory is the peak of resident memory during a
conversion above what was resident before it, so that the result itself counts.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import psutil
import scipy.sparse
import torch
from tabulate import tabulate

from salient.datasets.conversion import ArrayEdges, convert_edges
from salient.datasets.sink import MemorySink

log = logging.getLogger(__name__)

Convert = Callable[[npt.NDArray[np.int32], int], Any]


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> npt.NDArray[np.int32]:
    """Return edges whose ends are skewed towards few nodes, int32, shape (2, num_edges).

    A node's chance falls with the square root of its rank; ranks are dealt at random.
    """
    rng = np.random.default_rng(seed)
    name_of_rank = rng.permutation(num_nodes).astype(np.int32)
    edges = np.empty((2, num_edges), np.int32)
    block = 1 << 22
    for row in edges:
        for start in range(0, num_edges, block):
            part = row[start : start + block]
            rank = (rng.random(len(part)) ** 2 * num_nodes).astype(np.int64)
            part[...] = name_of_rank[rank]
    return edges


def contestants(scratch_share: float) -> dict[str, Convert]:
    """Return the ways to convert, by name."""

    def ours(**options: Any) -> Convert:
        def convert(edges: npt.NDArray[np.int32], num_nodes: int) -> Any:
            sink = MemorySink()
            convert_edges(ArrayEdges(edges), num_nodes, sink, **options)
            return sink.arrays

        return convert

    def bounded(edges: npt.NDArray[np.int32], num_nodes: int) -> Any:
        limit = int(scratch_share * edges.shape[1] * edges.itemsize)
        return ours(memory_limit=limit)(edges, num_nodes)

    def by_scipy(edges: npt.NDArray[np.int32], num_nodes: int) -> Any:
        values = np.ones(edges.shape[1], np.int8)
        coo = scipy.sparse.coo_matrix((values, (edges[0], edges[1])), (num_nodes, num_nodes))
        return coo.tocsc()

    def by_torch(edges: npt.NDArray[np.int32], num_nodes: int) -> Any:
        source, target = torch.from_numpy(edges)
        ordered, order = torch.sort(target, stable=True)
        counts = torch.bincount(ordered, minlength=num_nodes)
        return counts.cumsum(0), source[order]

    return {
        "salient": ours(),
        "salient, one thread": ours(num_threads=1),
        f"salient, scratch {scratch_share:g} of the result": bounded,
        "salient, symmetrised without duplicates": ours(symmetrise=True),
        "scipy coo -> csc": by_scipy,
        "torch sort": by_torch,
    }


def peak_above_start(action: Callable[[], Any]) -> tuple[float, float]:
    """Return seconds, and bytes of resident memory that ``action`` adds at its peak.

    The bytes are NaN where the system does not let a process reset its peak.
    """
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        resident = float("nan")
    else:
        resident = float(psutil.Process().memory_info().rss)
    began = time.perf_counter()
    kept = action()
    seconds = time.perf_counter() - began
    status = Path("/proc/self/status")
    peak = float("nan")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        peak = float(lines["VmHWM"].split()[0]) * 1024
    del kept
    return seconds, peak - resident


@click.command()
@click.option("--nodes", default=2_449_029, show_default=True)
@click.option("--edges", "num_edges", default=123_718_280, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option(
    "--scratch", default=0.25, show_default=True, help="Of the result, for the bounded run."
)
def main(nodes: int, num_edges: int, rounds: int, scratch: float) -> None:
    """Convert one random edge list by every contestant, and print times and memory."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    edges = random_edges(nodes, num_edges)
    result_bytes = 4 * num_edges + 8 * (nodes + 1)
    measured: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for name, convert in contestants(scratch).items():
            one = peak_above_start(lambda convert=convert: convert(edges, nodes))  # type: ignore[misc]
            log.info("round %d, %s: %.2f s", number, name, one[0])
            measured.setdefault(name, []).append(one)
    ours = statistics.median(seconds for seconds, _ in measured["salient"])
    rows = []
    for name, runs in measured.items():
        seconds = [one for one, _ in runs]
        median = statistics.median(seconds)
        rows.append(
            [
                name,
                f"{median:.2f}",
                f"{min(seconds):.2f} to {max(seconds):.2f}",
                f"{num_edges / median / 1e6:.1f}",
                f"{median / ours:.2f}",
                f"{max(memory for _, memory in runs) / result_bytes:.2f}",
            ]
        )
    headers = ["by", "s", "range", "M edges/s", "time / ours", "peak memory / result"]
    click.echo(f"\n{num_edges:,} edges, {nodes:,} nodes, int32 ids in random order\n")
    click.echo(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
