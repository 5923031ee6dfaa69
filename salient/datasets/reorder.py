"""Stores whose nodes lie in another order. May import: store, graph, numpy, torch, scipy, igraph.

Nodes that are sampled together and lie together share cache lines and pages. The user's own ids
stay in the array ``original_ids``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from salient.datasets.dataset import Dataset
from salient.datasets.splits import SPLIT_NAMES
from salient.datasets.store import StoreWriter, prepare
from salient.graph import Graph

# Edges, or rows of features, handled at a time, so that the temporaries stay small.
_BLOCK_EDGES = 1 << 22
_BLOCK_ROWS = 1 << 16

_METHODS = {
    "degree": "by in-degree, descending",
    "rcm": "reverse Cuthill-McKee, by SciPy",
    "community": "by Leiden community, by igraph; within one by in-degree, descending",
}
METHODS = tuple(_METHODS)


def node_order(graph: Graph, method: str) -> npt.NDArray[np.int64]:
    """Return the nodes in a new order, the same each time.

    Parameters
    ----------
    graph : Graph
    method : str
        - ``degree``: those with most in-edges first;
        - ``rcm``: reverse Cuthill-McKee (Cuthill and McKee 1969), in which neighbours are close;
        - ``community``: communities of the Leiden method (Traag et al. 2019, arXiv 1810.08473) one
          after the other, which takes some 100 bytes an edge.

    Returns
    -------
    array of int64, shape (num_nodes,)
        Old id of each new one.

    Raises
    ------
    ValueError
        Unknown method, or too many edges for it.
    ImportError
        The library is not installed.
    """
    if method not in _METHODS:
        raise ValueError(f"reorder: is {method!r}, expected one of {', '.join(METHODS)}")
    if method == "rcm":
        return _cuthill_mckee(graph)
    descending = -np.diff(graph.indptr)
    if method == "degree":
        return np.argsort(descending, kind="stable")
    return np.lexsort((descending, _communities(graph)))


def reordered(build: Callable[[StoreWriter], None], method: str) -> Callable[[StoreWriter], None]:
    """Return a builder of the same data set with its nodes in another order.

    Parameters
    ----------
    build : callable
        As for :func:`salient.datasets.store.prepare`.
    method : str
        See :func:`node_order`.
    """

    def build_reordered(writer: StoreWriter) -> None:
        plain = prepare(writer.scratch / "plain", build)
        write_reordered(writer, plain, node_order(plain.graph, method), _METHODS[method])

    return build_reordered


def write_reordered(
    writer: StoreWriter, dataset: Dataset, order: npt.NDArray[np.int64], words: str
) -> None:
    """Write a data set with its nodes in another order, and finish.

    Parameters
    ----------
    writer : StoreWriter
    dataset : Dataset
    order : array of int64, shape (num_nodes,)
        Old id of each new one.
    words : str
        What the description says of the order.
    """
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    _write_graph(writer, dataset.graph, order, rank)
    x = dataset.x.numpy()
    stored = writer.create("x", x.shape, x.dtype)
    for start in range(0, order.size, _BLOCK_ROWS):
        stored[start : start + _BLOCK_ROWS] = x[order[start : start + _BLOCK_ROWS]]
    writer.create("y", order.shape, np.int64)[...] = dataset.y.numpy()[order]
    for part in SPLIT_NAMES:
        ids = np.sort(rank[dataset.split_idx[part].numpy()])
        writer.create(part, ids.shape, np.int64)[...] = ids
    before = dataset.original_ids
    original = order if before is None else before.numpy()[order]
    writer.create("original_ids", order.shape, np.int64)[...] = original
    description = {**dataset.description, "node_order": words}
    writer.finish(dataset.name, dataset.num_classes, description)


def _write_graph(
    writer: StoreWriter, graph: Graph, order: npt.NDArray[Any], rank: npt.NDArray[Any]
) -> None:
    old, degrees = graph.indptr, np.diff(graph.indptr)[order]
    indptr = writer.create("indptr", old.shape, np.int64)
    np.cumsum(degrees, out=indptr[1:])
    indices = writer.create("indices", graph.indices.shape, graph.indices.dtype)
    start = 0
    while start < order.size:
        # At least one node, whatever its degree.
        limit = np.searchsorted(indptr, indptr[start] + _BLOCK_EDGES, side="right") - 1
        end = min(max(int(limit), start + 1), order.size)
        first, last = int(indptr[start]), int(indptr[end])
        row = np.repeat(np.arange(end - start), degrees[start:end])
        moved = (old[order[start:end]] - indptr[start:end])[row] + np.arange(first, last)
        # Sources ascend within a node, which makes neighbours in the new order neighbours here.
        keys = row * order.size + rank[graph.indices[moved]]
        keys.sort()
        indices[first:last] = keys - row * order.size
        start = end


def _cuthill_mckee(graph: Graph) -> npt.NDArray[np.int64]:
    try:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import reverse_cuthill_mckee
    except ImportError as error:
        raise ImportError(
            "reorder: rcm needs SciPy; pip install 'salient-bench[formats]'"
        ) from error
    if graph.num_edges >= 2**31 or graph.num_nodes >= 2**31:
        raise ValueError(
            f"reorder: SciPy's rcm takes fewer than 2**31 edges, the graph has "
            f"{graph.num_edges:,}; use degree"
        )
    matrix = csr_matrix(
        (np.ones(graph.num_edges, np.int8), graph.indices, graph.indptr.astype(np.int32)),
        shape=(graph.num_nodes, graph.num_nodes),
    )
    order = reverse_cuthill_mckee(matrix, symmetric_mode=False)
    return np.asarray(order, np.int64)


def _communities(graph: Graph) -> npt.NDArray[Any]:
    try:
        import igraph
    except ImportError as error:
        raise ImportError(
            "reorder: community needs igraph; pip install 'salient-bench[formats]'"
        ) from error
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    # One edge a pair, since the method knows no directions.
    low, high = np.minimum(graph.indices, target), np.maximum(graph.indices, target)
    keys = np.unique(low * np.int64(max(graph.num_nodes, 1)) + high)
    pairs = np.stack(np.divmod(keys, max(graph.num_nodes, 1)), axis=1)
    undirected = igraph.Graph(n=graph.num_nodes, edges=pairs)
    igraph.set_random_number_generator(random.Random(0))
    try:
        found = undirected.community_leiden(objective_function="modularity", n_iterations=2)
    finally:
        igraph.set_random_number_generator(random)
    return np.asarray(found.membership)
