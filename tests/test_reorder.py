"""Nodes in another order: the same data set, whose ids can be led back to the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphs import edges_of, make_g1, pairs_of
from salient.cli import main
from salient.datasets import Dataset, load_dataset
from salient.datasets import reorder as reorder_module
from salient.datasets.reorder import METHODS, node_order, reordered
from salient.datasets.store import prepare, verify_store, write_dataset
from salient.graph import Graph


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    return load_dataset("synthetic:tiny")


def require_libraries(method: str) -> None:
    for library in {"rcm": ["scipy"], "community": ["igraph"]}.get(method, []):
        pytest.importorskip(library, reason=f"needs {library}")


@pytest.mark.parametrize("method", METHODS)
def test_reordered_set_is_the_same_set(
    tmp_path: Path, tiny: Dataset, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_libraries(method)
    # Small blocks, so that the graph and the features take many.
    monkeypatch.setattr(reorder_module, "_BLOCK_EDGES", 100)
    monkeypatch.setattr(reorder_module, "_BLOCK_ROWS", 99)
    build = reordered(lambda writer: write_dataset(writer, tiny), method)
    dataset = prepare(tmp_path / "set", build)
    assert dataset.original_ids is not None
    own = dataset.original_ids.numpy()
    assert not np.array_equal(own, np.arange(1000))
    pairs = sorted((int(own[a]), int(own[b])) for a, b in pairs_of(dataset.graph))
    assert pairs == pairs_of(tiny.graph)
    assert np.array_equal(dataset.x.numpy(), tiny.x.numpy()[own])
    assert np.array_equal(dataset.y.numpy(), tiny.y.numpy()[own])
    for part, ids in tiny.split_idx.items():
        assert sorted(own[dataset.split_idx[part].numpy()]) == ids.tolist()
    indptr, indices = dataset.graph.indptr, dataset.graph.indices
    for node in range(0, 1000, 50):
        row = indices[indptr[node] : indptr[node + 1]].tolist()
        assert row == sorted(row)
    assert "node_order" in dataset.description
    assert [path.name for path in (tmp_path / "set").glob("scratch")] == []
    verify_store(tmp_path / "set")


@pytest.mark.parametrize("method", METHODS)
def test_order_is_the_same_each_time(tiny: Dataset, method: str) -> None:
    require_libraries(method)
    assert np.array_equal(node_order(tiny.graph, method), node_order(tiny.graph, method))


@pytest.mark.parametrize("method", METHODS)
def test_small_and_empty_graphs_are_ordered(method: str) -> None:
    require_libraries(method)
    for edges, num_nodes in [(make_g1(), 7), (edges_of(), 3)]:
        order = node_order(Graph.from_edge_index(edges, num_nodes), method)
        assert sorted(order.tolist()) == list(range(num_nodes))


def test_orders_are_what_they_say() -> None:
    graph = Graph.from_edge_index(make_g1(), 7)
    assert node_order(graph, "degree").tolist() == [0, 1, 2, 4, 3, 5, 6]
    with pytest.raises(ValueError, match="reorder: is 'size', expected one of degree"):
        node_order(graph, "size")


def test_reverse_cuthill_mckee_narrows_a_shuffled_ring() -> None:
    require_libraries("rcm")
    ids = np.random.default_rng(0).permutation(500)
    ring = np.stack([ids, np.roll(ids, 1)])
    graph = Graph.from_edge_index(np.concatenate([ring, ring[::-1]], axis=1), 500)
    rank = np.argsort(node_order(graph, "rcm"))
    assert np.abs(rank[ring[0]] - rank[ring[1]]).max() == 2


def test_communities_lie_together() -> None:
    require_libraries("community")
    ids = np.random.default_rng(0).permutation(90)
    groups = ids.reshape(3, 30)
    edges = np.concatenate([np.array(np.meshgrid(g, g)).reshape(2, -1) for g in groups], axis=1)
    order = node_order(Graph.from_edge_index(edges, 90), "community")
    found = {frozenset(order[start : start + 30].tolist()) for start in (0, 30, 60)}
    assert found == {frozenset(group.tolist()) for group in groups}


def test_command_reorders(tmp_path: Path) -> None:
    from click.testing import CliRunner

    arguments = ["data", "prepare", "synthetic:tiny", "--reorder", "degree"]
    done = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "set")])
    assert done.exit_code == 0, done.output
    degrees = np.diff(load_dataset(str(tmp_path / "set")).graph.indptr)
    assert (degrees[1:] <= degrees[:-1]).all()
