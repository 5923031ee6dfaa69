"""What a right sample is, said in NumPy, independently of the core. May import: numpy, batch.

``check_sample`` is the oracle of the sampler tests: it knows the graph only as the user's own edge
list and checks everything that the sampling rule promises about one batch, whatever was drawn.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from salient.batch import MFG, SampledBatch

InEdges = dict[int, list[int]]


def in_edges_of(edges: npt.NDArray[np.int64]) -> InEdges:
    """Return for each target the positions of its edges in the list ``edges`` (2, E)."""
    found: InEdges = defaultdict(list)
    for position, target in enumerate(edges[1].tolist()):
        found[target].append(position)
    return found


def edges_expected(degree: int, fanout: int, replace: bool) -> int:
    """Return how many in-edges the sampling rule keeps of a node."""
    if fanout == -1:
        return degree
    if replace:
        return fanout if degree else 0
    return min(degree, fanout)


def check_sample(
    batch: SampledBatch,
    edges: npt.NDArray[np.int64],
    seeds: Sequence[int],
    fanouts: Sequence[int],
    *,
    replace: bool = False,
    form: str = "mfg",
    edge_ids: bool = False,
) -> None:
    """Assert that ``batch`` is a right sample of the graph with the edges (2, E)."""
    in_edges = in_edges_of(edges)
    n_id = batch.n_id.tolist()
    hops = batch.mfgs[::-1]
    assert batch.n_id.dtype == torch.int64
    assert batch.n_id.dim() == 1
    assert len(set(n_id)) == len(n_id)
    assert batch.batch_size == len(seeds)
    assert n_id[: len(seeds)] == list(seeds)
    assert len(hops) == len(fanouts) == len(batch.num_sampled_edges)
    assert len(batch.num_sampled_nodes) == len(fanouts) + 1
    assert batch.num_sampled_nodes[0] == len(seeds)
    known = np.cumsum(batch.num_sampled_nodes).tolist()
    assert known[-1] == len(n_id) == batch.num_nodes
    assert batch.num_edges == sum(batch.num_sampled_edges)

    drawn_before = 0
    for hop, (mfg, fanout) in enumerate(zip(hops, fanouts, strict=True)):
        _check_shape(mfg, known[hop], known[hop + 1], edge_ids)
        first_dst, first_edge = 0, 0
        if form == "subgraph":  # only nodes that the last hop found; earlier edges come again
            first_dst = known[hop - 1] if hop else 0
            first_edge = drawn_before
            if hop:
                _check_prefix(hops[hop - 1], mfg)
        assert mfg.indptr[first_dst] == first_edge
        assert batch.num_sampled_edges[hop] == mfg.num_edges - first_edge
        drawn_before = mfg.num_edges
        indptr, sources = mfg.indptr.tolist(), batch.n_id[mfg.indices.long()].tolist()
        e_id = None if mfg.e_id is None else mfg.e_id.tolist()
        for v in range(first_dst, mfg.num_dst):
            piece = slice(indptr[v], indptr[v + 1])
            found = _Found(sources[piece], None if e_id is None else e_id[piece])
            _check_node(found, edges, in_edges.get(n_id[v], []), fanout, replace)
        _check_order_of_sight(mfg.indices[first_edge:].tolist(), known[hop], known[hop + 1])


def _check_shape(mfg: MFG, num_dst: int, num_src: int, edge_ids: bool) -> None:
    assert (mfg.num_dst, mfg.num_src) == (num_dst, num_src)
    assert mfg.indptr.dtype == mfg.indices.dtype == torch.int32
    assert mfg.indptr.shape == (num_dst + 1,)
    assert mfg.indptr[0] == 0
    assert mfg.indptr[-1] == mfg.num_edges == mfg.indices.shape[0]
    if mfg.num_edges:
        assert int(mfg.indices.min()) >= 0
        assert int(mfg.indices.max()) < num_src
    edge_index = mfg.edge_index
    assert edge_index.dtype == torch.int64
    assert edge_index.shape == (2, mfg.num_edges)
    assert torch.equal(edge_index[0], mfg.indices.long())
    targets = np.repeat(np.arange(num_dst), np.diff(mfg.indptr.numpy()))
    assert np.array_equal(edge_index[1].numpy(), targets)
    if edge_ids:
        assert mfg.e_id is not None
        assert mfg.e_id.dtype == torch.int64
        assert mfg.e_id.shape == (mfg.num_edges,)
    else:
        assert mfg.e_id is None


def _check_prefix(inner: MFG, outer: MFG) -> None:
    assert torch.equal(inner.indptr, outer.indptr[: inner.num_dst + 1])
    assert torch.equal(inner.indices, outer.indices[: inner.num_edges])
    if inner.e_id is not None:
        assert torch.equal(inner.e_id, outer.e_id[: inner.num_edges])


class _Found(NamedTuple):
    """What was sampled for one node: global ids of its sources and, if asked for, edge ids."""

    sources: list[int]
    e_id: list[int] | None


def _check_node(
    found: _Found,
    edges: npt.NDArray[np.int64],
    in_edges: list[int],
    fanout: int,
    replace: bool,
) -> None:
    assert len(found.sources) == edges_expected(len(in_edges), fanout, replace)
    repeats_allowed = replace and fanout != -1
    offered = Counter(edges[0, in_edges].tolist())
    if repeats_allowed:
        assert set(found.sources) <= set(offered)
    else:
        assert Counter(found.sources) <= offered
    if found.e_id is not None:
        assert set(found.e_id) <= set(in_edges)
        assert edges[0, found.e_id].tolist() == found.sources
        assert repeats_allowed or len(set(found.e_id)) == len(found.e_id)


def _check_order_of_sight(sources: list[int], known: int, known_after: int) -> None:
    """New nodes carry the next free number at their first sight."""
    for local in sources:
        assert local <= known
        known += local == known
    assert known == known_after


def digest(batches: Iterable[SampledBatch]) -> str:
    """Return a SHA-256 over all tensors of the batches, their dtypes and shapes."""
    seen = hashlib.sha256()

    def add(tensor: torch.Tensor | None) -> None:
        if tensor is None:
            seen.update(b"none")
            return
        seen.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():
            seen.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())

    for batch in batches:
        seen.update(f"{batch.batch_size} {batch.num_sampled_nodes}".encode())
        for mfg in batch.mfgs:
            for tensor in (mfg.indptr, mfg.indices, mfg.e_id):
                add(tensor)
        for tensor in (batch.n_id, getattr(batch, "x", None), getattr(batch, "y", None)):
            add(tensor)
    return seen.hexdigest()
