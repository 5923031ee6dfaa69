"""Edge lists to CSC form: against NumPy, for any number of threads and any amount of scratch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import make_g1
from salient import _core
from salient.datasets.conversion import ArrayEdges, Conversion, convert_edges
from salient.datasets.sink import MemorySink

Csc = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def reference(
    edge_index: npt.NDArray[Any], num_nodes: int, symmetrise: bool, drop_duplicates: bool
) -> Csc:
    """Do the same by sorting."""
    source, target = edge_index.astype(np.int64)
    if symmetrise:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    if symmetrise or drop_duplicates:
        keys = np.unique(target * num_nodes + source)
        target, source = keys // num_nodes, keys % num_nodes
    order = np.argsort(target, kind="stable")
    counts = np.bincount(target, minlength=num_nodes) if num_nodes else np.empty(0, np.int64)
    return np.append(0, np.cumsum(counts)), source[order]


def converted(
    edge_index: npt.NDArray[Any], num_nodes: int, **options: Any
) -> tuple[Csc, Conversion]:
    sink = MemorySink()
    conversion = convert_edges(ArrayEdges(edge_index), num_nodes, sink, **options)
    return (sink.arrays["indptr"], sink.arrays["indices"]), conversion


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> npt.NDArray[np.int32]:
    """Edges with hubs, repeated edges and self-loops."""
    rng = np.random.default_rng(seed)
    ends = (num_nodes * rng.random((2, num_edges)) ** 3).astype(np.int32)
    ends[:, : num_edges // 10] = ends[:, num_edges // 2 : num_edges // 2 + num_edges // 10]
    ends[0, -num_edges // 50 :] = ends[1, -num_edges // 50 :]
    return ends


OPTIONS = [
    {"symmetrise": symmetrise, "drop_duplicates": drop}
    for symmetrise in (False, True)
    for drop in (False, True)
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("passes", [1, 7])
def test_result_is_that_of_sorting(options: dict[str, bool], num_threads: int, passes: int) -> None:
    # Enough edges for several chunks, several threads and several buckets.
    num_nodes, num_edges = 30_000, 2_500_000
    edges = random_edges(num_nodes, num_edges)
    (indptr, indices), conversion = converted(
        edges, num_nodes, num_threads=num_threads, memory_limit=12 * num_edges // passes, **options
    )
    want_indptr, want_indices = reference(edges, num_nodes, **options)
    assert indptr.dtype == np.int64
    assert indices.dtype == np.int32
    assert np.array_equal(indptr, want_indptr)
    assert np.array_equal(indices, want_indices)
    target = np.repeat(np.arange(num_nodes), np.diff(want_indptr))
    loops = int(np.count_nonzero(edges[0] == edges[1])) if options["symmetrise"] else 0
    collected = num_edges * (1 + options["symmetrise"]) - loops
    assert conversion == Conversion(
        num_edges=want_indices.size,
        num_input_edges=num_edges,
        self_loops=int(np.count_nonzero(target == want_indices)),
        duplicates_dropped=collected - want_indices.size,
        symmetrised=options["symmetrise"],
    )


@given(data=st.data(), num_nodes=st.integers(1, 12))
def test_small_lists(data: st.DataObject, num_nodes: int) -> None:
    node = st.integers(0, num_nodes - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=30))
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    for options in OPTIONS:
        for memory_limit in (None, 1, 40):
            (indptr, indices), _ = converted(edges, num_nodes, memory_limit=memory_limit, **options)
            want_indptr, want_indices = reference(edges, num_nodes, **options)
            assert indptr.tolist() == want_indptr.tolist()
            assert indices.tolist() == want_indices.tolist()


def test_no_nodes_and_no_edges() -> None:
    for num_nodes in (0, 1, 100_000):
        (indptr, indices), conversion = converted(np.empty((2, 0), np.int32), num_nodes)
        assert indptr.tolist() == [0] * (num_nodes + 1)
        assert indices.shape == (0,)
        assert conversion.num_edges == 0


def test_a_star_is_one_bucket_and_more_than_the_scratch() -> None:
    leaves = 300_000
    edges = np.stack([np.arange(1, leaves + 1)[::-1], np.zeros(leaves, np.int64)])
    (indptr, indices), _ = converted(edges, leaves + 1, symmetrise=True, memory_limit=1000)
    assert indptr[1] == leaves
    assert np.array_equal(indices[:leaves], np.arange(1, leaves + 1))
    assert not indices[leaves:].any()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", ">i4"])
def test_integers_of_any_width(dtype: str) -> None:
    (indptr, indices), _ = converted(make_g1().astype(dtype), 7)
    want_indptr, want_indices = reference(make_g1(), 7, False, False)
    assert indptr.tolist() == want_indptr.tolist()
    assert indices.tolist() == want_indices.tolist()


def test_memory_map_and_transposed_list(tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", np.ascontiguousarray(make_g1().T))
    pairs = np.load(tmp_path / "edges.npy", mmap_mode="r")
    (_, indices), _ = converted(pairs.T, 7)
    assert indices.tolist() == reference(make_g1(), 7, False, False)[1].tolist()


@pytest.mark.parametrize("end", [(0, 7), (7, 0), (-1, 3), (3, -1), (2**40, 1)])
@pytest.mark.parametrize("before", [3, 3_000_000])
def test_an_end_outside_is_named_with_its_place(end: tuple[int, int], before: int) -> None:
    edges = np.zeros((2, before + 5), np.int64)
    edges[:, before] = end
    edges[:, before + 2] = 99
    sink = MemorySink()
    with pytest.raises(
        ValueError, match=f"^my list: edge {before} is {end[0]} -> {end[1]}, but num_nodes is 7"
    ):
        convert_edges(ArrayEdges(edges), 7, sink, where="my list")
    assert not sink.arrays


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        (np.zeros((3, 2), np.int64), r"integers of shape \(2, num_edges\), got int64 of .*3, 2"),
        (np.zeros((2, 3)), "got float64"),
        (np.zeros((2, 3), np.uint64), "integer ids, got uint64"),
        (np.zeros((2, 3), bool), "got bool"),
    ],
)
def test_what_is_no_edge_list_is_refused(edges: npt.NDArray[Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert_edges(ArrayEdges(edges), 7, MemorySink())


class ChangingEdges:
    """A list that comes differently from the second reading on."""

    def __init__(self, *readings: npt.NDArray[Any]) -> None:
        self.readings = list(readings)
        self.num_edges = readings[0].shape[1]

    def chunks(self) -> Iterator[Csc]:
        edges = self.readings.pop(0)
        yield edges[0], edges[1]


@pytest.mark.parametrize(
    "second",
    [
        [(0, 1), (1, 2)],  # fewer
        [(0, 1), (1, 2), (2, 0), (2, 0)],  # more
        [(0, 1), (1, 2), (2, 5)],  # outside
        [(0, 1), (1, 2), (2, -9)],
    ],
)
@pytest.mark.parametrize("symmetrise", [False, True])
def test_a_list_that_changes_between_readings_is_refused(
    second: list[tuple[int, int]], symmetrise: bool
) -> None:
    readings = [np.array(pairs).T for pairs in ([(0, 1), (1, 2), (2, 0)], second)]
    with pytest.raises(ValueError, match="list changed"):
        convert_edges(ChangingEdges(*readings), 3, MemorySink(), symmetrise=symmetrise)


def test_the_core_checks_what_it_is_given() -> None:
    converter = _core.CscConverter(3, 2, False, False, 1, 0)
    edges = np.array([0, 1]), np.array([1, 2])
    converter.count(*edges)
    assert converter.begin_pass()
    converter.collect(*edges)
    with pytest.raises(ValueError, match="indptr: has 3 entries, needs 4"):
        converter.end_pass(np.zeros(3, np.int64), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="indices: has 1 entries, needs 2"):
        converter.end_pass(np.zeros(4, np.int64), np.zeros(1, np.int32))
    with pytest.raises(TypeError, match="indices: expected dtype int32"):
        converter.end_pass(np.zeros(4, np.int64), np.zeros(2, np.int64))
    fixed = np.zeros(4, np.int64)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="indptr: is read-only"):
        converter.end_pass(fixed, np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="num_nodes: is -1"):
        _core.CscConverter(-1, 0, False, False, 1, 0)
