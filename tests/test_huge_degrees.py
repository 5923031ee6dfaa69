"""Nodes with about 2^31 in-edges, in a sparse file of which the sampler reads the drawn entries.

The chance of a false alarm is below 1e-6 a test: see uniformity.py.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.sampler import NeighborSampler
from uniformity import assert_no_repeats, assert_uniform

# 2^32 words shared out among so many positions give them 3 and 2 words in turn: without rejection
# one parity would be half as likely again as the other, in every stretch of the range.
UNEVEN = int(2**32 / 2.5)
LARGEST_NARROW = 2**31 - 1  # above this the draws are made in 64 bits
WIDE = 2**31 + 100
DEGREES = [3, UNEVEN, LARGEST_NARROW, WIDE, 5]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    indptr = np.concatenate([[0], np.cumsum(DEGREES)]).astype(np.int64)
    path: Path = tmp_path_factory.mktemp("huge") / "indices"
    try:
        with path.open("wb") as file:
            file.truncate(4 * int(indptr[-1]))
    except OSError as error:
        pytest.skip(f"no sparse file of {4 * int(indptr[-1])} bytes can be made: {error}")
    indices = np.memmap(path, np.int32, "r")
    graph = Graph(indptr, indices, validate=False)
    # So that a drawn entry costs a page of the file, not the megabytes around it.
    indices._mmap.madvise(mmap.MADV_RANDOM)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        indices._mmap.madvise(mmap.MADV_NOHUGEPAGE)
    yield graph
    path.unlink()


def draw(
    graph: Graph, node: int, fanout: int, draws: int, *, replace: bool
) -> npt.NDArray[np.int64]:
    """Return the positions drawn for one node, shape (draws, fanout)."""
    sampler = NeighborSampler(graph, [fanout], replace=replace, edge_ids=True)
    rows = [sampler.sample([node], batch=number).mfgs[0].e_id.numpy() for number in range(draws)]
    return np.stack(rows) - graph.indptr[node]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("node", [1, 2, 3])
def test_draws_are_uniform_over_the_whole_range(graph: Graph, node: int, replace: bool) -> None:
    """Sixteen stretches of the range times the parity."""
    degree = DEGREES[node]
    rows = draw(graph, node, 4, 800, replace=replace)
    assert rows.min() >= 0
    assert rows.max() < degree
    assert_no_repeats(rows)  # with replacement, one in 3e5 tests would see a repeat
    stretch = rows.ravel() * 16 // degree
    assert_uniform(np.bincount(2 * stretch + rows.ravel() % 2, minlength=32))


def test_many_neighbours_of_a_huge_node_have_distinct_ids(graph: Graph) -> None:
    """Fanout 40 of 2^31 + 100."""
    rows = draw(graph, 3, 40, 20, replace=False)
    assert_no_repeats(rows)


def test_nodes_behind_a_huge_one_are_read_at_their_own_offsets(graph: Graph) -> None:
    sampler = NeighborSampler(graph, [2, 2], edge_ids=True)
    batch = sampler.sample([4, 3, 0, 2, 1])
    for mfg in batch.mfgs:
        e_id = mfg.e_id.numpy().reshape(-1, 2)
        begin, end = graph.indptr[batch.n_id[: mfg.num_dst].numpy()], graph.indptr[1:]
        end = end[batch.n_id[: mfg.num_dst].numpy()]
        assert (e_id >= begin[:, None]).all()
        assert (e_id < end[:, None]).all()
    assert batch.mfgs[-1].e_id[:2].min() >= 2**32


def test_only_what_is_drawn_is_read(graph: Graph) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    draw(graph, 3, 4, 100, replace=False)
    draw(graph, 1, 4, 100, replace=False)
    assert process.memory_info().rss - before < 64 << 20


def flags_of_mapping(path: Path) -> set[str]:
    """Return the kernel's flags of the mapping of a file in this process."""
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("VmFlags:") and found:
            return set(line.split()[1:])
        if not line[:1].isupper():
            found = line.endswith(str(path))
    raise AssertionError(f"{path} is not mapped")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="no /proc/self/smaps here")
def test_mapped_files_keep_the_access_pattern_that_their_user_chose(tmp_path: Path) -> None:
    """On a file, the advice "huge pages" makes each fault read 2 MiB, and random access crawl."""
    num_edges = 8 << 20
    path = tmp_path / "indices"
    with path.open("wb") as file:
        file.truncate(4 * num_edges)
    indices = np.memmap(path, np.int32, "r")
    indices._mmap.madvise(mmap.MADV_RANDOM)
    before = flags_of_mapping(path)
    graph = Graph(np.array([0, num_edges]), indices, validate=False)
    assert flags_of_mapping(path) == before
    NeighborLoader((graph, indices.reshape(1, -1), None), [2], num_threads=1)
    assert flags_of_mapping(path) == before
