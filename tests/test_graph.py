"""The graph: construction from edges and from CSC arrays, memory maps, and every bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from graphs import G1_NUM_NODES, edges_of, make_g1, make_g2, make_g4, pairs_of
from salient.graph import Graph

INDPTR = np.array([0, 2, 2, 3], np.int64)
INDICES = np.array([1, 2, 0], np.int32)


def test_edges_are_kept_as_they_are_parallel_ones_loops_and_isolated_nodes() -> None:
    edges = make_g1()
    graph = Graph.from_edge_index(edges, G1_NUM_NODES)
    assert (graph.num_nodes, graph.num_edges) == (7, 8)
    assert pairs_of(graph) == sorted(zip(*edges.tolist(), strict=True))
    assert np.diff(graph.indptr).tolist() == [4, 2, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16", "uint32"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_every_integer_dtype_gives_the_same_graph(dtype: str, kind: str) -> None:
    edges = make_g1().astype(dtype)
    given = edges if kind == "numpy" else torch.from_numpy(edges)
    graph = Graph.from_edge_index(given, G1_NUM_NODES)
    expected = Graph.from_edge_index(make_g1(), G1_NUM_NODES)
    assert graph.indptr.tolist() == expected.indptr.tolist()
    assert graph.indices.tolist() == expected.indices.tolist()


def test_edge_ids_are_positions_in_the_list_and_absent_where_it_is_in_order() -> None:
    edges = make_g4()
    graph = Graph.from_edge_index(edges)
    assert graph.edge_ids is not None
    target = np.repeat(np.arange(5), np.diff(graph.indptr))
    assert np.array_equal(edges[:, graph.edge_ids], np.stack([graph.indices, target]))
    assert Graph.from_edge_index(edges[:, np.argsort(edges[1])]).edge_ids is None


def test_order_inside_a_node_is_that_of_the_list() -> None:
    graph = Graph.from_edge_index(edges_of((3, 1), (0, 0), (1, 1), (2, 1), (1, 0)), 4)
    assert graph.indices.tolist() == [0, 1, 3, 1, 2]


def test_a_strided_edge_list_is_read_right() -> None:
    edges = np.ascontiguousarray(make_g1().T).T[:, ::-1]
    assert pairs_of(Graph.from_edge_index(edges, 7)) == sorted(
        zip(*make_g1().tolist(), strict=True)
    )


def test_num_nodes_is_by_default_the_highest_id_plus_one() -> None:
    assert Graph.from_edge_index(make_g1()).num_nodes == 6
    assert Graph.from_edge_index(make_g2()).num_nodes == 0


def test_edge_index_lists_every_edge_with_its_direction() -> None:
    edge_index = Graph.from_edge_index(make_g1(), 7).edge_index
    assert edge_index.dtype == torch.int64
    pairs = sorted(zip(*edge_index.tolist(), strict=True))
    assert pairs == sorted(zip(*make_g1().tolist(), strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_memory_mapped_arrays_are_used_where_they_lie(tmp_path: Path, dtype: type) -> None:
    np.save(tmp_path / "indptr.npy", INDPTR)
    np.save(tmp_path / "indices.npy", INDICES.astype(dtype))
    indptr = np.load(tmp_path / "indptr.npy", mmap_mode="r")
    indices = np.load(tmp_path / "indices.npy", mmap_mode="r")
    graph = Graph(indptr, indices)
    assert np.shares_memory(graph.indptr, indptr)
    assert np.shares_memory(graph.indices, indices)
    assert graph.indices.dtype == dtype


def test_tensors_are_not_copied() -> None:
    indptr, indices = torch.from_numpy(INDPTR.copy()), torch.from_numpy(INDICES.copy())
    graph = Graph(indptr, indices)
    assert np.shares_memory(graph.indptr, indptr.numpy())
    assert np.shares_memory(graph.indices, indices.numpy())


@pytest.mark.parametrize(
    ("indptr", "indices", "words"),
    [
        ([1, 2, 2, 3], [1, 2, 0], r"indptr\[0\] is 1"),
        ([0, 2, 1, 3], [1, 2, 0], "falls from 2 to 1 at position 2"),
        ([0, 2, 2, 4], [1, 2, 0], "ends with 4, but indices has 3"),
        ([0, 2, 2, 2], [1, 2, 0], "ends with 2, but indices has 3"),
        ([0, 2, 2, 3], [1, 3, 0], r"indices\[1\] is 3, outside \[0, 3\)"),
        ([0, 2, 2, 3], [1, 2, -1], r"indices\[2\] is -1"),
        ([], [], "indptr: is empty"),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arrays_that_are_no_graph_are_refused(
    indptr: list[int], indices: list[int], words: str, dtype: type
) -> None:
    with pytest.raises(ValueError, match=words):
        Graph(np.array(indptr, np.int64), np.array(indices, dtype))


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ((INDPTR.astype(np.int32), INDICES), TypeError, "indptr.*int64.*int32"),
        ((INDPTR.astype(float), INDICES), TypeError, "indptr.*float64"),
        ((INDPTR, INDICES.astype(np.int16)), TypeError, "indices.*int16"),
        ((INDPTR, INDICES.astype(np.uint32)), TypeError, "indices.*uint32"),
        ((INDPTR, INDICES.astype(np.float32)), TypeError, "indices.*float32"),
        ((INDPTR, INDICES.astype(">i4")), TypeError, "indices.*>i4"),
        ((INDPTR.tolist(), INDICES), TypeError, "indptr.*list"),
        ((INDPTR, None), TypeError, "indices.*None"),
        ((INDPTR.reshape(2, 2), INDICES), ValueError, r"indptr.*\(2, 2\)"),
        ((INDPTR, INDICES.reshape(3, 1)), ValueError, r"indices.*\(3, 1\)"),
        ((INDPTR, np.repeat(INDICES, 2)[::2]), ValueError, "indices.*contiguous"),
        ((INDPTR, INDICES, np.arange(2)), ValueError, "edge_ids: has 2.*3"),
        ((INDPTR, INDICES, np.arange(3, dtype=np.int32)), TypeError, "edge_ids.*int32"),
        ((INDPTR, INDICES, np.array([0, -5, 1])), ValueError, r"edge_ids\[1\].*-5"),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused_by_name(
    arrays: tuple[object, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Graph(*arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edges", "num_nodes", "error", "words"),
    [
        (edges_of((1, 2), (9, 0)), 7, IndexError, r"edge 1 is 9 -> 0.*7"),
        (edges_of((1, 2), (0, 7)), 7, IndexError, r"edge 1 is 0 -> 7.*7"),
        (edges_of((1, 2), (-1, 0)), 7, IndexError, "edge 1 is -1 -> 0"),
        (edges_of((1, -3)), None, IndexError, "edge 0 is 1 -> -3"),
        (edges_of((0, 0)), 0, IndexError, "edge 0 is 0 -> 0.*0"),
        (edges_of((1, 2)), -1, ValueError, "num_nodes.*-1"),
        (edges_of((1, 2)), 3.0, TypeError, r"num_nodes.*3\.0"),
        (edges_of((1, 2)), True, TypeError, "num_nodes.*True"),
        (edges_of((1, 2)).astype(np.float32), 7, TypeError, "edge_index.*float32"),
        (edges_of((1, 2)).astype(bool), 7, TypeError, "edge_index.*bool"),
        (np.zeros((3, 2), np.int64), 7, ValueError, r"edge_index.*\(3, 2\)"),
        (np.zeros(4, np.int64), 7, ValueError, r"edge_index.*\(4,\)"),
        ([[0], [1]], 7, TypeError, "edge_index.*list"),
        (torch.zeros(2, 1), 7, TypeError, "edge_index.*float32"),
        (torch.zeros(2, 1, dtype=torch.long, device="meta"), 7, TypeError, "edge_index.*meta"),
    ],
)
def test_bad_edge_lists_are_refused_naming_the_value(
    edges: object, num_nodes: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Graph.from_edge_index(edges, num_nodes)  # type: ignore[arg-type]


def test_ids_all_negative_are_named_as_they_were_given() -> None:
    with pytest.raises(IndexError, match="edge 0 is -5 -> -7"):
        Graph.from_edge_index(edges_of((-5, -7)))


@pytest.mark.parametrize("num_nodes", [2**40, 2**50])
def test_more_nodes_than_memory_can_index_are_refused(num_nodes: int) -> None:
    """A damaged id must not ask for petabytes, whether it is given or found."""
    with pytest.raises(ValueError, match=f"num_nodes: {num_nodes} .* bytes are available"):
        Graph.from_edge_index(np.array([[0], [1]]), num_nodes)
    with pytest.raises(ValueError, match="highest node id damaged"):
        Graph.from_edge_index(np.array([[0], [num_nodes - 1]]))


def test_arrays_at_odd_addresses_are_refused() -> None:
    odd = np.frombuffer(bytearray(33), np.int64, 4, offset=1)
    with pytest.raises(ValueError, match="indptr: expected a contiguous and aligned"):
        Graph(odd, np.empty(0, np.int32))
