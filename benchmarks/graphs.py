"""Graphs that the experiments make for themselves. May import: numpy, ``salient``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from salient import _core
from salient.graph import Graph

_DEGREE_SIGMA = 1.2  # of the logarithm of the degrees: a tail like that of ogbn-products
_STUBS_PER_NODE = 16
_CHUNK = 1 << 23  # pairs drawn at a time, which bounds the memory of 64-bit random numbers


def heavy_tailed_graph(num_nodes: int, num_edges: int, seed: int) -> Graph:
    """Return a random graph with heavy-tailed degrees, every edge in both directions.

    The model is that of Chung and Lu ("Connected components in random graphs with given expected
    degree sequences", 2002): both ends of a pair are drawn independently, in proportion to the
    nodes' weights, which are log-normal. Parallel edges and self-loops are kept, as they come.

    Parameters
    ----------
    num_nodes : int
        In [1, 2**31).
    num_edges : int
        Directed edges, an even number.
    seed : int

    Raises
    ------
    ValueError
        A number is out of its range.
    """
    if not 1 <= num_nodes < 2**31:
        raise ValueError(f"num_nodes: is {num_nodes}, expected at least 1 and less than 2**31")
    if num_edges < 0 or num_edges % 2:
        raise ValueError(f"num_edges: is {num_edges}, expected an even number: both directions")
    generator = np.random.default_rng(seed)
    stubs = _stubs(num_nodes, generator)
    pairs = num_edges // 2
    source = np.empty(num_edges, np.int32)
    target = np.empty(num_edges, np.int32)
    for start in range(0, pairs, _CHUNK):
        end = min(start + _CHUNK, pairs)
        one, other = (stubs[generator.integers(len(stubs), size=end - start)] for _ in range(2))
        source[start:end] = target[pairs + start : pairs + end] = one
        target[start:end] = source[pairs + start : pairs + end] = other
    indptr, indices, _ = _core.coo_to_csc(source, target, num_nodes, edge_ids=False)
    return Graph(indptr, indices, validate=False)


def _stubs(num_nodes: int, generator: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return every node as often as its weight says, at least once, int32."""
    weights = generator.lognormal(0.0, _DEGREE_SIGMA, num_nodes)
    counts = np.maximum(np.rint(weights * (_STUBS_PER_NODE / weights.mean())), 1).astype(np.int64)
    return np.repeat(np.arange(num_nodes, dtype=np.int32), counts)


# Nodes and directed edges. The largest has those of ogbn-products, symmetrised.
GRAPHS = {
    "tiny": (1_000, 10_000),
    "small": (100_000, 3_000_000),
    "products": (2_449_029, 123_718_280),
}


def make_graph(name: str) -> Graph:
    """Return the heavy-tailed graph of one of the sizes in ``GRAPHS``.

    Raises
    ------
    ValueError
        There is no such size.
    """
    if name not in GRAPHS:
        raise ValueError(f"name: {name!r} is unknown, expected one of {', '.join(GRAPHS)}")
    return heavy_tailed_graph(*GRAPHS[name], seed=0)
