"""How many in-edges the nodes of a graph have. May import: graph, numpy, matplotlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from salient.graph import Graph

# Nodes looked at together, so that a mapped graph needs little memory.
_BLOCK_NODES = 1 << 20


def in_degree_counts(graph: Graph) -> npt.NDArray[np.int64]:
    """Return the number of nodes of each in-degree, shape (largest degree + 1,)."""
    counts = np.zeros(1, np.int64)
    for start in range(0, graph.num_nodes, _BLOCK_NODES):
        block = np.bincount(np.diff(graph.indptr[start : start + _BLOCK_NODES + 1]))
        size = max(counts.size, block.size)
        counts = np.pad(counts, (0, size - counts.size)) + np.pad(block, (0, size - block.size))
    return counts


def draw_in_degrees(graph: Graph, title: str, path: Path) -> None:
    """Draw the share of nodes with at least a given in-degree, both axes logarithmic.

    Parameters
    ----------
    graph : Graph
    title : str
    path : Path
        Of the picture; its suffix says in which format.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The format is unknown, or no node has an in-edge.
    OSError
        The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "a picture needs matplotlib; pip install 'salient-bench[analysis]'"
        ) from error
    counts = in_degree_counts(graph)
    if counts.size < 2:
        raise ValueError(f"{title}: no node has an in-edge, so there is nothing to draw")
    at_least = counts[::-1].cumsum()[::-1] / graph.num_nodes
    degrees = np.flatnonzero(counts)
    degrees = degrees[degrees > 0]
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    axes.loglog(degrees, at_least[degrees], marker=".", markersize=3, linewidth=1)
    axes.set_xlabel("in-degree d")
    axes.set_ylabel("share of nodes with in-degree ≥ d")
    average = graph.num_edges / graph.num_nodes
    axes.set_title(f"{title}: {graph.num_nodes:,} nodes, average in-degree {average:.1f}")
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.savefig(path, dpi=150)
