"""A batch depends on seed, epoch and batch number only: not on threads, process or id width."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from graphs import G5_NUM_NODES, make_g5
from reference_sampler import digest
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.sampler import NeighborSampler


def make_loader(index: type = np.int32, **options: Any) -> NeighborLoader:
    built = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
    graph = Graph(built.indptr, built.indices.astype(index), built.edge_ids)
    x = torch.arange(G5_NUM_NODES * 3, dtype=torch.float16).view(G5_NUM_NODES, 3)
    y = torch.arange(G5_NUM_NODES)
    settings = {"batch_size": 16, "shuffle": True, "seed": 5, "edge_ids": True, **options}
    return NeighborLoader((graph, x, y), settings.pop("num_neighbors", [5, 3, -1]), **settings)


def digest_of_two_epochs(**options: Any) -> str:
    loader = make_loader(**options)
    return digest([*loader, *loader])


@pytest.fixture(scope="module")
def expected() -> str:
    return digest_of_two_epochs(num_threads=1, prefetch=1)


@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_threads_and_prefetch_change_nothing(
    num_threads: int, prefetch: int, expected: str
) -> None:
    assert digest_of_two_epochs(num_threads=num_threads, prefetch=prefetch) == expected


def test_another_process_makes_the_same_batches(expected: str) -> None:
    script = "import test_determinism as t; print(t.digest_of_two_epochs(num_threads=3))"
    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert printed.stdout.strip() == expected


def test_the_width_of_the_ids_changes_nothing(expected: str) -> None:
    assert digest_of_two_epochs(index=np.int64) == expected


def test_a_loader_batch_is_the_samplers_own() -> None:
    loader = make_loader(shuffle=False, seed=9, num_threads=2)
    loader.set_epoch(7)
    for number, batch in enumerate(loader):
        seeds = np.arange(16 * number, min(16 * number + 16, G5_NUM_NODES))
        sample = loader.sampler.sample(seeds, epoch=7, batch=number)
        batch.x, batch.y = None, None
        assert digest([batch]) == digest([sample])


def test_set_epoch_repeats_an_epoch_and_epochs_count_up_without_it() -> None:
    loader = make_loader()
    epochs = [digest(loader) for _ in range(3)]
    assert len(set(epochs)) == 3
    loader.set_epoch(1)
    assert [digest(loader), digest(loader)] == epochs[1:]
    fresh = make_loader()
    fresh.set_epoch(2)
    assert digest(fresh) == epochs[2]


def test_an_epoch_left_early_counts_as_one() -> None:
    loader, whole = make_loader(), make_loader()
    next(iter(loader))
    list(whole)
    assert digest(loader) == digest(whole)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 6},
        {"seed": 5 + 2**32},
        {"replace": True},
        {"form": "mfg", "num_neighbors": [3, 5, -1]},
        {"shuffle": False},
    ],
)
def test_other_settings_make_other_batches(options: dict[str, Any], expected: str) -> None:
    assert digest_of_two_epochs(**options) != expected


def test_seed_epoch_and_batch_number_each_choose_another_sample() -> None:
    graph = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
    seeds = np.arange(50)
    samples = {
        digest([NeighborSampler(graph, [2, 2], seed=seed).sample(seeds, epoch=epoch, batch=batch)])
        for seed in (0, 1, 2**63)
        for epoch in (0, 1, 2**24 - 1)
        for batch in (0, 1, 2**32 - 1)
    }
    assert len(samples) == 27


# --- the stream itself ----------------------------------------------------------------------------


def philox_words(counter: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Return the words of Philox4x32-10 (Salmon et al., SC 2011) for counters of shape (n, 4)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = counter.astype(np.uint64).T
    key0, key1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        product0, product1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0 = (product1 >> np.uint64(32)) ^ c1 ^ np.uint64(key0)
        c2 = (product0 >> np.uint64(32)) ^ c3 ^ np.uint64(key1)
        c1, c3 = product1 & low, product0 & low
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def test_draws_are_those_of_the_documented_stream() -> None:
    """Draw i of position p in hop h is word i of counter (p, 0, batch, epoch * 256 + h).

    Results recorded on one machine can be made again on another only if this never changes.
    """
    nodes, degree, fanout, seed, epoch, number = 37, 1000, 4, 2**40 + 11, 9, 123
    graph = Graph(np.arange(nodes + 1) * degree, np.zeros(nodes * degree, np.int32))
    sampler = NeighborSampler(graph, [fanout] * 2, replace=True, seed=seed, edge_ids=True)
    batch = sampler.sample(np.arange(nodes), epoch=epoch, batch=number)
    for hop, mfg in enumerate(batch.mfgs[::-1]):
        place = np.arange(nodes)
        fixed = np.full(nodes, number), np.full(nodes, epoch * 256 + hop)
        words = philox_words(np.stack([place, np.zeros(nodes), *fixed], axis=1), seed)
        positions = (words * np.uint64(degree) >> np.uint64(32)).astype(np.int64)
        drawn = mfg.e_id.numpy().reshape(nodes, fanout) - graph.indptr[:-1, None]
        assert np.array_equal(drawn, positions)


def test_the_reference_stream_is_philox() -> None:
    """Known answers published with Random123."""
    zeros = philox_words(np.zeros((1, 4)), 0)
    assert [f"{word:08x}" for word in zeros[0]] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ones = philox_words(np.full((1, 4), 0xFFFFFFFF), 2**64 - 1)
    assert [f"{word:08x}" for word in ones[0]] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
