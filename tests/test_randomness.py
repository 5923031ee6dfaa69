"""Statistical tests of the draws: uniform, without repeats, independent.

The chance of a false alarm is below 1e-6 a test: see uniformity.py.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from graphs import edges_of
from salient.graph import Graph
from salient.sampler import NeighborSampler
from uniformity import (
    IntArray,
    assert_equal_inclusion,
    assert_no_repeats,
    assert_uniform,
    left_out,
    subset_counts,
)


def regular_graph(num_nodes: int, degree: int) -> Graph:
    """A graph whose nodes all have ``degree`` in-edges, all from node 0: only edge ids matter."""
    indptr = np.arange(num_nodes + 1, dtype=np.int64) * degree
    return Graph(indptr, np.zeros(num_nodes * degree, np.int32))


def draw_positions(
    degree: int, fanout: int, draws: int, *, replace: bool = False, nodes: int = 1000, seed: int = 1
) -> IntArray:
    """Return the positions in [0, degree) drawn for nodes of that degree, shape (draws, fanout)."""
    graph = regular_graph(nodes, degree)
    sampler = NeighborSampler(graph, [fanout], replace=replace, seed=seed, edge_ids=True)
    rows = [
        sampler.sample(np.arange(nodes), batch=number).mfgs[0].e_id.numpy().reshape(nodes, fanout)
        - graph.indptr[:-1, None]
        for number in range(math.ceil(draws / nodes))
    ]
    return np.concatenate(rows)[:draws]


# --- uniform ------------------------------------------------------------------------------------


def test_each_pair_of_four_neighbours_is_as_likely() -> None:
    """Case 4: 3,000 draws, five degrees of freedom, limit 35.9 (1e-6)."""
    edges = edges_of((1, 0), (2, 0), (3, 0), (4, 0))
    sampler = NeighborSampler(Graph.from_edge_index(edges), [2])
    rows = [sampler.sample([0], batch=number).n_id[1:].numpy() - 1 for number in range(3000)]
    counts = subset_counts(np.stack(rows), 4, 2)
    assert counts.min() > 0
    assert_uniform(counts)


@pytest.mark.parametrize(("degree", "fanout"), [(d, k) for d in range(2, 8) for k in range(1, d)])
def test_every_subset_of_a_small_neighbourhood_is_as_likely(degree: int, fanout: int) -> None:
    positions = draw_positions(degree, fanout, 20_000)
    assert_no_repeats(positions)
    assert_uniform(subset_counts(positions, degree, fanout))


@pytest.mark.parametrize(
    ("degree", "fanout", "draws"),
    [
        (40, 39, 20_000),
        (40, 20, 20_000),
        (40, 2, 50_000),
        (50, 1, 100_000),
        (1000, 32, 10_000),
        (1000, 33, 10_000),
        (1000, 100, 5_000),
        (101, 100, 20_000),
        (33, 32, 20_000),
        (34, 33, 20_000),
        (3000, 2999, 500),
    ],
)
def test_every_position_is_kept_equally_often(degree: int, fanout: int, draws: int) -> None:
    positions = draw_positions(degree, fanout, draws)
    assert positions.min() >= 0
    assert positions.max() < degree
    assert_no_repeats(positions)
    assert_equal_inclusion(positions, degree)


@pytest.mark.parametrize("fanout", [32, 33])
def test_large_fanouts_leave_out_every_pair_equally_often(fanout: int) -> None:
    """On both sides of the change of algorithm, two of the neighbours stay out."""
    degree = fanout + 2
    pairs = left_out(draw_positions(degree, fanout, 40_000), degree)
    assert_uniform(subset_counts(pairs, degree, 2))


def test_pairs_out_of_forty_are_as_likely() -> None:
    assert_uniform(subset_counts(draw_positions(40, 2, 100_000), 40, 2))


@pytest.mark.parametrize(("degree", "fanout"), [(1, 3), (2, 8), (7, 3), (3, 5), (300, 1)])
def test_every_sequence_with_replacement_is_as_likely(degree: int, fanout: int) -> None:
    positions = draw_positions(degree, fanout, 50_000, replace=True)
    assert positions.min() >= 0
    assert positions.max() < degree
    sequences = positions @ (degree ** np.arange(fanout))
    if degree > 1:
        assert_uniform(np.bincount(sequences, minlength=degree**fanout))


def test_draws_of_one_node_at_a_time_are_as_uniform() -> None:
    """One seed a batch uses one lane; the stream then changes with the batch number only."""
    assert_uniform(subset_counts(draw_positions(5, 2, 10_000, nodes=1), 5, 2))


@pytest.mark.parametrize("replace", [False, True])
def test_parallel_edges_are_edges_of_their_own(replace: bool) -> None:
    """In-edges 1, 1, 2 and fanout 2: each pair of edges has 1/3, with replacement each 1/9."""
    graph = Graph.from_edge_index(edges_of((1, 0), (1, 0), (2, 0)))
    sampler = NeighborSampler(graph, [2], replace=replace, edge_ids=True)
    rows = np.stack(
        [sampler.sample([0], batch=number).mfgs[0].e_id.numpy() for number in range(6000)]
    )
    if replace:
        assert_uniform(np.bincount(rows @ [3, 1], minlength=9))
    else:
        assert_no_repeats(rows)
        assert_uniform(subset_counts(rows, 3, 2))


# --- independent ----------------------------------------------------------------------------------


def assert_independent(first: IntArray, second: IntArray, num_values: int, comparisons: int = 1):
    """Two series of uniform values on [0, num_values): all pairs of values are as likely."""
    counts = np.bincount(first.ravel() * num_values + second.ravel(), minlength=num_values**2)
    assert_uniform(counts, comparisons=comparisons)


@pytest.mark.parametrize("replace", [False, True])
def test_nodes_of_a_batch_draw_independently(replace: bool) -> None:
    """All pairs of 19 positions of the frontier: whole groups of eight lanes and a part of one."""
    nodes, batches = 19, 3000
    rows = draw_positions(4, 1, nodes * batches, replace=replace, nodes=nodes)
    rows = rows.reshape(batches, nodes)
    pairs = list(itertools.combinations(range(nodes), 2))
    for i, j in pairs:
        assert_independent(rows[:, i], rows[:, j], 4, len(pairs))


def test_neighbours_of_one_draw_do_not_foretell_those_of_the_next_node() -> None:
    rows = draw_positions(6, 3, 40_000, nodes=8)
    subsets = np.array(list(itertools.combinations(range(6), 3)))
    number = {tuple(s): i for i, s in enumerate(subsets.tolist())}
    values = np.array([number[tuple(row)] for row in np.sort(rows, axis=1).tolist()])
    assert_independent(values[:-1:2], values[1::2], len(subsets))


STREAMS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "seed": ({"seed": 0}, {"seed": 1}),
    "high half of the seed": ({"seed": 7}, {"seed": 7 + 2**32}),
    "epoch": ({"epoch": 3}, {"epoch": 4}),
    "batch": ({"batch": 3}, {"batch": 4}),
    "epoch for batch": ({"epoch": 1, "batch": 0}, {"epoch": 0, "batch": 1}),
    "epoch for seed": ({"epoch": 1, "seed": 0}, {"epoch": 0, "seed": 1}),
    "batch for seed": ({"batch": 1, "seed": 0}, {"batch": 0, "seed": 1}),
    "high bits of the epoch": ({"epoch": 5}, {"epoch": 5 + 2**23}),
    "high bits of the batch": ({"batch": 5}, {"batch": 5 + 2**31}),
}


@pytest.mark.parametrize("change", STREAMS)
def test_streams_are_independent_of_each_other(change: str) -> None:
    nodes = 20_000
    graph = regular_graph(nodes, 8)

    def draws(seed: int = 0, epoch: int = 0, batch: int = 0) -> IntArray:
        sampler = NeighborSampler(graph, [1], seed=seed, edge_ids=True)
        e_id = sampler.sample(np.arange(nodes), epoch=epoch, batch=batch).mfgs[0].e_id
        return e_id.numpy() - graph.indptr[:-1]

    first, second = STREAMS[change]
    assert_independent(draws(**first), draws(**second), 8)


def test_a_node_expanded_again_in_the_next_hop_draws_anew() -> None:
    nodes = 20_000
    graph = regular_graph(nodes, 8)
    batch = NeighborSampler(graph, [1, 1, 1], edge_ids=True).sample(np.arange(nodes))
    hops = [mfg.e_id[:nodes].numpy() - graph.indptr[:-1] for mfg in batch.mfgs]
    for first, second in itertools.combinations(hops, 2):
        assert_independent(first, second, 8, 3)
