"""Folders of memory-mapped data sets: made once, opened at once, damage noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from salient.datasets import Dataset, load_dataset
from salient.datasets.store import StoreWriter, open_store, prepare, save_store, verify_store
from salient.datasets.store_files import create_npy, map_private, release_pages
from salient.datasets.store_manifest import StoredArray, read_manifest, write_manifest

# What a process runs that prepares a data set slowly, and counts how often it does.
_SLOW_BUILD = """
import sys, time
from pathlib import Path
from salient.datasets import load_dataset
from salient.datasets.store import prepare, write_dataset

folder, log, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])

def build(writer):
    with log.open("a") as stream:
        stream.write("built\\n")
    (writer.scratch / "big").write_bytes(bytes(1000))
    time.sleep(seconds)
    write_dataset(writer, load_dataset("synthetic:tiny"))

print(prepare(folder, build).description["sha256"])
"""


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    return load_dataset("synthetic:tiny")


def start_build(folder: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SLOW_BUILD, str(folder), str(log), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_stored_set_equals_the_one_in_memory(tmp_path: Path, tiny: Dataset) -> None:
    stored = save_store(tmp_path / "set", tiny)
    assert np.array_equal(stored.graph.indptr, tiny.graph.indptr)
    assert np.array_equal(stored.graph.indices, tiny.graph.indices)
    assert torch.equal(stored.x, tiny.x)
    assert torch.equal(stored.y, tiny.y)
    assert {k: v.tolist() for k, v in stored.split_idx.items()} == {
        k: v.tolist() for k, v in tiny.split_idx.items()
    }
    # The checksum was taken from the files, and yet is that of the arrays in memory.
    assert stored.description == tiny.description
    assert (stored.name, stored.num_classes) == (tiny.name, tiny.num_classes)
    assert np.load(tmp_path / "set" / "x.npy").dtype == np.float16
    assert verify_store(tmp_path / "set").name == tiny.name
    assert names_in(tmp_path) == ["set"]


def test_opened_arrays_are_writable_without_touching_the_files(
    tmp_path: Path, tiny: Dataset
) -> None:
    folder = tmp_path / "set"
    save_store(folder, tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = open_store(folder)
        opened.x[0] = 7
        opened.y[0] = 1
    assert opened.x[0].tolist() == [7] * tiny.num_features
    assert torch.equal(open_store(folder).x, tiny.x)
    verify_store(folder)


def test_load_dataset_opens_a_folder(tmp_path: Path, tiny: Dataset) -> None:
    save_store(tmp_path / "mine", tiny)
    digest = tiny.description["sha256"]
    assert load_dataset(str(tmp_path / "mine")).description["sha256"] == digest
    assert load_dataset("mine", tmp_path).description["sha256"] == digest
    with pytest.raises(TypeError, match="takes no options"):
        load_dataset("mine", tmp_path, split=1)
    (tmp_path / "other").mkdir()
    with pytest.raises(FileNotFoundError, match="salient data prepare"):
        load_dataset("other", tmp_path)


def test_empty_parts_and_no_edges_are_stored(tmp_path: Path) -> None:
    def build(writer: StoreWriter) -> None:
        writer.create("indptr", (4,), "i8")
        writer.create("indices", (5,), "i4")
        writer.truncate("indices", 0)
        writer.create("x", (3, 2), "f2")
        writer.create("y", (3,), "i8")[...] = [0, -1, 1]
        for part in ("train", "valid", "test"):
            writer.create(part, (0,), "i8")
        writer.finish("empty", 2, {"self_loops": 0})

    dataset = prepare(tmp_path / "set", build)
    assert (dataset.graph.num_edges, dataset.y.tolist()) == (0, [0, -1, 1])
    assert dataset.description["split_sizes"] == {"train": 0, "valid": 0, "test": 0}
    verify_store(tmp_path / "set")


def test_truncate_keeps_the_first_rows(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    writer.create("x", (5, 2), "f2")[...] = np.arange(10).reshape(5, 2)
    assert writer.truncate("x", 3).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert np.load(tmp_path / "x.npy").tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="cannot keep 4 of 3"):
        writer.truncate("x", 4)


def test_writer_refuses_foreign_and_repeated_names(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    writer.create("y", (1,), "i8")
    with pytest.raises(ValueError, match="created before"):
        writer.create("y", (1,), "i8")
    with pytest.raises(ValueError, match="'z' is no array"):
        writer.create("z", (1,), "i8")
    with pytest.raises(ValueError, match="indptr, indices, x, train"):
        writer.finish("a", 1, {})


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("y", np.full(1000, 99), "y\\[0\\] is 99"),
        ("train", np.array([5, 4]), "ascending"),
        ("indices", np.full(16000, 1000, np.int32), "1000"),
        ("x", np.zeros((1000, 32), np.float32), "x is <f4"),
    ],
)
def test_wrong_arrays_never_become_a_store(
    tmp_path: Path, tiny: Dataset, name: str, values: Any, message: str
) -> None:
    arrays = {"indptr": tiny.graph.indptr, "indices": tiny.graph.indices}
    arrays |= {"x": tiny.x.numpy(), "y": tiny.y.numpy()}
    arrays |= {part: ids.numpy() for part, ids in tiny.split_idx.items()}
    arrays[name] = values

    def build(writer: StoreWriter) -> None:
        for key, array in arrays.items():
            writer.create(key, array.shape, array.dtype)[...] = array
        writer.finish("wrong", tiny.num_classes, tiny.description)

    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "set", build)
    assert names_in(tmp_path) == []


def test_two_processes_at_once_build_once(tmp_path: Path, tiny: Dataset) -> None:
    folder, log = tmp_path / "sets" / "one", tmp_path / "log"
    processes = [start_build(folder, log, 1.0) for _ in range(2)]
    digests = {process.communicate(timeout=100)[0].strip() for process in processes}
    assert digests == {tiny.description["sha256"]}
    assert [process.returncode for process in processes] == [0, 0]
    assert log.read_text() == "built\n"
    verify_store(folder)


def test_killed_preparation_leaves_nothing_that_looks_complete(
    tmp_path: Path, tiny: Dataset
) -> None:
    folder, log = tmp_path / "sets" / "one", tmp_path / "log"
    process = start_build(folder, log, 100)
    wait_for(log)
    wait_for(folder.parent / ".one.unfinished" / "scratch" / "big")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        open_store(folder)
    save_store(folder, tiny)
    assert names_in(folder.parent) == ["one"]
    verify_store(folder)


def test_exception_leaves_nothing(tmp_path: Path, tiny: Dataset) -> None:
    def build(writer: StoreWriter) -> None:
        writer.create("x", (10, 10), "f2")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "set", build)
    with pytest.raises(RuntimeError, match="did not call finish"):
        prepare(tmp_path / "set", lambda writer: None)
    assert names_in(tmp_path) == []
    save_store(tmp_path / "set", tiny)


def test_folder_with_other_things_is_left_alone(tmp_path: Path, tiny: Dataset) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("dear diary")
    with pytest.raises(FileExistsError, match="notes: exists"):
        save_store(tmp_path / "notes", tiny)
    assert (tmp_path / "notes" / "diary.txt").read_text() == "dear diary"


def test_any_changed_byte_is_found(tmp_path: Path, tiny: Dataset) -> None:
    folder = tmp_path / "set"
    save_store(folder, tiny)
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        good = path.read_bytes()
        for place in rng.integers(0, len(good), 12):
            bad = bytearray(good)
            bad[place] ^= 1 << int(rng.integers(0, 7))
            path.write_bytes(bad)
            with pytest.raises(ValueError, match="delete") as caught:
                verify_store(folder)
            assert str(folder) in str(caught.value)
            if path.suffix == ".npy":
                assert path.name in str(caught.value)
        path.write_bytes(good)
    verify_store(folder)


@pytest.mark.parametrize("name", ["x.npy", "indices.npy", "train.npy"])
def test_truncated_and_missing_files_do_not_open(tmp_path: Path, tiny: Dataset, name: str) -> None:
    folder = tmp_path / "set"
    save_store(folder, tiny)
    path = folder / name
    os.truncate(path, path.stat().st_size - 2)
    with pytest.raises(ValueError, match=f"{name}: has .* expected .* delete .*set"):
        open_store(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{name}: is missing; delete"):
        open_store(folder)


def test_other_version_is_refused(tmp_path: Path, tiny: Dataset) -> None:
    folder = tmp_path / "set"
    save_store(folder, tiny)
    path = folder / "manifest.json"
    facts = json.loads(path.read_text())
    facts["format_version"] += 1
    path.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=r"manifest\.json: has format version 2, .* reads 1; del"):
        open_store(folder)
    # Preparing again must not overwrite what a newer version made.
    with pytest.raises(ValueError, match="format version 2"):
        save_store(folder, tiny)


def test_exchanged_file_is_refused_by_its_header(tmp_path: Path, tiny: Dataset) -> None:
    folder = tmp_path / "set"
    save_store(folder, tiny)
    np.save(folder / "x.npy", np.load(folder / "x.npy").T.copy())
    with pytest.raises(ValueError, match=r"x\.npy: holds <f2 of shape \(32, 1000\)"):
        open_store(folder)


def test_folder_without_permission_is_named(tiny: Dataset) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # Root may write anywhere.
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError, match="choose another folder") as caught:
                save_store(folder / "set", tiny)
            assert str(folder) in str(caught.value)
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


def test_opening_reads_no_data(tmp_path: Path, tiny: Dataset) -> None:
    """Files with holes of many gigabytes open, and so are neither read nor counted as memory."""
    folder = tmp_path / "set"

    save_store(folder, tiny)
    # 1,000 rows of 200 GB in all, beyond any machine's memory that runs this test.
    shape = (1000, 100_000_000)
    with (folder / "x.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f2", "fortran_order": False, "shape": shape}
        )
        size = stream.tell() + 2 * shape[0] * shape[1]
        stream.truncate(size)
    manifest = read_manifest(folder)
    manifest.arrays["x"] = StoredArray("x.npy", shape, "<f2", size, "")
    write_manifest(folder, manifest)
    opened = open_store(folder)
    assert tuple(opened.x.shape) == shape
    assert opened.x[999, -1] == 0
    opened.x[999, -1] = 1


def test_released_pages_keep_what_was_written(tmp_path: Path) -> None:
    array = create_npy(tmp_path / "a.npy", (1000, 1000), np.int64)
    array[...] = 7
    release_pages(array)
    assert (array == 7).all()
    array[3, 4] = 8
    release_pages(array)
    assert np.load(tmp_path / "a.npy")[3, 4] == 8
    # Of a private map, what was written would be lost.
    with pytest.raises(TypeError, match="mapped for writing"):
        release_pages(map_private(tmp_path / "a.npy"))
    with pytest.raises(TypeError, match="mapped for writing"):
        release_pages(array[1:])
