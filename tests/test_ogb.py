"""OGB's raw files: what they become, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ogb_layout import RawGraph, make_graph, write_raw, write_table
from salient.datasets import csv_files, load_dataset, zip_members
from salient.datasets.ogb import write_ogb
from salient.datasets.ogb_files import OGB_SETS
from salient.datasets.sink import MemorySink

NAMES = list(OGB_SETS)
TEXT, BINARY = "ogbn-arxiv", "ogbn-papers100M"


def read(name: str, folder: Path, scratch: Path | None = None) -> tuple[dict[str, Any], Any]:
    sink = MemorySink()
    return sink.arrays, write_ogb(name, folder, sink, scratch=scratch)


def require_equal(arrays: dict[str, Any], graph: RawGraph) -> None:
    num_nodes = len(graph.y)
    adjacency = np.zeros((num_nodes, num_nodes), bool)
    adjacency[graph.edges[0], graph.edges[1]] = True
    adjacency |= adjacency.T
    source = np.nonzero(adjacency)[1]
    assert np.array_equal(np.diff(arrays["indptr"]), adjacency.sum(axis=1))
    assert np.array_equal(arrays["indices"], source)
    assert arrays["indices"].dtype == np.int32
    assert arrays["x"].dtype == np.float16
    assert arrays["x"].flags.c_contiguous
    assert np.array_equal(arrays["x"], graph.x.astype(np.float16))
    assert arrays["y"].dtype == np.int64
    assert np.array_equal(arrays["y"], graph.y)
    for part, ids in graph.split.items():
        assert arrays[part].dtype == np.int64
        assert np.array_equal(arrays[part], np.sort(ids))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that every file has many, with seams in odd places."""
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 37)
    monkeypatch.setattr(zip_members, "_BLOCK_BYTES", 136)


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_arrays_equal_a_plain_reading(
    name: str, scratch: bool, tmp_path: Path, small_blocks: None
) -> None:
    graph = make_graph()
    folder = write_raw(name, tmp_path / "raw", graph)
    (tmp_path / "scratch").mkdir()
    arrays, about = read(name, folder, tmp_path / "scratch" if scratch else None)
    require_equal(arrays, graph)
    assert about["num_edges"] == len(arrays["indices"])
    assert about["self_loops"] == len(set(graph.edges[0][graph.edges[0] == graph.edges[1]]))
    assert about["split_sizes"] == {part: len(ids) for part, ids in graph.split.items()}
    assert "NOT of the published size" in about["source"]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_members_of_either_kind_are_read(
    compressed: bool, half: bool, tmp_path: Path, small_blocks: None
) -> None:
    graph = make_graph(seed=1)
    folder = write_raw(BINARY, tmp_path / "raw", graph, compressed=compressed, half=half)
    arrays, about = read(BINARY, folder)
    require_equal(arrays, graph)
    assert ("rounded from float32" in about["features"]) == (not half)


def test_one_block_and_an_empty_graph(tmp_path: Path) -> None:
    for name in NAMES:
        graph = make_graph(seed=2)
        require_equal(read(name, write_raw(name, tmp_path / name, graph))[0], graph)


def test_unlabelled_rows_never_reach_an_integer_cast(tmp_path: Path) -> None:
    """Case 8: y = [nan, 3, nan, 1] of shape (N, 1), train [1, 3]."""
    part = {"train": np.array([3, 1]), "valid": np.empty(0, int), "test": np.empty(0, int)}
    graph = RawGraph(np.array([[0, 1], [1, 2]]), np.ones((4, 2)), np.array([-1, 3, -1, 1]), part)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of a NaN that is cast.
        for name in NAMES:
            root = tmp_path / name
            write_raw(name, root / "ogb" / OGB_SETS[name].folder, graph)
            dataset = load_dataset(name, root)
            assert dataset.y.tolist() == [-1, 3, -1, 1]
            assert dataset.y[dataset.split_idx["train"]].tolist() == [3, 1]


def test_the_real_arxiv_graph(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "ogbn_arxiv.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with np.load(path, allow_pickle=False) as file:
        y = file["y"].astype(np.int64)
        edges = file["edge_index"].astype(np.int64)
        split = {part: np.flatnonzero(file[f"{part}_mask"]) for part in ("train", "valid", "test")}
    x = np.arange(2 * len(y), dtype=np.float32).reshape(-1, 2) % 2000
    write_raw(TEXT, tmp_path / "ogb" / "arxiv", RawGraph(edges, x, y, split))
    dataset = load_dataset(TEXT, tmp_path)
    reference = load_dataset(str(path))
    assert dataset.graph.num_edges == 2_315_598  # As published for the undirected graph
    assert np.array_equal(dataset.graph.indptr, reference.graph.indptr)
    assert np.array_equal(dataset.graph.indices, reference.graph.indices)
    assert dataset.y.equal(reference.y)
    assert np.array_equal(dataset.x.numpy(), x)
    assert [len(ids) for ids in dataset.split_idx.values()] == [90_941, 29_799, 48_603]
    assert "NOT" not in dataset.description["source"]


# -- damage


def raw_files(name: str) -> list[str]:
    if OGB_SETS[name].binary:
        files = ["raw/data.npz", "raw/node-label.npz"]
    else:
        kinds = ("edge", "num-node-list", "num-edge-list", "node-feat", "node-label")
        files = [f"raw/{kind}.csv.gz" for kind in kinds]
    return files + [f"split/time/{part}.csv.gz" for part in ("train", "valid", "test")]


ALL_FILES = [(name, file) for name in (TEXT, BINARY) for file in raw_files(name)]


@pytest.mark.parametrize(("name", "file"), ALL_FILES)
def test_a_missing_file_is_named(name: str, file: str, tmp_path: Path) -> None:
    folder = write_raw(name, tmp_path / "raw", make_graph())
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"{re.escape(str(folder / file))}.*fetch"):
        read(name, folder)


@pytest.mark.parametrize(("name", "file"), ALL_FILES)
def test_truncated_and_damaged_files_are_named(name: str, file: str, tmp_path: Path) -> None:
    folder = write_raw(name, tmp_path / "raw", make_graph(), compressed=True)
    path = folder / file
    data = path.read_bytes()
    flipped = bytearray(data)
    # In the data of a zip member, or in the checksum that ends a gzip file.
    flipped[-7 if file.endswith("gz") else len(data) // 2] ^= 0x55
    for damaged in (data[:-9], data[: len(data) // 2], b"", b"no such format", bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read(name, folder)


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("raw/num-node-list", [[59]], "node-label.*more than 59 rows"),
        ("raw/num-node-list", [[61]], "node-label.*60 rows.*61 nodes"),
        ("raw/num-node-list", [[60], [1]], "2 entries"),
        ("raw/num-edge-list", [[299]], "edge.csv.*more than 299 rows"),
        ("raw/num-edge-list", [[301]], "edge.csv.*300 rows.*301 edges"),
        ("raw/num-edge-list", [[-1]], "-1"),
        ("raw/edge", [[0, 1], [2, 60]], "edge 1 has the target 60"),
        ("raw/edge", [[0, 1], [-1, 5]], "edge 1 has the source -1"),
        ("raw/edge", [[0, 1, 2]], "3 columns, expected 2"),
        ("raw/edge", [[0, 1.5]], "1.5"),
        ("raw/node-feat", [[1.0, 2.0], [1.0, float("nan")]], r"features\[1, 1\] is nan"),
        ("raw/node-feat", [[1.0, 2.0]], "1 rows"),
        ("raw/node-label", [[1.0], [40.0]], "row 1 has label 40 of 40"),
        ("raw/node-label", [[1.0], [0.5]], r"y\[1\] is 0.5"),
        ("split/time/valid", [[60]], "node 60 is outside"),
        ("split/time/valid", [[-1]], "node -1 is outside"),
        ("split/time/test", [[0]], "node 0 has no label"),
        ("split/time/train", [[1], [1]], "node 1 is in it twice"),
    ],
)
def test_contradictions_name_file_and_place(
    file: str, rows: list[list[float]], message: str, tmp_path: Path
) -> None:
    folder = write_raw(TEXT, tmp_path / "raw", make_graph())
    path = folder / f"{file}.csv.gz"
    with gzip.open(path, "wt") as stream:
        stream.writelines(",".join(map(str, row)) + "\n" for row in rows)
    with pytest.raises(ValueError, match=message) as caught:
        read(TEXT, folder)
    assert str(folder) in str(caught.value)
    assert "fetch" in str(caught.value) or "float16" in str(caught.value)


def test_an_empty_line_does_not_shift_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    for text in ("1\n\n2\n", "\n1\n"):
        path.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(ValueError, match="empty line"):
            list(csv_files.read_blocks(path, 1, np.int64))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("edge_index", np.zeros((2, 299), np.int64), r"'edge_index'.*\(2, 299\)"),
        ("edge_index", np.zeros((300, 2), np.int64), r"'edge_index'.*\(300, 2\)"),
        ("edge_index", np.full((2, 300), 60), "edge 0 has the source 60"),
        ("node_feat", np.zeros((59, 5), np.float32), r"'node_feat'.*\(59, 5\)"),
        ("node_feat", np.zeros(60, np.float32), r"'node_feat'.*\(60,\)"),
        ("num_nodes_list", np.array([60, 2]), "2 entries"),
        ("node_feat", None, "'node_feat' is missing"),
    ],
)
def test_wrong_arrays_in_the_binary_form(
    key: str, value: Any, message: str, tmp_path: Path
) -> None:
    folder = write_raw(BINARY, tmp_path / "raw", make_graph())
    path = folder / "raw" / "data.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays.pop(key)
    if value is not None:
        arrays[key] = value
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        read(BINARY, folder)
    assert str(path) in str(caught.value)


def test_the_writer_of_the_fixture_has_the_layout(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv.gz", np.array([[1, 2], [3, 4]]))
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == b"1,2\n3,4\n"
