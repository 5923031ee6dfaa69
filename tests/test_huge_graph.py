"""A graph of more than 2^31 edges, in a sparse mapped file: 9 GB to see, some MB to hold."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import psutil
import pytest

import salient

NUM_NODES = 1_000
NUM_EDGES = 2_200_000_000
# The last nodes have few in-edges, all behind position 2^31, and real sources; those of the others
# are the file's holes, which read as node 0.
NUM_SMALL = 100
SMALL_DEGREE = 20
FIRST_SMALL = NUM_NODES - NUM_SMALL
LARGEST_GROWTH = 300 * 2**20


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[salient.Graph]:
    path = tmp_path_factory.mktemp("huge") / "indices.i32"
    path.touch()
    with path.open("r+b") as file:
        try:
            file.truncate(4 * NUM_EDGES)
        except OSError as error:
            pytest.skip(f"the file system takes no file of {4 * NUM_EDGES} bytes: {error}")
    if path.stat().st_blocks * 512 > 2**20:
        pytest.skip("the file system does not support sparse files")
    tail = NUM_SMALL * SMALL_DEGREE
    with path.open("r+b") as file:
        file.seek(-4 * tail, os.SEEK_END)
        file.write(np.random.default_rng(3).integers(0, NUM_NODES, tail, np.int32).tobytes())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM)  # else the system reads 128 KiB around each edge

    degrees = np.full(NUM_NODES, (NUM_EDGES - tail) // FIRST_SMALL)
    degrees[0] += (NUM_EDGES - tail) % FIRST_SMALL
    degrees[FIRST_SMALL:] = SMALL_DEGREE
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    assert indptr[-1] == NUM_EDGES and indptr[FIRST_SMALL] > 2**31
    yield salient.Graph(indptr, np.frombuffer(mapped, np.int32), validate=False)
    path.unlink()


def check_edges(graph: salient.Graph, batch: salient.SampledBatch) -> npt.NDArray[np.int64]:
    """Every edge is an in-edge of its node, with its source; return all positions drawn."""
    positions = []
    for mfg in batch.mfgs:
        assert mfg.e_id is not None
        source, target = batch.n_id[mfg.edge_index].numpy()
        e_id = mfg.e_id.numpy()
        assert np.all(e_id >= graph.indptr[target])
        assert np.all(e_id < graph.indptr[target + 1])
        np.testing.assert_array_equal(graph.indices[e_id], source)
        positions.append(e_id)
    return np.concatenate(positions)


@pytest.mark.parametrize("form", ["mfg", "subgraph"])
@pytest.mark.parametrize("fanout", [5, 40])
def test_samples_are_right_and_cost_no_memory(
    graph: salient.Graph, form: salient.sampler.Form, fanout: int
) -> None:
    before = psutil.Process().memory_info().rss
    sampler = salient.NeighborSampler(graph, [fanout, 5], form=form, edge_ids=True)
    seeds = np.arange(NUM_NODES)[::3]
    batch = sampler.sample(seeds, epoch=1)
    growth = psutil.Process().memory_info().rss - before

    np.testing.assert_array_equal(batch.n_id[: seeds.size], seeds)
    positions = check_edges(graph, batch)
    assert positions.max() > 2**31
    assert positions.min() < 2**31
    degrees = np.diff(graph.indptr)
    innermost = batch.mfgs[-1]
    np.testing.assert_array_equal(np.diff(innermost.indptr), np.minimum(degrees[seeds], fanout))
    assert growth < LARGEST_GROWTH


def test_draws_reach_all_of_a_long_list(graph: salient.Graph) -> None:
    # The big nodes together span the file: positions drawn fall evenly on it.
    sampler = salient.NeighborSampler(graph, [30], edge_ids=True)
    batch = sampler.sample(np.arange(FIRST_SMALL))
    positions = check_edges(graph, batch)
    assert np.unique(positions).size == positions.size == 30 * FIRST_SMALL
    counts, _ = np.histogram(positions, bins=20, range=(0, graph.indptr[FIRST_SMALL]))
    expected = positions.size / 20
    assert np.sum((counts - expected) ** 2 / expected) < 57  # 19 degrees of freedom: p < 1e-5


def test_all_edges_behind_two_to_the_31(graph: salient.Graph) -> None:
    # Fanout -1 keeps every in-edge of the small nodes, in order.
    sampler = salient.NeighborSampler(graph, [-1], edge_ids=True)
    batch = sampler.sample(np.arange(FIRST_SMALL, NUM_NODES))
    positions = check_edges(graph, batch)
    np.testing.assert_array_equal(
        positions, np.arange(NUM_EDGES - NUM_SMALL * SMALL_DEGREE, NUM_EDGES)
    )
    assert batch.num_nodes > NUM_SMALL


def test_more_edges_than_a_batch_can_hold_are_refused(graph: salient.Graph) -> None:
    one_node = salient.Graph(np.array([0, NUM_EDGES]), graph.indices, validate=False)
    sampler = salient.NeighborSampler(one_node, [-1])
    with pytest.raises(ValueError, match=r"more than 2\^31 - 1 edges"):
        sampler.sample([0])


def test_a_loader_slices_by_it(graph: salient.Graph) -> None:
    before = psutil.Process().memory_info().rss
    x = np.arange(2 * NUM_NODES, dtype=np.float32).reshape(NUM_NODES, 2)
    loader = salient.NeighborLoader(
        (graph, x, None), [4, 4], batch_size=250, edge_ids=True, num_threads=2, prefetch=1
    )
    for batch in loader:
        check_edges(graph, batch)
        np.testing.assert_array_equal(batch.x.numpy(), x[batch.n_id.numpy()])
    assert psutil.Process().memory_info().rss - before < LARGEST_GROWTH
