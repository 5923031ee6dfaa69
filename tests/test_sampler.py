"""The sampler against the NumPy oracle: small cases, random graphs, large blocks, bad input."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import edges_of, make_g1, make_g2, make_g3, make_g4, make_g5
from reference_sampler import check_sample
from salient.batch import SampledBatch
from salient.graph import Graph
from salient.sampler import NeighborSampler

FORMS = ["mfg", "subgraph"]
# Graphs of more nodes than this are relabelled by hashing instead of an array.
LARGEST_ARRAY_TABLE = 2**23


def draw(edges: np.ndarray, num_nodes: int, seeds: Any, fanouts: Any, **options: Any) -> Any:
    graph = Graph.from_edge_index(edges, num_nodes)
    return NeighborSampler(graph, fanouts, **options).sample(np.asarray(seeds, np.int64))


def sage_like(batch: SampledBatch, x: np.ndarray) -> np.ndarray:
    """h'(v) = h(v) + mean of h over the in-edges of v, one layer a hop, for the seeds."""
    h = x[batch.n_id.numpy()]
    for mfg in batch.mfgs:
        source, target = mfg.edge_index.numpy()
        total = np.zeros(mfg.num_dst)
        np.add.at(total, target, h[source])
        h = h[: mfg.num_dst] + total / np.maximum(np.bincount(target, minlength=mfg.num_dst), 1)
    return h[: batch.batch_size]


# --- cases 1, 2, 5, 6, 7 ------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "edges_per_hop"), [("mfg", [5, 7]), ("subgraph", [5, 2])])
def test_full_fanout_equals_the_full_graph(form: str, edges_per_hop: list[int]) -> None:
    batch = draw(make_g1(), 7, [4, 6, 0], [-1, -1], form=form)
    assert sage_like(batch, np.arange(7.0)).tolist() == [14, 6, 4.3125]
    assert batch.num_sampled_edges == edges_per_hop


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("edges", "num_nodes", "seeds", "fanouts"),
    [
        (make_g2(), 5, [1, 2], [2, 2]),
        (make_g2(), 5, [1, 2], [-1]),
        (make_g1(), 7, [6], [3, 3]),
        (make_g1(), 7, [4, 6, 0], [0]),
        (make_g1(), 7, [4, 6, 0], [0, 0]),
        (make_g1(), 7, [], [2, -1]),
        (make_g2(), 0, [], [2]),
    ],
)
def test_nothing_to_sample_gives_empty_integer_edges(
    edges: np.ndarray,
    num_nodes: int,
    seeds: list[int],
    fanouts: list[int],
    form: str,
    replace: bool,
) -> None:
    batch = draw(edges, num_nodes, seeds, fanouts, form=form, replace=replace, edge_ids=True)
    assert batch.n_id.tolist() == seeds
    for mfg in batch.mfgs:
        assert mfg.edge_index.shape == (2, 0)
        assert mfg.edge_index.dtype == torch.int64
    x = np.arange(10.0, 10.0 + num_nodes)
    assert sage_like(batch, x).tolist() == x[seeds].tolist()
    check_sample(batch, edges, seeds, fanouts, form=form, replace=replace, edge_ids=True)


def test_a_hop_of_fanout_zero_leaves_the_others_as_they_are() -> None:
    batch = draw(make_g1(), 7, [4, 6, 0], [-1, 0, -1])
    assert batch.num_sampled_edges == [5, 0, 7]
    assert batch.num_sampled_nodes == [3, 3, 0, 1]


@pytest.mark.parametrize("fanout", [-1, 50, 51, 60, 2**20])
def test_fanout_of_the_degree_or_more_takes_every_edge_once(fanout: int) -> None:
    batch = draw(make_g3(), 51, [0], [fanout], edge_ids=True)
    assert sorted(batch.mfgs[0].e_id.tolist()) == list(range(50))
    assert sorted(batch.n_id.tolist()) == list(range(51))


@pytest.mark.parametrize(
    ("form", "num_edges", "num_nodes"), [("mfg", 2, {2, 3}), ("subgraph", 1, {2})]
)
def test_equal_work_needs_equal_forms(form: str, num_edges: int, num_nodes: set[int]) -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g3()), [1, 1], form=form)
    batches = [sampler.sample([0], batch=number) for number in range(2000)]
    assert {batch.num_edges for batch in batches} == {num_edges}
    assert {batch.num_nodes for batch in batches} == num_nodes


@pytest.mark.parametrize("form", FORMS)
def test_edge_ids_point_into_the_users_own_list(form: str) -> None:
    edges = make_g4()
    batch = draw(edges, 5, [0, 3], [1, 1], form=form, edge_ids=True)
    assert batch.n_id.tolist() == [0, 3, 4, 2, 1]
    attribute = 100 * edges[0] + edges[1]
    for mfg in batch.mfgs:
        source, target = batch.n_id.numpy()[mfg.edge_index.numpy()]
        assert attribute[mfg.e_id.numpy()].tolist() == (100 * source + target).tolist()


def test_edge_ids_given_with_csc_arrays_are_reported() -> None:
    ids = np.array([7, 3, 2**40], np.int64)
    graph = Graph(np.array([0, 2, 2, 3]), np.array([1, 2, 0], np.int32), ids)
    batch = NeighborSampler(graph, [-1], edge_ids=True).sample([2, 0])
    assert batch.mfgs[0].e_id.tolist() == [2**40, 7, 3]


# --- random graphs ------------------------------------------------------------------------------


@st.composite
def problems(draw_value: st.DrawFn) -> dict[str, Any]:
    num_nodes = draw_value(st.integers(0, 40))
    num_edges = draw_value(st.integers(0, 400)) if num_nodes else 0
    hubs = draw_value(st.integers(1, max(num_nodes, 1)))  # only so many nodes have in-edges
    rng = np.random.default_rng(draw_value(st.integers(0, 2**32)))
    source = rng.integers(0, max(num_nodes, 1), num_edges)
    target = rng.integers(0, hubs, num_edges)
    seeds = rng.permutation(num_nodes)[: draw_value(st.integers(0, num_nodes))]
    return {
        "edges": np.stack([source, target]),
        "num_nodes": num_nodes,
        "seeds": seeds.tolist(),
        "fanouts": draw_value(st.lists(st.integers(-1, 60), min_size=1, max_size=3)),
        "index": draw_value(st.sampled_from([np.int32, np.int64])),
        "options": {
            "replace": draw_value(st.booleans()),
            "form": draw_value(st.sampled_from(FORMS)),
            "edge_ids": draw_value(st.booleans()),
        },
        "seed": draw_value(st.integers(0, 2**64 - 1)),
        "epoch": draw_value(st.integers(0, 2**24 - 1)),
        "batch": draw_value(st.integers(0, 2**32 - 1)),
    }


@given(problems())
@settings(max_examples=250, deadline=None)
def test_any_sample_is_right(problem: dict[str, Any]) -> None:
    built = Graph.from_edge_index(problem["edges"], problem["num_nodes"])
    graph = Graph(built.indptr, built.indices.astype(problem["index"]), built.edge_ids)
    sampler = NeighborSampler(graph, problem["fanouts"], seed=problem["seed"], **problem["options"])
    batch = sampler.sample(problem["seeds"], epoch=problem["epoch"], batch=problem["batch"])
    check_sample(
        batch, problem["edges"], problem["seeds"], problem["fanouts"], **problem["options"]
    )


def many_degrees(num_targets: int, num_nodes: int) -> np.ndarray:
    """Edges to nodes of degrees 0 to 1,500, most of them small, scattered over all ids."""
    rng = np.random.default_rng(5)
    ids = rng.choice(num_nodes, num_targets, replace=False)
    degree = np.concatenate([[1500, 511, 512, 513], rng.integers(0, 70, num_targets - 4)])
    target = np.repeat(ids, degree)
    order = rng.permutation(target.shape[0])
    return np.stack([rng.choice(ids, target.shape[0]), target])[:, order]


@functools.lru_cache
def many_degrees_graph(num_nodes: int) -> Graph:
    return Graph.from_edge_index(many_degrees(1000, num_nodes), num_nodes)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanouts", [[-1], [15, 10], [33, 3], [64, -1], [600]])
@pytest.mark.parametrize("num_nodes", [3000, LARGEST_ARRAY_TABLE + 1], ids=["array", "hash"])
def test_blocks_of_work_join_without_a_seam(
    fanouts: list[int], replace: bool, form: str, num_nodes: int
) -> None:
    edges = many_degrees(1000, num_nodes)
    graph = many_degrees_graph(num_nodes)
    options = {"replace": replace, "form": form, "edge_ids": True}
    sampler = NeighborSampler(graph, fanouts, **options)
    wanted = np.unique(edges[1])
    # Small, large, small: memory kept from one batch must not show in the next.
    for number, count in enumerate([3, 300, 5]):
        seeds = np.random.default_rng(number).permutation(wanted)[:count].tolist()
        batch = sampler.sample(seeds, batch=number)
        check_sample(batch, edges, seeds, fanouts, **options)


def test_hashed_and_plain_relabelling_agree() -> None:
    edges = make_g5()
    batches = [
        draw(edges, num_nodes, [5, 199, 0], [4, 4, 4], edge_ids=True)
        for num_nodes in (200, LARGEST_ARRAY_TABLE, LARGEST_ARRAY_TABLE + 1)
    ]
    for batch in batches[1:]:
        assert torch.equal(batch.n_id, batches[0].n_id)
        for mfg, expected in zip(batch.mfgs, batches[0].mfgs, strict=True):
            assert torch.equal(mfg.indices, expected.indices)
            assert torch.equal(mfg.e_id, expected.e_id)


def test_samples_outlive_their_sampler() -> None:
    batch = draw(edges_of((0, 1)), 2, [1], [-1])
    others = [draw(make_g1(), 7, [4, 6, 0], [-1, -1]) for _ in range(10)]
    assert batch.n_id.tolist() == [1, 0]
    assert {other.num_nodes for other in others} == {7}
