"""How cost grows: time per sampled edge and per sliced byte, against size, fanout and batch.

``python -m benchmarks.growth`` varies one of them at a time, for every system that works here.
Flat lines that step at the sizes of the caches are what to look for; a rising line is a cost that
grows faster than the work.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from baselines import SYSTEMS
from benchmarks.contest import (
    Contestant,
    describe_system,
    graph_info,
    interleave,
    sampling_contestants,
    write_contest,
)
from benchmarks.graphs import heavy_tailed_graph
from salient import records
from salient.graph import Graph
from salient.run_record import RunClock
from salient.tables import gather_rows

EXPERIMENT = "growth"
DEGREE = 50  # mean in-degree of every graph, that of ogbn-products
FANOUTS = (15, 10, 5)
BATCH = 1024
SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 124_000_000)  # directed edges
MIDDLE = 10_000_000
SINGLE_FANOUTS = (1, 2, 5, 10, 20, 50, 100, -1)
BATCH_SIZES = (1, 16, 128, 1024, 4096, 16_384)
ROWS = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
ROW_BYTES = 200

log = logging.getLogger(__name__)


def _batches(graph: Graph, size: int, count: int) -> list[Any]:
    """Return ``count`` batches of distinct seeds, of ``size`` or what the graph allows."""
    rng = np.random.default_rng(3)
    size = min(size, graph.num_nodes // 2)
    return [rng.choice(graph.num_nodes, size, replace=False) for _ in range(count)]


class Growth:
    """Measures cells of one axis and writes their records."""

    def __init__(self, systems: Sequence[str], results: Path, rounds: int) -> None:
        self.systems = systems
        self.results = results
        self.rounds = rounds
        self.clock = RunClock()

    def sample(
        self, graph: Graph, axis: str, value: int, fanouts: Sequence[int], batch: int
    ) -> None:
        """Measure every system's sampler in one cell."""
        log.info("%s = %s", axis, value)
        contestants, missing = sampling_contestants(graph, fanouts, self.systems)
        interleave(contestants, _batches(graph, batch, self.rounds + 1), warm_up=1)
        write_contest(
            self.results,
            EXPERIMENT,
            contestants,
            missing,
            systems={name: describe_system(name) for name in self.systems},
            dataset=graph_info(graph, f"heavy-tailed, {graph.num_edges:,} edges"),
            config={
                "axis": axis,
                "value": value,
                "fanouts": list(fanouts),
                "batch_size": batch,
                "graph_bytes": int(graph.indptr.nbytes + graph.indices.nbytes),
            },
            clock=self.clock,
        )

    def slice(self, num_rows: int) -> None:
        """Measure slicing from a table of ``num_rows`` rows."""
        log.info("rows = %s", num_rows)
        table = torch.ones(num_rows, ROW_BYTES // 2, dtype=torch.float16)
        count = max(min(num_rows, 200_000), 1)
        out = torch.zeros(count, ROW_BYTES // 2, dtype=torch.float16)

        def index_select(ids: Any) -> tuple[int, int]:
            torch.index_select(table, 0, torch.from_numpy(ids), out=out)
            return count, 0

        def ours(ids: Any) -> tuple[int, int]:
            gather_rows(table, ids, out)
            return count, 0

        contestants = [Contestant("torch.index_select", index_select), Contestant("salient", ours)]
        rng = np.random.default_rng(4)
        ids = [rng.integers(0, num_rows, count) for _ in range(self.rounds + 1)]
        interleave(contestants, ids, warm_up=1)
        write_contest(
            self.results,
            EXPERIMENT,
            contestants,
            {},
            systems={
                "torch.index_select": records.System(
                    name="torch.index_select",
                    label="torch.index_select",
                    version=torch.__version__,
                    form="",
                ),
                "salient": describe_system("salient"),
            },
            dataset=records.DatasetInfo(
                name=f"{num_rows:,} rows of {ROW_BYTES} bytes",
                num_nodes=num_rows,
                num_edges=0,
                num_features=ROW_BYTES // 2,
                num_classes=0,
                checksum="constant rows",
            ),
            config={"axis": "rows", "value": num_rows, "row_bytes": ROW_BYTES},
            clock=self.clock,
        )


@click.command()
@click.option("--systems", default=",".join(SYSTEMS), show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Batches that are kept per cell.")
@click.option("--largest", default=SIZES[-1], show_default=True, help="Edges of the largest graph.")
@click.option("--results", type=click.Path(path_type=Path), required=True)
def main(systems: str, rounds: int, largest: int, results: Path) -> None:
    """Measure how costs grow and write the records."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.set_num_threads(1)
    growth = Growth(systems.split(","), results, rounds)
    for num_edges in [size for size in SIZES if size <= largest]:
        graph = heavy_tailed_graph(num_edges // DEGREE, num_edges, seed=0)
        growth.sample(graph, "edges", num_edges, FANOUTS, BATCH)
    graph = heavy_tailed_graph(min(MIDDLE, largest) // DEGREE, min(MIDDLE, largest), seed=0)
    for fanout in SINGLE_FANOUTS:
        growth.sample(graph, "fanout", fanout, [fanout], 4 * BATCH)
    for batch in BATCH_SIZES:
        growth.sample(graph, "batch_size", batch, FANOUTS, batch)
    for rows in ROWS:
        growth.slice(rows)


if __name__ == "__main__":
    main()
