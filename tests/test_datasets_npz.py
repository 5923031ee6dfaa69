"""Data sets from ``.npz`` files, good and bad."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphs import G1_NUM_NODES, make_g1, pairs_of
from salient.datasets import load_dataset

NAN = float("nan")


def g1_arrays(**changes: Any) -> dict[str, Any]:
    """G1 as a file: 3 features, 2 classes, node 6 unlabelled."""
    masks = {"train_mask": [0, 1], "valid_mask": [2], "test_mask": [3, 5]}
    arrays: dict[str, Any] = {
        "edge_index": make_g1().astype(np.int32),
        "edge_kind": np.array("directed"),
        "x": np.arange(21, dtype=np.float16).reshape(7, 3),
        "y": np.array([0, 1, 0, 1, 0, 1, -1], np.int16),
        "num_nodes": np.array(G1_NUM_NODES),
        "num_features": np.array(3),
        "num_classes": np.array(2),
    }
    for key, ids in masks.items():
        arrays[key] = np.isin(np.arange(G1_NUM_NODES), ids)
    arrays |= changes
    return {key: value for key, value in arrays.items() if value is not None}


def save(path: Path, **changes: Any) -> str:
    np.savez_compressed(path, **g1_arrays(**changes))
    return str(path)


def test_directed_file_is_symmetrised(tmp_path: Path) -> None:
    """1->0 twice counts once, 0->0 stays once, 1-0 is both ways, node 6 stays."""
    dataset = load_dataset(save(tmp_path / "g1.npz"))
    expected = {(0, 0)}
    for source, target in make_g1().T.tolist():
        expected |= {(source, target), (target, source)}
    assert pairs_of(dataset.graph) == sorted(expected)
    assert dataset.num_nodes == 7
    assert dataset.description["symmetrised"] is True
    assert dataset.description["self_loops"] == 1
    assert dataset.description["num_edges"] == len(expected)
    assert dataset.x.tolist() == g1_arrays()["x"].tolist()
    assert dataset.y.tolist() == [0, 1, 0, 1, 0, 1, -1]
    assert {k: v.tolist() for k, v in dataset.split_idx.items()} == {
        "train": [0, 1],
        "valid": [2],
        "test": [3, 5],
    }
    json.dumps(dataset.description)


def test_file_with_both_ways_is_kept_or_refused(tmp_path: Path) -> None:
    both = np.array([[0, 1, 2, 3, 3], [1, 0, 3, 2, 3]], np.int32)
    kind = np.array("undirected_both")
    dataset = load_dataset(save(tmp_path / "a.npz", edge_index=both, edge_kind=kind))
    assert pairs_of(dataset.graph) == [(0, 1), (1, 0), (2, 3), (3, 2), (3, 3)]
    assert dataset.description["symmetrised"] is False
    path = save(tmp_path / "b.npz", edge_kind=kind)
    with pytest.raises(ValueError, match=r"b\.npz: 'edge_index' has 8 edges"):
        load_dataset(path)


def test_sparse_features_equal_dense_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (7, 3)).astype(np.uint8)
    row, column = np.nonzero(dense)
    path = save(
        tmp_path / "a.npz",
        x=None,
        x_indptr=np.searchsorted(row, np.arange(8)).astype(np.int32),
        x_indices=column.astype(np.uint16),
        x_data=dense[row, column],
    )
    assert load_dataset(path).x.tolist() == dense.tolist()
    assert load_dataset(path, columns=(1, 3)).x.tolist() == dense[:, 1:].tolist()


def test_selected_columns_show_in_the_name(tmp_path: Path) -> None:
    dataset = load_dataset(save(tmp_path / "g1.npz"), columns=(1, 3))
    assert dataset.name == "g1.npz, columns 1..2"
    assert "columns 1..2 of 3" in dataset.description["features"]
    assert dataset.x.tolist() == g1_arrays()["x"][:, 1:].tolist()
    assert dataset.x.is_contiguous()
    for wrong in [(1, 4), (2, 2), (-1, 2)]:
        with pytest.raises(ValueError, match="columns: "):
            load_dataset(str(tmp_path / "g1.npz"), columns=wrong)


def test_file_without_masks_is_split_at_random(tmp_path: Path) -> None:
    y = np.append(np.zeros(100, np.int16), np.full(20, -1, np.int16))
    path = save(
        tmp_path / "a.npz",
        x=np.zeros((120, 3), np.float16),
        y=y,
        num_nodes=np.array(120),
        **dict.fromkeys(("train_mask", "valid_mask", "test_mask")),
    )
    first, again, other = (load_dataset(path, seed=seed) for seed in (0, 0, 1))
    assert [len(ids) for ids in first.split_idx.values()] == [60, 20, 20]
    ids = torch.cat(list(first.split_idx.values()))
    assert ids.sort().values.tolist() == list(range(100))
    assert first.description["split"].startswith("random 60/20/20 split, seed 0")
    assert first.description["sha256"] == again.description["sha256"]
    assert first.split_idx["train"].tolist() != other.split_idx["train"].tolist()
    # Fixed for good: an upgrade of NumPy must not move the nodes.
    assert first.split_idx["train"][:6].tolist() == [0, 1, 2, 3, 6, 8]


def test_one_of_several_splits_is_chosen(tmp_path: Path) -> None:
    eye = np.eye(7, dtype=bool)
    masks = {"train_mask": eye[:2], "valid_mask": eye[2:4], "test_mask": eye[4:6]}
    path = save(tmp_path / "a.npz", **masks)
    dataset = load_dataset(path, split=1)
    assert [ids.tolist() for ids in dataset.split_idx.values()] == [[1], [3], [5]]
    assert dataset.name == "a.npz, split 1"
    with pytest.raises(ValueError, match="choice of 2 only"):
        load_dataset(path, split=2)
    forced = load_dataset(path, random_split=True)
    assert sum(len(ids) for ids in forced.split_idx.values()) == 6
    assert "not the file's own" in forced.description["split"]


def test_rounded_features_are_noted_and_overflow_refused(tmp_path: Path) -> None:
    counts = np.full((7, 3), 2048)
    exact = load_dataset(save(tmp_path / "a.npz", x=counts))
    assert "without rounding" in exact.description["features"]
    counts[4, 1] = 2049
    rounded = load_dataset(save(tmp_path / "b.npz", x=counts))
    assert "rounded from int64" in rounded.description["features"]
    counts[4, 1] = 65_520
    with pytest.raises(ValueError, match=r"'x'\[4, 1\] is 65520"):
        load_dataset(save(tmp_path / "c.npz", x=counts))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "'y' is missing"),
        ({"edge_kind": np.array("mixed")}, "'edge_kind' is 'mixed'"),
        ({"edge_index": make_g1().T}, r"'edge_index': expected .*\(8, 2\)"),
        ({"edge_index": make_g1() + 2}, r"'edge_index': edge 2 is 7 -> 6, but num_nodes is 7"),
        ({"edge_index": make_g1() - 1}, "'edge_index': edge 0 is 2 -> -1"),
        ({"x": np.zeros((6, 3), np.float16)}, r"'x' must be numbers of shape \(7, 3\)"),
        ({"x": np.full((7, 3), NAN)}, r"'x'\[0, 0\] is nan"),
        ({"y": np.array([0, 1, 0, 2, 0, 1, -1])}, "'y': node 3 has label 2 of 2"),
        ({"num_classes": np.array(2.0)}, "'num_classes' must be one integer"),
        ({"num_nodes": np.array(8)}, "'y' must be numbers of shape"),
        ({"valid_mask": None}, "'valid_mask' is missing"),
        ({"test_mask": np.zeros(6, bool)}, r"the masks have shapes .*\(6,\)"),
        ({"test_mask": np.ones(7, bool)}, "'test_mask' has node 6, which has no label"),
        ({"test_mask": np.zeros(7, np.int8)}, "'test_mask' must be booleans"),
        ({"x": np.array([[None] * 3] * 7)}, "'x' holds pickled objects"),
        ({"x": None, "x_data": np.zeros(2)}, "either 'x' or all of"),
    ],
)
def test_foreign_file_is_refused_by_key(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = save(tmp_path / "bad.npz", **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset(path)
    assert "bad.npz" in str(caught.value)


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1, 2, 2, 2, 2, 2, 3], [0, 1, 2], "rise from 0 to the number of entries, 4"),
        ([0, 2, 2, 2, 2, 2, 2, 4], [0, 0, 1, 2], "columns of row 0 do not ascend"),
        ([0, 3, 2, 2, 2, 2, 2, 4], [0, 1, 1, 2], "rise from 0"),
        ([0, 2, 2, 2, 2, 2, 2, 4], [0, 1, 1, 3], r"'x_indices' reaches .* outside \[0, 3\)"),
    ],
)
def test_broken_sparse_features_are_refused(
    tmp_path: Path, indptr: list[int], indices: list[int], message: str
) -> None:
    column = np.resize(np.array(indices, np.uint16), 4)
    data = {"x": None, "x_indices": column, "x_data": np.ones(4, np.uint8)}
    path = save(tmp_path / "bad.npz", x_indptr=np.array(indptr, np.int32), **data)
    with pytest.raises(ValueError, match=message):
        load_dataset(path)


def test_damaged_file_never_passes_or_crashes(tmp_path: Path) -> None:
    """Cut anywhere, or with any one byte changed, it is refused or loads the same arrays."""
    whole = Path(save(tmp_path / "whole.npz"))
    good = load_dataset(str(whole)).description["sha256"]
    data = whole.read_bytes()
    rng = np.random.default_rng(0)
    bad = tmp_path / "bad.npz"
    variants = [data[:cut] for cut in rng.integers(0, len(data), 40)]
    for place, value in zip(rng.integers(0, len(data), 400), rng.bytes(400), strict=True):
        variants.append(data[:place] + bytes([value]) + data[place + 1 :])
    refused = 0
    for variant in variants:
        bad.write_bytes(variant)
        try:
            assert load_dataset(str(bad)).description["sha256"] == good
        except ValueError as error:
            assert "bad.npz" in str(error)
            refused += 1
    assert refused > 300


def test_header_that_promises_too_much_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': (1 << 50,), }".replace(
        "1 << 50", str(1 << 50)
    )
    save(tmp_path / "good.npz", num_nodes=None)
    with (
        zipfile.ZipFile(tmp_path / "good.npz") as good,
        zipfile.ZipFile(path, "w") as archive,
    ):
        for name in good.namelist():
            archive.writestr(name, good.read(name))
        text = header.ljust(117) + "\n"
        archive.writestr("num_nodes.npy", b"\x93NUMPY\x01\x00\x76\x00" + text.encode())
    with pytest.raises(ValueError, match=r"'num_nodes' has a header for shape .* holds 0"):
        load_dataset(str(path))


def test_entry_that_claims_an_impossible_expansion_is_refused(tmp_path: Path) -> None:
    path = Path(save(tmp_path / "bomb.npz"))
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("num_nodes.npy").file_size
    data = bytearray(path.read_bytes())
    # The central directory is at the end; its entry has the size 22 bytes before the name.
    name = data.rindex(b"num_nodes.npy")
    assert int.from_bytes(data[name - 22 : name - 18], "little") == size
    data[name - 22 : name - 18] = (4_000_000_000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="'num_nodes' claims 4,000,000,000 bytes"):
        load_dataset(str(path))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.npz: no such file"):
        load_dataset("none.npz", tmp_path)


def test_real_graphs_load(shared_data: Path) -> None:
    computers = load_dataset("amazon_computers.npz", shared_data)
    assert computers.graph.num_edges == 491_722
    arxiv = load_dataset("ogbn_arxiv.npz", shared_data, columns=(80, 200))
    assert arxiv.name == "ogbn_arxiv.npz, columns 80..199"
    assert (arxiv.num_nodes, arxiv.num_features, arxiv.num_classes) == (169_343, 120, 40)
    assert [len(ids) for ids in arxiv.split_idx.values()] == [90_941, 29_799, 48_603]
    assert arxiv.graph.num_edges == 2_315_598
    assert "NOT the OGB" in arxiv.description["features"]
    with np.load(shared_data / "ogbn_arxiv.npz", allow_pickle=False) as file:
        row = np.repeat(np.arange(169_343), np.diff(file["x_indptr"]))
        x = np.zeros((169_343, 200), np.float16)
        x[row, file["x_indices"]] = file["x_data"]
    assert np.array_equal(arxiv.x.numpy(), x[:, 80:])
