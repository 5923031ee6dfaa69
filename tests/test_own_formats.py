"""Stores from the user's own files, good and bad."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphs import make_g1, pairs_of
from salient.datasets import Dataset, load_dataset
from salient.datasets.own import OwnOptions, prepare_own
from salient.datasets.store import verify_store

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

NAN = float("nan")
X = np.arange(21, dtype=np.float32).reshape(7, 3)
Y = np.array([[0], [1], [NAN], [1], [0], [1], [NAN]])
SPLIT = {"train": [3, 0], "valid": [1], "test": [4, 5]}
DIRECTED = sorted(map(tuple, make_g1().T.tolist()))
SYMMETRISED = sorted({(a, b) for a, b in DIRECTED} | {(b, a) for a, b in DIRECTED})


def mask_of(ids: list[int]) -> Any:
    return np.isin(np.arange(7), ids)


def write_folder(folder: Path, **changes: Any) -> Path:
    """G1 with float labels of shape (N, 1), two of them missing, and the split as ids."""
    folder.mkdir()
    arrays: dict[str, Any] = {"edge_index": make_g1(), "x": X, "y": Y}
    arrays |= {part: np.array(ids) for part, ids in SPLIT.items()}
    for name, array in (arrays | changes).items():
        if array is not None:
            np.save(folder / name, array)
    return folder


def write_csv(path: Path, lines: str) -> Path:
    data = lines.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def table_options(folder: Path, **changes: Any) -> OwnOptions:
    write_folder(folder)
    given = {"features": folder / "x.npy", "labels": folder / "y.npy", "splits": folder}
    return OwnOptions(**(given | changes))


def require_g1(dataset: Dataset, pairs: list[tuple[int, int]] = DIRECTED) -> None:
    assert pairs_of(dataset.graph) == pairs
    assert dataset.x.tolist() == X.tolist()
    assert dataset.y.tolist() == [0, 1, -1, 1, 0, 1, -1]
    assert {part: ids.tolist() for part, ids in dataset.split_idx.items()} == {
        part: sorted(ids) for part, ids in SPLIT.items()
    }
    assert dataset.num_classes == 2
    assert dataset.description["self_loops"] == 1
    assert dataset.description["num_edges"] == len(pairs)


def test_folder_of_arrays(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "mine")
    dataset = prepare_own(source, tmp_path / "set")
    require_g1(dataset)
    assert dataset.name == "mine"
    assert dataset.description["symmetrised"] is False
    verify_store(tmp_path / "set")
    both = prepare_own(source, tmp_path / "both", OwnOptions(symmetrise=True))
    require_g1(both, SYMMETRISED)
    assert both.description["symmetrised"] is True
    once = prepare_own(source, tmp_path / "once", OwnOptions(drop_duplicates=True))
    require_g1(once, sorted(set(DIRECTED)))


def test_masks_are_as_good_as_ids(tmp_path: Path) -> None:
    masks = {part: mask_of(ids) for part, ids in SPLIT.items()}
    require_g1(prepare_own(write_folder(tmp_path / "a", **masks), tmp_path / "set"))


def test_files_without_split_are_split_at_random(tmp_path: Path) -> None:
    y = np.append(np.zeros(100, np.int64), np.full(20, -1))
    arrays = {"x": np.ones((120, 1)), "y": y, **dict.fromkeys(SPLIT)}
    source = write_folder(tmp_path / "a", **arrays)
    first = prepare_own(source, tmp_path / "0")
    again = prepare_own(source, tmp_path / "00")
    other = prepare_own(source, tmp_path / "1", OwnOptions(seed=1))
    assert [len(ids) for ids in first.split_idx.values()] == [60, 20, 20]
    assert int(torch.cat(list(first.split_idx.values())).max()) < 100
    assert first.description["sha256"] == again.description["sha256"]
    assert first.description["sha256"] != other.description["sha256"]
    assert "seed 1" in other.description["split"]


def test_large_features_are_converted_in_blocks(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((70_000, 2))
    arrays = {"x": x, "y": np.zeros(70_000, np.int8), "edge_index": make_g1().astype(np.int32)}
    dataset = prepare_own(write_folder(tmp_path / "a", **arrays), tmp_path / "set")
    assert np.array_equal(dataset.x.numpy(), x.astype(np.float16))
    assert "rounded from float64" in dataset.description["features"]
    x[66_000, 1] = 1e6
    with pytest.raises(ValueError, match=r"x\[66000, 1\] is 1000000"):
        prepare_own(write_folder(tmp_path / "b", **arrays), tmp_path / "bad")


def test_npz_file(tmp_path: Path) -> None:
    arrays = {"edge_index": make_g1(), "edge_kind": "directed", "x": X, "y": Y[:, 0]}
    arrays |= {f"{part}_mask": mask_of(ids) for part, ids in SPLIT.items()}
    counts = {"num_nodes": 7, "num_features": 3, "num_classes": 2}
    np.savez(tmp_path / "g1.npz", **arrays, **counts)
    dataset = prepare_own(tmp_path / "g1.npz", tmp_path / "set", name="mine")
    require_g1(dataset, SYMMETRISED)
    in_memory = load_dataset(str(tmp_path / "g1.npz")).description
    assert dataset.description == in_memory
    assert dataset.name == "mine"
    with pytest.raises(ValueError, match="edge_kind"):
        prepare_own(tmp_path / "g1.npz", tmp_path / "other", OwnOptions(symmetrise=True))


def make_pyg(**changes: Any) -> Any:
    data = pytest.importorskip("torch_geometric.data")
    fields: dict[str, Any] = {
        "x": torch.from_numpy(X),
        "y": torch.tensor([0, 1, -1, 1, 0, 1, -1]),
        "edge_index": torch.from_numpy(make_g1().copy()),
    }
    names = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
    fields |= {names[part]: torch.from_numpy(mask_of(ids)) for part, ids in SPLIT.items()}
    return data.Data(**(fields | changes))


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("new_format", [False, True])
def test_pyg_data(tmp_path: Path, as_dict: bool, new_format: bool) -> None:
    data = make_pyg()
    torch.save(
        data.to_dict() if as_dict else data,
        tmp_path / "g1.pt",
        _use_new_zipfile_serialization=new_format,
    )
    dataset = prepare_own(tmp_path / "g1.pt", tmp_path / "set")
    require_g1(dataset)
    assert dataset.name == "g1"


def test_pyg_data_with_several_splits(tmp_path: Path) -> None:
    columns = {
        f"{part}_mask": torch.from_numpy(np.stack([mask_of([1]), mask_of(ids)], axis=1))
        for part, ids in zip(("train", "val", "test"), SPLIT.values(), strict=True)
    }
    torch.save(make_pyg(**columns), tmp_path / "g1.pt")
    require_g1(prepare_own(tmp_path / "g1.pt", tmp_path / "set", OwnOptions(split=1)))
    with pytest.raises(ValueError, match="split is 2, but there are 2"):
        prepare_own(tmp_path / "g1.pt", tmp_path / "bad", OwnOptions(split=2))


class Trap:
    """An object whose unpickling would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_pyg_file_cannot_run_code(tmp_path: Path) -> None:
    torch.save(make_pyg(extra=Trap(tmp_path / "sprung")), tmp_path / "bad.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung"), 2))
    for name in ("bad.pt", "plain.pt"):
        with pytest.raises(ValueError, match=rf"{name}: damaged, or it holds more than tensors"):
            prepare_own(tmp_path / name, tmp_path / "set")
    assert not (tmp_path / "sprung").exists()


def test_foreign_and_damaged_pyg_files_are_refused(tmp_path: Path) -> None:
    torch.save(torch.zeros(3), tmp_path / "tensor.pt")
    torch.save(make_pyg(y=None), tmp_path / "bare.pt")
    torch.save(make_pyg(), tmp_path / "whole.pt")
    data = (tmp_path / "whole.pt").read_bytes()
    for name, message in {"tensor": "found Tensor", "bare": "have no y", "none": "no such"}.items():
        with pytest.raises((ValueError, FileNotFoundError), match=rf"{name}\.pt.*{message}"):
            prepare_own(tmp_path / f"{name}.pt", tmp_path / "set")
    for length in range(0, len(data), len(data) // 20):
        (tmp_path / "cut.pt").write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.pt"):
            prepare_own(tmp_path / "cut.pt", tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("name", "header", "delimiter"),
    [
        ("e.csv", "source,target\n", ","),
        ("e.csv", "", ","),
        ("e.csv.gz", "", ","),
        ("e.csv.gz", '"Source","Target"\n', ","),
        ("e.tsv", "", "\t"),
        ("e.txt", "# a graph\n# FromNodeId ToNodeId\n", " "),
        ("e.txt.gz", "# a graph\nfrom\tto\n", "\t"),
    ],
)
def test_edge_list_in_text(tmp_path: Path, name: str, header: str, delimiter: str) -> None:
    lines = "".join(f"{source}{delimiter}{target}\n" for source, target in make_g1().T)
    table = write_csv(tmp_path / name, header + lines)
    dataset = prepare_own(table, tmp_path / "set", table_options(tmp_path / "arrays"))
    require_g1(dataset)
    assert dataset.name == "e"


def test_named_columns_are_chosen_among_others(tmp_path: Path) -> None:
    lines = "".join(f"{target},0.5,{source},a\n" for source, target in make_g1().T)
    table = write_csv(tmp_path / "e.csv", "target,weight,source,kind\n" + lines)
    options = table_options(tmp_path / "arrays", symmetrise=True)
    require_g1(prepare_own(table, tmp_path / "set", options), SYMMETRISED)


@pytest.mark.parametrize("names", [("a", "b"), ("dst", "src")])
def test_edge_list_in_parquet(tmp_path: Path, names: tuple[str, str]) -> None:
    from pyarrow import parquet

    columns = make_g1() if names[0] == "a" else make_g1()[::-1]
    table = pa.table(dict(zip(names, columns.astype(np.uint16), strict=True)))
    parquet.write_table(table, tmp_path / "e.parquet", row_group_size=3)
    options = table_options(tmp_path / "arrays")
    require_g1(prepare_own(tmp_path / "e.parquet", tmp_path / "set", options))


def test_long_edge_list_keeps_its_order(tmp_path: Path) -> None:
    """Several blocks of text; in-edges of one node come in the order of the list."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, 7, 3_000_000)
    (tmp_path / "e.csv").write_bytes(b"".join(b"%d,3\n" % node for node in source.tolist()))
    options = table_options(tmp_path / "arrays")
    dataset = prepare_own(tmp_path / "e.csv", tmp_path / "set", options)
    assert np.array_equal(dataset.graph.indices, source)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "has no edges"),
        ("a,b\n", "has no edges"),
        ("0,1,2\n", "3 columns and no header"),
        ("a,b,c\n0,1,2\n", "has the columns a, b, c"),
        ("0\n", "1 columns and no header"),
        ("0,1\n2\n", "Expected 2 columns"),
        ("0,1\n2,x\n", "x"),
        ("0,1\n2,\n", "empty fields"),
        ("0,1\n2,3.5\n", "3.5"),
        ("0,1\n2,7\n", r"edge 1, 2 -> 7, .* outside \[0, 7\)"),
        ("0,1\n-2,3\n", "edge 1, -2 -> 3"),
        ("0,99999999999999999999\n", "99999999999999999999"),
    ],
)
def test_bad_edge_lists_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    table = write_csv(tmp_path / "bad.csv", lines)
    with pytest.raises(ValueError, match=message) as caught:
        prepare_own(table, tmp_path / "set", table_options(tmp_path / "arrays"))
    assert "bad.csv" in str(caught.value)
    assert not (tmp_path / "set").exists()


def test_damaged_edge_files_are_refused(tmp_path: Path) -> None:
    options = table_options(tmp_path / "arrays")
    table = write_csv(tmp_path / "e.csv.gz", "0,1\n" * 10_000)
    table.write_bytes(table.read_bytes()[:-20])
    (tmp_path / "e.parquet").write_bytes(b"PAR1 nothing")
    (tmp_path / "plain.csv.gz").write_text("0,1\n")
    for name in ("e.csv.gz", "e.parquet", "plain.csv.gz"):
        with pytest.raises(ValueError, match=name):
            prepare_own(tmp_path / name, tmp_path / "set", options)


def test_edge_list_alone_is_refused_with_the_remedy(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "e.csv", "0,1\n")
    with pytest.raises(ValueError, match=r"--features .* --labels"):
        prepare_own(table, tmp_path / "set")
    with pytest.raises(ValueError, match="for an edge list only"):
        prepare_own(write_folder(tmp_path / "a"), tmp_path / "set", OwnOptions(labels=table))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": None}, FileNotFoundError, r"x\.npy: is missing"),
        ({"x": X[:6]}, ValueError, r"x has shape \(6, 3\), but y has 7"),
        ({"x": np.array([["a"] * 3] * 7)}, ValueError, "expected numbers"),
        ({"x": np.array([[None]])}, ValueError, r"x\.npy: no \.npy file"),
        ({"y": np.full(7, 0.5)}, ValueError, r"y\[0\] is 0.5"),
        ({"edge_index": make_g1().T}, ValueError, r"expected .*\(2, num_edges\)"),
        ({"edge_index": make_g1() + 2}, ValueError, "edge 2"),
        ({"test": None}, ValueError, "no test; give all or none"),
        ({"test": np.array([4, 4])}, ValueError, "node 4 is repeated"),
        ({"test": np.array([4, 7])}, IndexError, "is 7, outside"),
        ({"test": np.array([0, 4])}, ValueError, "node 0 is in another part"),
        ({"test": np.array([2])}, ValueError, "node 2 has no label"),
        ({"test": np.ones(6, bool)}, ValueError, r"mask has shape \(6,\)"),
        ({"val": np.array([1])}, ValueError, "both valid and val"),
    ],
)
def test_bad_arrays_are_refused(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepare_own(write_folder(tmp_path / "bad", **changes), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_two_processes_load_the_same_files(tmp_path: Path) -> None:
    """As the caches of other packages fail to under torch 2.6 and later."""
    torch.save(make_pyg(), tmp_path / "g1.pt")
    code = (
        "import sys; from salient.datasets.own import prepare_own\n"
        "print(prepare_own(sys.argv[1], sys.argv[2]).description['sha256'])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "g1.pt"), str(tmp_path / "set")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate(timeout=100)[0] for process in started)
    again = load_dataset(str(tmp_path / "set")).description["sha256"]
    assert first.strip() == second.strip() == again
