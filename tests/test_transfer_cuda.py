"""The transfer pipeline on a GPU."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import salient
from salient.transfer import DevicePrefetcher, wire_tensors

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def make_loader(num_features: int = 64, **options: Any) -> salient.NeighborLoader:
    rng = np.random.default_rng(0)
    graph = salient.Graph.from_edge_index(rng.integers(5000, size=(2, 60_000)), 5000)
    x = torch.randn(5000, num_features).half()
    y = torch.arange(5000) % 7
    data = (graph, x, y)
    return salient.NeighborLoader(data, [10, 5], batch_size=256, num_threads=2, **options)


def spin(milliseconds: float) -> None:
    torch.cuda._sleep(int(milliseconds * 1e6))  # cycles, at 1 to 2 GHz


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("edge_ids", [False, True])
def test_batches_arrive_as_they_left(depth: int, edge_ids: bool) -> None:
    host = [batch._moved(torch.clone) for batch in make_loader(edge_ids=edge_ids)]
    kept = list(DevicePrefetcher(make_loader(edge_ids=edge_ids), "cuda", depth))
    assert len(kept) == len(host) == 20
    for old, new in zip(host, kept, strict=True):
        assert new.x.is_cuda
        assert len(wire_tensors(new)) == 1
        assert torch.equal(new.slab.cpu(), old.slab)
        assert torch.equal(new.x.cpu(), old.x)
        assert torch.equal(new.n_id.cpu(), old.n_id)
        for a, b in zip(old.mfgs, new.mfgs, strict=True):
            assert torch.equal(a.indptr, b.indptr.cpu())
            assert torch.equal(a.indices, b.indices.cpu())


def test_the_loop_does_not_synchronise() -> None:
    batches = DevicePrefetcher(make_loader(), "cuda", depth=64)
    total = torch.zeros((), device="cuda")
    for _ in batches:  # slabs get page-locked
        pass
    previous = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches:
            total += batch.x.float().sum()
    finally:
        torch.cuda.set_sync_debug_mode(previous)
    assert np.isfinite(float(total))


def test_slabs_are_page_locked_where_they_lie() -> None:
    loader = make_loader()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in DevicePrefetcher(loader, "cuda"):
            pass
    assert loader.core.page_lock_error == 0
    assert all(batch.slab.is_pinned() for batch in loader)


def test_other_batches_are_copied_to_page_locked_memory_and_said_so() -> None:
    host = list(make_loader())
    for batch in host:
        batch.slab = None
    with pytest.warns(UserWarning, match="not in page-locked memory"):
        moved = list(DevicePrefetcher(host, "cuda"))
    assert all(torch.equal(a.x, b.x.cpu()) for a, b in zip(host, moved, strict=True))


def test_copies_overlap_with_steps() -> None:
    """Steps of 5 ms and copies of some ms: exposed transfer is a small part of the copies' time."""
    batches = DevicePrefetcher(make_loader(num_features=4096, prefetch=16), "cuda")
    for _ in range(2):
        for _ in batches:
            spin(10)
    times = batches.times
    assert times.transfer.work > 0
    assert times.transfer.exposed < 0.3 * times.transfer.work
    parts = (times.batch_preparation, times.transfer, times.training)
    assert sum(part.exposed for part in parts) == pytest.approx(times.total_seconds, rel=0.01)


def test_memory_on_the_device_is_bounded() -> None:
    batches = DevicePrefetcher(make_loader(num_features=1024), "cuda", depth=2)
    most = 0
    for _ in range(3):
        for batch in batches:
            most = max(most, batch.slab.numel())
            del batch
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    for batch in batches:
        spin(2)
        del batch
    assert torch.cuda.max_memory_allocated() - base < 5 * most


def test_leaving_early_leaves_slabs_whole() -> None:
    loader = make_loader()
    first = next(iter(make_loader())).x.clone()
    for _ in range(30):
        loader.set_epoch(0)
        for batch in DevicePrefetcher(loader, "cuda"):
            kept = batch
            break
        for _ in zip(range(3), loader, strict=False):  # writes to the slabs that came back
            pass
        assert torch.equal(kept.x.cpu(), first)
