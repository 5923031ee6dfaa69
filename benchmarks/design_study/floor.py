"""The least time for a batch, from what it must touch and what the machine's parts cost.

Least time = lines of ``indptr`` x cost of a random line in a table of its size
+ lines of ``indices`` x cost of a line in a table of its size
+ table probes x cost of a line in a table of the relabelling array's size
+ draws x cost of a draw + bytes written / copy bandwidth.

Counted once is what a batch cannot avoid: each distinct line of ``indptr`` and ``indices``, one
probe per edge and seed, one draw per edge of a node with more in-edges than the fanout. Arithmetic
is taken not to overlap with memory. May import: numpy, ``salient``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from salient.graph import Graph
from salient.sampler import NeighborSampler

_LINE = 64


@dataclass(frozen=True)
class Workload:
    """What one batch must touch, and the sizes of what it touches."""

    indptr_lines: int
    indices_lines: int
    table_probes: int
    draws: int
    output_bytes: int
    indptr_bytes: int
    indices_bytes: int
    table_bytes: int

    @property
    def sizes(self) -> list[int]:
        """Bytes of indptr, indices and a relabelling array; a line at least."""
        return [max(n, _LINE) for n in (self.indptr_bytes, self.indices_bytes, self.table_bytes)]


def count_workload(graph: Graph, fanouts: Sequence[int], seeds: npt.NDArray[np.int64]) -> Workload:
    """Return what the batch of ``seeds`` touches, from a sample with edge ids.

    Parameters
    ----------
    graph : Graph
        Without edge ids of its own: positions in ``indices`` are what is counted.
    fanouts : sequence of int
    seeds : array of int64, shape (batch_size,)
    """
    batch = NeighborSampler(graph, list(fanouts), seed=0, edge_ids=True).sample(seeds)
    n_id = batch.n_id.numpy()
    mfgs = batch.mfgs[::-1]  # the seeds' hop first
    expanded = n_id[: mfgs[-1].num_dst]
    degrees = graph.indptr[expanded + 1] - graph.indptr[expanded]
    positions = []
    for mfg in mfgs:
        assert mfg.e_id is not None
        positions.append(mfg.e_id.numpy())
    ids_per_line = _LINE // graph.indices.itemsize
    num_edges = sum(mfg.num_edges for mfg in mfgs)
    return Workload(
        indptr_lines=len(np.unique(expanded // (_LINE // 8))),
        indices_lines=len(np.unique(np.concatenate(positions) // ids_per_line)),
        table_probes=num_edges + len(seeds),
        draws=sum(
            int(np.count_nonzero(degrees[: mfg.num_dst] > fanout)) * fanout
            for mfg, fanout in zip(mfgs, fanouts, strict=True)
        ),
        output_bytes=4 * (num_edges + len(n_id) + sum(mfg.num_dst + 1 for mfg in mfgs)),
        indptr_bytes=graph.indptr.nbytes,
        indices_bytes=graph.indices.nbytes,
        table_bytes=4 * graph.num_nodes,
    )


def least_seconds(workload: Workload, costs: dict[str, list[float]]) -> dict[str, float]:
    """Return the seconds of each term of the formula above.

    Parameters
    ----------
    workload : Workload
    costs : dict
        Values of the program ``floor`` by name. The smallest of the repeats counts, and of huge
        and small pages and of the generators the cheaper: this is a lower bound.
    """
    indptr, indices, table = (
        min(min(costs[line_name(size, pages)]) for pages in ("huge", "small")) * 1e-9
        for size in workload.sizes
    )
    draw = min(min(values) for name, values in costs.items() if name.startswith("draw")) * 1e-9
    return {
        "indptr lines": workload.indptr_lines * indptr,
        "indices lines": workload.indices_lines * indices,
        "table probes": workload.table_probes * table,
        "draws": workload.draws * draw,
        "bytes written": workload.output_bytes / (max(costs["copy"]) * 1e9),
    }


def line_name(size: int, pages: str) -> str:
    """Return the name under which the program ``floor`` reports a table of ``size`` bytes."""
    return f"random line, {size} bytes, {pages} pages"
