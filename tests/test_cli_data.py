"""The commands ``salient data list | prepare | info | verify``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from graphs import make_g1
from salient.cli import main
from salient.datasets import load_dataset
from salient.datasets.catalogue import CATALOGUE
from salient.datasets.degrees import in_degree_counts
from salient.datasets.store import save_store
from salient.graph import Graph


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["data", *map(str, arguments)])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    np.save(folder / "edge_index.npy", make_g1())
    np.save(folder / "x.npy", np.eye(7))
    np.save(folder / "y.npy", np.arange(7) % 2)
    return folder


def test_prepare_by_name_only_describes(tmp_path: Path) -> None:
    done = call("prepare", "synthetic:tiny", "--root", tmp_path)
    assert done.exit_code == 0
    assert json.loads(done.stdout) == load_dataset("synthetic:tiny").description
    assert list(tmp_path.iterdir()) == []


def test_prepare_by_name_with_out_stores(tmp_path: Path) -> None:
    done = call("prepare", "synthetic:tiny", "--out", tmp_path / "tiny", "--seed", 1)
    assert done.exit_code == 0, done.output
    stored = load_dataset(str(tmp_path / "tiny"))
    assert stored.description == load_dataset("synthetic:tiny", seed=1).description


def test_prepare_own_files_then_list_info_verify(tmp_path: Path, mine: Path) -> None:
    root = tmp_path / "root"
    done = call("prepare", mine, "--root", root, "--name", "g1", "--symmetrise")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["symmetrised"] is True
    assert load_dataset("g1", root).num_nodes == 7
    again = call("prepare", mine, "--root", root, "--name", "g1", "--symmetrise")
    assert (again.exit_code, "is there already" in again.stderr) == (0, True)
    shown = json.loads(call("info", root / "g1").stdout)
    assert (shown["name"], shown["arrays"]["x"]["shape"]) == ("g1", [7, 7])
    assert shown["self_loops"] == 1
    done = call("verify", root / "g1")
    assert (done.exit_code, "as they were prepared" in done.output) == (0, True)
    listed = call("list", "--root", root)
    assert listed.exit_code == 0
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "prepared" in rows["g1"]
    assert "prepared" not in rows["pubmed"]
    assert {entry.name for entry in CATALOGUE} < set(rows)


def test_edge_list_with_its_arrays(tmp_path: Path, mine: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    np.savetxt(tmp_path / "e.csv", make_g1().T, fmt="%d", delimiter=",")
    refused = call("prepare", tmp_path / "e.csv", "--out", tmp_path / "set")
    assert (refused.exit_code, "--features" in refused.output) == (1, True)
    extra = ["--features", mine / "x.npy", "--labels", mine / "y.npy"]
    done = call("prepare", tmp_path / "e.csv", "--out", tmp_path / "set", *extra)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["num_edges"] == 8


def test_damage_is_named_and_ends_with_1(tmp_path: Path) -> None:
    save_store(tmp_path / "set", load_dataset("synthetic:tiny"))
    path = tmp_path / "set" / "x.npy"
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    done = call("verify", tmp_path / "set")
    assert (done.exit_code, str(path) in done.output) == (1, True)
    assert call("verify", tmp_path / "none").exit_code == 1
    (tmp_path / "set" / "manifest.json").write_text("{")
    assert call("info", tmp_path / "set").exit_code == 1
    assert "damaged" in call("list", "--root", tmp_path).output


def test_wrong_options_are_refused(tmp_path: Path, mine: Path) -> None:
    for arguments, message in {
        ("synthetic:tiny", "--symmetrise"): "for your own files only",
        ("synthetic:tiny", "--name", "a"): "for your own files only",
        ("pubmed", "--reorder", "degree"): "needs --out",
        (str(mine), "--name", "cora"): "known data set",
        ("nothing",): "no data set 'nothing'",
    }.items():
        done = call("prepare", *arguments, "--root", tmp_path)
        assert (done.exit_code, message in done.output) == (1, True), done.output


def test_in_degrees_are_counted(tmp_path: Path) -> None:
    graph = Graph.from_edge_index(make_g1(), 7)
    assert in_degree_counts(graph).tolist() == np.bincount(np.diff(graph.indptr)).tolist()


def test_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    save_store(tmp_path / "set", load_dataset("synthetic:tiny"))
    picture = tmp_path / "degrees.png"
    assert call("info", tmp_path / "set", "--picture", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    done = call("info", tmp_path / "set", "--picture", tmp_path / "degrees.xyz")
    assert (done.exit_code, "xyz" in done.output) == (1, True)


def test_without_matplotlib_the_remedy_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_store(tmp_path / "set", load_dataset("synthetic:tiny"))
    modules: dict[str, Any] = {"matplotlib": None, "matplotlib.figure": None}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    done = call("info", tmp_path / "set", "--picture", tmp_path / "a.png")
    assert (done.exit_code, "pip install" in done.output) == (1, True)
