"""The small graphs of the test cases, as plain edge arrays (2, E), source over target."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from salient.graph import Graph

EdgeArray = npt.NDArray[np.int64]

G1_NUM_NODES = 7
G5_NUM_NODES = 200


def edges_of(*pairs: tuple[int, int]) -> EdgeArray:
    """Return (source, target) pairs as an edge array."""
    return np.array(pairs, np.int64).reshape(-1, 2).T


def make_g1() -> EdgeArray:
    """7 nodes, unsorted; a parallel edge 1->0, a self-loop 0->0, node 6 isolated."""
    return edges_of((3, 0), (1, 0), (5, 4), (2, 1), (1, 0), (0, 0), (4, 1), (0, 2))


def make_g2() -> EdgeArray:
    """No edges, for any number of nodes."""
    return edges_of()


def make_g3() -> EdgeArray:
    """Hub 0 with the in-neighbours 1..50."""
    return edges_of(*((leaf, 0) for leaf in range(1, 51)))


def make_g4() -> EdgeArray:
    """Ring of 5, i -> i + 1, in a shuffled order."""
    return edges_of((2, 3), (4, 0), (0, 1), (3, 4), (1, 2))


def make_g5(seed: int = 0) -> EdgeArray:
    """200 nodes with 8 random in-edges each, grouped by target."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, G5_NUM_NODES, 8 * G5_NUM_NODES)
    return np.stack([source, np.repeat(np.arange(G5_NUM_NODES), 8)])


def pairs_of(graph: Graph) -> list[tuple[int, int]]:
    """Return the edges of a graph in CSC form as sorted (source, target) pairs."""
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return sorted(zip(graph.indices.tolist(), target.tolist(), strict=True))
