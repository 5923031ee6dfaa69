"""Pickles: those that must not be run, and damaged ones."""

from __future__ import annotations

import collections
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salient.datasets import load_dataset
from salient.datasets.legacy_pickle import read_legacy_pickle


class Malicious:
    """Creates a file when a plain unpickler reads it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_malicious_pickle_is_refused_by_name(
    planetoid_root: Path, tmp_path: Path, protocol: int
) -> None:
    spoilt = shutil.copytree(planetoid_root, tmp_path / "root")
    trap = tmp_path / "trap"
    path = spoilt / "planetoid/raw/citeseer/ind.citeseer.graph"
    path.write_bytes(pickle.dumps(Malicious(trap), protocol))
    pickle.loads(path.read_bytes())  # noqa: S301 - shows that the trap works
    trap.rmdir()
    with pytest.raises(ValueError, match=r"ind\.citeseer\.graph: refused, .*(posix|nt)\.mkdir"):
        load_dataset("citeseer", spoilt)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("builtins.eval", b"c__builtin__\neval\n(S'1'\ntR."),
        ("numpy.load", b"\x80\x02cnumpy\nload\n."),
        ("collections.OrderedDict", pickle.dumps(collections.OrderedDict(), 2)),
    ],
)
def test_global_outside_the_list_is_refused(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    module, _, attribute = name.rpartition(".")
    with pytest.raises(ValueError, match=rf"refused, .*\.{attribute}|{module}"):
        read_legacy_pickle(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02]r\xff\xff\xff\x7f.",  # would take 16 GB for the table of numbered objects
        b"\x80\x02]\x82\x01.",  # an extension code
        b"\x80\x02Pname\n.",  # a persistent object
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n.",
        b"\x80\x02K\x01.",
    ],
)
def test_strange_pickle_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="file: "):
        read_legacy_pickle(path)


def test_changed_bytes_never_crash_the_reader(planetoid_root: Path, tmp_path: Path) -> None:
    raw = planetoid_root / "planetoid/raw/citeseer"
    rng = np.random.default_rng(0)
    path = tmp_path / "file"
    refused = 0
    for part in ("y", "x"):
        whole = (raw / f"ind.citeseer.{part}").read_bytes()
        for place, value in zip(rng.integers(0, 400, 200), rng.bytes(200), strict=True):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                read_legacy_pickle(path)
            except ValueError as error:
                assert str(path) in str(error)
                refused += 1
    assert refused > 100
