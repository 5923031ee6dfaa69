"""Whatever is handed to the library, it answers or raises; the process lives.

A wrong argument may raise TypeError, ValueError or IndexError and nothing else. What is accepted
must be right, which is checked against plain Python.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import salient
from graphs import make_g1

REFUSALS = (TypeError, ValueError, IndexError)
FORMS = ("mfg", "subgraph")

bounded = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

# --- values of every kind ---------------------------------------------------------------------

DTYPES = ["?", "i1", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", "c8", ">i8", ">f4"]
DTYPES += ["O", "U2", "M8[s]"]
LAYOUTS: list[Callable[[Any], Any]] = [
    lambda a: a,
    lambda a: a[::2] if a.ndim else a,
    lambda a: a[::-1] if a.ndim else a,
    lambda a: a.T,
    np.asfortranarray,
    lambda a: np.broadcast_to(a, (3, *a.shape)),
    lambda a: shift_by_a_byte(a) if a.dtype != object else a,
]
TENSORS: list[Callable[[], Any]] = [
    lambda: torch.zeros(3, dtype=torch.bfloat16),
    lambda: torch.ones(3, 2, requires_grad=True),
    lambda: torch.eye(3).to_sparse(),
    lambda: torch.eye(3).to_sparse_csr(),
    lambda: torch.empty(3, 2, device="meta"),
    lambda: torch.ones(3, dtype=torch.complex64).conj(),
    lambda: torch._neg_view(torch.ones(3)),
    lambda: torch.zeros(1, dtype=torch.int64).expand(7),
]
OTHERS: list[Any] = [
    *(None, True, 0, -1, 3, 2**63, 2**70, 1.5, float("nan"), "ab", b"ab", object(), {0}, {}, ()),
    *([], [0], [0, 2, 1], [0, 0], [-1], [7], [0, [1]], [[0], [1]], [2**63], [2**70], [None], [1.5]),
]


def shift_by_a_byte(array: np.ndarray) -> np.ndarray:
    """Return a copy whose elements lie at odd addresses."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    shifted = room[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(0, 7), max_size=3).map(tuple))
    numbers = st.sampled_from([-1, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 2**62, 2**63 - 1])
    size = int(np.prod(shape, dtype=int))
    values = np.array(draw(st.lists(numbers, min_size=size, max_size=size)), np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # casts that overflow are wanted here
        array = values.reshape(shape).astype(np.dtype(draw(st.sampled_from(DTYPES))))
    array = draw(st.sampled_from(LAYOUTS))(array)
    if draw(st.booleans()):
        with contextlib.suppress(TypeError, ValueError):
            return torch.from_numpy(np.require(array, requirements="W"))
    return array


anything = st.one_of(
    arrays(), st.sampled_from(OTHERS), st.sampled_from(TENSORS).map(lambda make: make())
)


def mostly(valid: Any) -> st.SearchStrategy[Any]:
    """The valid value more often than anything else, so that calls get past the first check."""
    return st.one_of(st.just(valid), st.just(valid), anything)


# --- graphs -----------------------------------------------------------------------------------


@st.composite
def nearly_graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Arrays of a graph in CSC form, often with an entry or a length that is wrong."""
    degrees = draw(st.lists(st.integers(0, 6), max_size=8))
    indptr = np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)]).astype(np.int64)
    num_edges = int(indptr[-1])
    ids = st.integers(0, max(len(degrees) - 1, 0))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    indices = np.array(draw(st.lists(ids, min_size=num_edges, max_size=num_edges)), dtype)
    edge_ids = np.arange(num_edges)[::-1].copy() if draw(st.booleans()) else None
    parts = [indptr, indices] + ([] if edge_ids is None else [edge_ids])
    part = draw(st.sampled_from(parts))
    wrong = draw(st.sampled_from([None, -1, -(2**31), 0, 1, 8, 9, 10**6, 2**31 - 1]))
    if wrong is not None and part.size:
        part[draw(st.integers(0, part.size - 1))] = wrong
    cut = draw(st.sampled_from([None, None, "indptr", "indices"]))
    return (
        indptr[:-1] if cut == "indptr" else indptr,
        indices[:-1] if cut == "indices" else indices,
        edge_ids,
    )


def is_graph(indptr: np.ndarray, indices: np.ndarray, edge_ids: np.ndarray | None) -> bool:
    return bool(
        indptr.size > 0
        and indptr[0] == 0
        and indptr[-1] == indices.size
        and all(a <= b for a, b in pairwise(indptr))
        and all(0 <= v < indptr.size - 1 for v in indices)
        and (edge_ids is None or (edge_ids.size == indices.size and all(e >= 0 for e in edge_ids)))
    )


def check_samples(graph: salient.Graph) -> None:
    """Sample all nodes, whatever the form: every edge is one of the graph."""
    edge_ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    edges = set(
        zip(
            graph.indices.tolist(),
            np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)).tolist(),
            edge_ids.tolist(),
            strict=True,
        )
    )
    for form in FORMS:
        sampler = salient.NeighborSampler(graph, [3, -1], form=form, edge_ids=True)
        batch = sampler.sample(np.arange(graph.num_nodes))
        for mfg in batch.mfgs:
            source, target = batch.n_id[mfg.edge_index]
            assert mfg.e_id is not None
            sampled = zip(source.tolist(), target.tolist(), mfg.e_id.tolist(), strict=True)
            assert edges.issuperset(sampled)


@bounded
@given(nearly_graphs())
def test_a_graph_is_accepted_exactly_if_it_is_one(
    arrays_of_graph: tuple[np.ndarray, np.ndarray, np.ndarray | None],
) -> None:
    if not is_graph(*arrays_of_graph):
        with pytest.raises(ValueError, match=r"indptr|indices|edge_ids"):
            salient.Graph(*arrays_of_graph)
        return
    check_samples(salient.Graph(*arrays_of_graph))


@bounded
@given(
    mostly(np.array([0, 1, 3])),
    mostly(np.array([1, 0, 1], np.int32)),
    mostly(None),
)
def test_graph_of_anything(indptr: Any, indices: Any, edge_ids: Any) -> None:
    try:
        graph = salient.Graph(indptr, indices, edge_ids)
    except REFUSALS:
        return
    check_samples(graph)


@bounded
@given(mostly(make_g1()), st.sampled_from([None, 7, 8, 0, -1, 2**62, 2**63 - 1, 2**70, 1.5, "7"]))
def test_edge_index_of_anything(edge_index: Any, num_nodes: Any) -> None:
    if num_nodes is None and getattr(edge_index, "size", 0):
        # The highest id decides the size; sizes that could be had, but would fill memory, are out.
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            highest = int(np.asarray(edge_index).max())
            assume(highest < 2**20 or highest >= 2**60)
    try:
        graph = salient.Graph.from_edge_index(edge_index, num_nodes)
    except REFUSALS:
        return
    check_samples(graph)


# --- what samples and slices ------------------------------------------------------------------

SAMPLER_GRAPH = salient.Graph.from_edge_index(make_g1(), 7)
COUNTS = st.sampled_from([-2, -1, 0, 1, 2, 3, 2**24, 2**31, 2**63 - 1, 2**63, 2**70, True, 1.5, ""])


@bounded
@given(
    fanouts=st.one_of(st.just([2, -1]), st.lists(COUNTS, max_size=3), anything),
    replace=mostly(False),
    seed=mostly(0),
    form=mostly("mfg"),
    seeds=mostly(np.arange(7)),
    epoch=st.one_of(st.just(0), COUNTS),
    batch=st.one_of(st.just(3), COUNTS),
)
def test_sampler_of_anything(
    fanouts: Any, replace: Any, seed: Any, form: Any, seeds: Any, epoch: Any, batch: Any
) -> None:
    try:
        sampler = salient.NeighborSampler(SAMPLER_GRAPH, fanouts, replace, seed, form)
        sample = sampler.sample(seeds, epoch, batch)
    except REFUSALS:
        return
    expected = torch.as_tensor(seeds)
    expected = torch.nonzero(expected)[:, 0] if expected.dtype == torch.bool else expected.long()
    assert sample.n_id[: sample.batch_size].tolist() == expected.tolist()
    assert sample.n_id.unique().numel() == sample.num_nodes


@bounded
@given(
    x=mostly(np.arange(14, dtype=np.float32).reshape(7, 2)),
    y=mostly(np.arange(7)),
    num_neighbors=mostly([2, 2]),
    input_nodes=mostly(None),
    batch_size=st.one_of(st.just(3), COUNTS),
    num_threads=st.sampled_from([1, 1, 2, 2, 0, 1.5, None, 2**40]),
    prefetch=st.sampled_from([0, 1, 4, 4, -1, None, 2**40]),
    shuffle=mostly(True),
)
def test_loader_of_anything(x: Any, y: Any, **arguments: Any) -> None:
    try:
        batches = list(salient.NeighborLoader((SAMPLER_GRAPH, x, y), **arguments))
    except REFUSALS:
        return
    for batch in batches:
        if x is not None:
            table = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x))
            expected = table[batch.n_id]
            assert batch.x.dtype == expected.dtype and batch.x.shape == expected.shape
            assert torch.equal(raw_bytes(batch.x), raw_bytes(expected))


@bounded
@given(
    mostly(np.arange(14, dtype=np.float32).reshape(7, 2)),
    mostly(np.array([6, 0, 0])),
    mostly(None),
)
def test_gather_of_anything(table: Any, ids: Any, out: Any) -> None:
    try:
        rows = salient.gather_rows(table, ids, out)
    except REFUSALS:
        return
    whole = table if isinstance(table, torch.Tensor) else torch.from_numpy(np.array(table))
    index = torch.as_tensor(ids)
    expected = whole[index if index.dtype == torch.bool else index.long()]
    assert rows.dtype == expected.dtype and rows.shape == expected.shape
    assert torch.equal(raw_bytes(rows), raw_bytes(expected))


def raw_bytes(values: torch.Tensor) -> torch.Tensor:
    """Bytes, in which a NaN equals itself."""
    return values.detach().contiguous().reshape(-1).view(torch.uint8)


# --- single cases that hypothesis found, or may not reach --------------------------------------


@pytest.mark.parametrize("data", [None, 5, (), (SAMPLER_GRAPH,), ("g", None, None), object()])
def test_data_that_is_none(data: Any) -> None:
    with pytest.raises(TypeError, match="data: expected"):
        salient.NeighborLoader(data, [2])


def test_empty_input_nodes_load_nothing() -> None:
    for y in (np.arange(7), np.arange(7, dtype=np.float32), np.ones((7, 2), np.float32)):
        no_seeds = np.empty(0, np.int64)
        loader = salient.NeighborLoader((SAMPLER_GRAPH, None, y), [2], no_seeds, num_threads=1)
        assert len(loader) == 0 and list(loader) == []


def test_rows_without_values_stay_so() -> None:
    x = np.empty((7, 0), np.float32)
    loader = salient.NeighborLoader((SAMPLER_GRAPH, x, None), [2], batch_size=4, num_threads=1)
    assert [batch.x.shape for batch in loader] == [(b.num_nodes, 0) for b in loader]


def test_a_batch_size_above_all_is_one_batch() -> None:
    loader = salient.NeighborLoader(
        (SAMPLER_GRAPH, None, None), [2], batch_size=2**63 - 1, num_threads=1
    )
    assert [batch.batch_size for batch in loader] == [7]


def test_labels_never_change_their_value() -> None:
    labels = np.full(7, 2**64 - 1, np.uint64)
    with pytest.raises((TypeError, ValueError), match="y"):
        salient.NeighborLoader((SAMPLER_GRAPH, None, labels), [2])
