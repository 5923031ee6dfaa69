"""Case 10 in one process: whatever way an epoch ends, nothing of it stays behind."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from graphs import G5_NUM_NODES, make_g5
from reference_sampler import digest
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.sampler import NeighborSampler

linux_only = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts threads and descriptors in /proc"
)

G5 = Graph.from_edge_index(make_g5(), G5_NUM_NODES)


def make_loader(**options: Any) -> NeighborLoader:
    x = torch.arange(G5_NUM_NODES * 4, dtype=torch.float32).view(G5_NUM_NODES, 4)
    settings = {"batch_size": 4, "shuffle": True, "num_threads": 2, "prefetch": 2, **options}
    return NeighborLoader((G5, x, torch.arange(G5_NUM_NODES)), [4, 4], **settings)


class Held(NamedTuple):
    threads: int
    descriptors: int
    shared_memory: int


def held() -> Held:
    return Held(
        *(len(list(Path(p).iterdir())) for p in ("/proc/self/task", "/proc/self/fd", "/dev/shm"))
    )


def assert_settles_to(expected: Held) -> None:
    """A joined thread may stay listed for an instant."""
    deadline = time.monotonic() + 5
    while held() != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() == expected


@pytest.fixture
def before() -> Held:
    list(make_loader())  # whatever is made once and kept
    gc.collect()
    return held()


# --- leaving early --------------------------------------------------------------------------------


def leave_by_break(loader: NeighborLoader) -> None:
    for _ in loader:
        break


def leave_by_an_error(loader: NeighborLoader) -> None:
    def consume() -> None:
        for _ in loader:
            raise KeyError("consumer")

    with pytest.raises(KeyError, match="consumer"):
        consume()


def leave_by_close(loader: NeighborLoader) -> None:
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    iterator.close()
    assert list(iterator) == []


def leave_at_once(loader: NeighborLoader) -> None:
    iter(loader)


def leave_in_a_cycle(loader: NeighborLoader) -> None:
    knot: list[Any] = [iter(loader)]
    next(knot[0])
    knot.append(knot)
    del knot
    gc.collect(0)


def leave_a_generator(loader: NeighborLoader) -> None:
    def generate() -> Iterator[Any]:
        yield from loader

    next(generate())


def leave_full(loader: NeighborLoader) -> None:
    iterator = iter(loader)
    time.sleep(0.02)  # until the threads wait for room
    del iterator


WAYS: list[Callable[[NeighborLoader], None]] = [
    leave_by_break,
    leave_by_an_error,
    leave_by_close,
    leave_at_once,
    leave_in_a_cycle,
    leave_a_generator,
    leave_full,
]


@linux_only
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
def test_epochs_left_early_leave_nothing_behind(
    before: Held, leave: Callable[[NeighborLoader], None]
) -> None:
    loader = make_loader()
    for _ in range(50):
        leave(loader)
    assert_settles_to(before)
    loader.set_epoch(3)
    fresh = make_loader(num_threads=1)
    fresh.set_epoch(3)
    assert digest(loader) == digest(fresh)


@linux_only
def test_threads_run_during_an_epoch_and_end_with_it(before: Held) -> None:
    iterator = iter(make_loader(num_threads=3))
    next(iterator)
    assert held().threads == before.threads + 3
    assert len(list(iterator)) == 49
    assert_settles_to(before)


@linux_only
def test_no_more_threads_start_than_there_are_batches(before: Held) -> None:
    iterator = iter(make_loader(num_threads=8, batch_size=100))
    assert held().threads <= before.threads + 2
    assert len(list(iterator)) == 2


def test_an_iterator_outlives_its_loader() -> None:
    expected = digest(make_loader())
    iterator = iter(make_loader())
    gc.collect()
    assert digest(iterator) == expected


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@linux_only
def test_two_hundred_epochs_take_no_more_memory_than_a_few(before: Held) -> None:
    wide = np.zeros((G5_NUM_NODES, 500), np.float32)
    loader = NeighborLoader((G5, wide, None), [8, 8], batch_size=50, shuffle=True, num_threads=2)
    for _ in range(20):
        list(loader)
    first = resident_bytes()
    for _ in range(200):
        for batch in loader:
            assert batch.x.shape == (batch.num_nodes, 500)
    # An epoch hands over 1.5 MB; keeping one batch in a hundred would show.
    assert resident_bytes() - first < 3 << 20
    assert_settles_to(before)


# --- side by side ---------------------------------------------------------------------------------


def test_loaders_and_iterators_do_not_mix() -> None:
    first, second = make_loader(seed=1), make_loader(seed=2, batch_size=5)
    expected = [digest(make_loader(seed=1)), digest(make_loader(seed=2, batch_size=5))]
    kept: list[list[Any]] = [[], []]
    iterators = [iter(first), iter(second)]
    while iterators_left := [i for i in range(2) if len(kept[i]) < len((first, second)[i])]:
        for i in iterators_left:
            kept[i].append(next(iterators[i]))
    assert [digest(batches) for batches in kept] == expected


def test_two_epochs_of_one_loader_may_run_at_once() -> None:
    loader, plain = make_loader(), make_loader()
    expected = [digest(plain), digest(plain)]
    pairs = list(zip(loader, loader, strict=True))
    assert [digest(epoch) for epoch in zip(*pairs, strict=True)] == expected


@pytest.mark.parametrize("form", ["mfg", "subgraph"])
def test_one_sampler_serves_many_threads(form: Any) -> None:
    sampler = NeighborSampler(G5, [5, 5, 5], form=form, edge_ids=True)
    seeds = [np.arange(start, start + 30) for start in range(100)]

    def sample(number: int) -> str:
        return digest([sampler.sample(seeds[number % 100], batch=number)])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sample, range(400))) == [sample(number) for number in range(400)]


def test_threads_may_share_an_iterator() -> None:
    expected = sorted(digest([batch]) for batch in make_loader())
    iterator = iter(make_loader())
    taken: list[str] = []
    errors: list[BaseException] = []

    def consume() -> None:
        try:
            taken.extend(digest([batch]) for batch in iterator)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert errors == []
    assert sorted(taken) == expected


# --- slow, large and failing batches --------------------------------------------------------------


def slow_loader(hops: int = 10) -> NeighborLoader:
    """200 batches of 10^6 edges a hop, some hundredths of a second each, made one at a time."""
    nodes = np.arange(200_000)
    graph = Graph.from_edge_index(np.stack([nodes // 1000 * 1000, nodes]))
    loader = NeighborLoader(
        (graph, None, None),
        [1000] * hops,
        batch_size=1000,
        replace=True,
        num_threads=1,
        prefetch=0,
    )
    assert len(loader) == 200
    return loader


def test_closing_ends_a_wait_in_another_thread() -> None:
    """Who closes and who waits end the epoch together, and nobody waits for the batch."""
    loader = slow_loader(hops=30)
    started = time.monotonic()
    loader.sampler.sample(np.arange(1000))
    one_batch = time.monotonic() - started
    closing = []
    for _ in range(3):
        iterator = iter(loader)
        outcome: list[Any] = []
        waiting = threading.Thread(target=lambda it=iterator, out=outcome: out.extend(it))
        waiting.start()
        time.sleep(0.03)
        started = time.monotonic()
        iterator.close()
        closing.append(time.monotonic() - started)
        waiting.join(20)
        assert not waiting.is_alive()
        assert len(outcome) < 200
    assert min(closing) < one_batch / 4  # the machine may be busy, but not each time


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_last_batch_far_larger_than_the_others_is_whole(prefetch: int) -> None:
    """A star with 900 leaves whose hub comes last."""
    leaves, hub = np.arange(900), 900
    graph = Graph.from_edge_index(np.stack([leaves, np.full(900, hub)]))
    x = torch.randn(901, 300)
    y = torch.arange(901)
    loader = NeighborLoader(
        (graph, x, y), [-1], batch_size=1, num_threads=2, prefetch=prefetch, edge_ids=True
    )
    for _ in range(2):
        batches = list(loader)
        assert [batch.num_nodes for batch in batches] == [1] * 900 + [901]
        last = batches[-1]
        assert last.n_id.tolist() == [hub, *leaves]
        assert last.y.tolist() == [hub]
        assert last.mfgs[0].e_id.tolist() == leaves.tolist()
        assert all(torch.equal(batch.x, x[batch.n_id]) for batch in batches)
