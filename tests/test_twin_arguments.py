"""Synthetic twins: names and fractions, and arguments that are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from salient import _core
from salient.datasets import load_dataset
from salient.datasets.sink import MemorySink
from salient.datasets.twin_presets import PRESETS
from salient.datasets.twins import make_twin, parse_twin_name, write_twin


def test_names_give_preset_and_fraction() -> None:
    assert parse_twin_name("synthetic:products@0.1") == ("products", 0.1)
    assert parse_twin_name("papers100M") == ("papers100M", 1.0)
    assert parse_twin_name("arxiv@1") == ("arxiv", 1.0)
    assert make_twin("synthetic:tiny@0.5").num_nodes == 500


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("synthetic:tinny", "did you mean 'synthetic:tiny'.*synthetic:papers100M.*products@0.1"),
        ("synthetic:", "no data set 'synthetic:'"),
        ("synthetic:tiny@", "after '@': expected a fraction above 0 and up to 1, got ''"),
        ("synthetic:tiny@0", "got '0'"),
        ("synthetic:tiny@-1", "got '-1'"),
        ("synthetic:tiny@1.01", "got '1.01'"),
        ("synthetic:tiny@nan", "got 'nan'"),
        ("synthetic:tiny@half", "got 'half'"),
        ("synthetic:tiny@0.01", "10 nodes are too few for 8 classes; take a larger fraction"),
    ],
)
def test_wrong_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(name)


def test_pairs_without_room_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = dataclasses.replace(PRESETS["tiny"], num_pairs=400_000)  # of 499,500
    monkeypatch.setitem(PRESETS, "tiny", dense)
    with pytest.raises(ValueError, match="400,000 pairs of 1,000 nodes are so dense"):
        load_dataset("synthetic:tiny")


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="num_threads: is 0"):
        make_twin("tiny", num_threads=0)
    with pytest.raises(ValueError, match="seed: is -1"):
        make_twin("tiny", -1)
    with pytest.raises(ValueError, match="seed: is 18446744073709551616"):
        load_dataset("synthetic:tiny", seed=2**64)
    with pytest.raises(ValueError, match="preset: no 'none'"):
        write_twin("none", MemorySink(), seed=0)
    with pytest.raises(ValueError, match="fraction: expected a fraction above 0"):
        write_twin("tiny", MemorySink(), seed=0, fraction=2)


def twin_graph(**changes: Any) -> _core.TwinGraph:
    given: dict[str, Any] = {
        "seed": 1,
        "class_starts": np.array([0, 40, 100]),
        "community_size": 10,
        "min_degree": 1,
        "degree_steps": np.array([2**31, 2**31 + 2**30], np.uint32),
        "community_share": 2**14,
        "class_share": 2**14,
        "num_stubs": 500,
        "num_threads": 2,
    }
    return _core.TwinGraph(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_starts": np.array([1, 5])}, "class_starts: expected to rise from 0"),
        ({"class_starts": np.array([0, 5, 4])}, r"class_starts\[2\]: falls from 5 to 4"),
        ({"class_starts": np.array([0, 2**31])}, "class_starts: expected two or more values"),
        ({"community_size": 0}, "community_size: is 0"),
        ({"min_degree": -1}, "min_degree: is -1"),
        ({"degree_steps": np.array([2, 1], np.uint32)}, "degree_steps: must not fall"),
        ({"community_share": 2**16 + 1}, "community_share: is 65537"),
        ({"class_share": 2**16}, "class_share: is 65536, expected 0 to 49152"),
        ({"num_stubs": -1}, "num_stubs: is -1"),
        ({"num_threads": 0}, "num_threads: is 0"),
        ({"num_stubs": 2**40}, "too many edges"),
    ],
)
def test_core_refuses_wrong_models(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        twin_graph(**changes)


def test_core_refuses_arrays_of_wrong_size() -> None:
    twin = twin_graph()
    indptr, indices = np.zeros(101, np.int64), np.zeros(twin.raw_edges, np.int32)
    with pytest.raises(ValueError, match="indptr"):
        twin.write_edges(100, indptr[1:], indices)
    with pytest.raises(ValueError, match="indices"):
        twin.write_edges(100, indptr, indices[1:])
    with pytest.raises(ValueError, match="num_pairs: is -1"):
        twin.write_edges(-1, indptr, indices)
    with pytest.raises(ValueError, match="parts"):
        twin.write_labels(np.array([0, 10]), np.zeros(100, np.int64), np.zeros(99, np.uint8))
    with pytest.raises(ValueError, match="part_starts"):
        twin.write_labels(np.array([0, 101]), np.zeros(100, np.int64), np.zeros(100, np.uint8))
    with pytest.raises(ValueError, match=r"first \+ rows: is 101"):
        twin.write_features(99, 3, 1.0, np.zeros(6, np.uint16))


def test_rows_of_features_do_not_depend_on_where_one_begins() -> None:
    twin = twin_graph()
    whole = np.zeros(100 * 5, np.uint16)
    twin.write_features(0, 5, 1.0, whole)
    for first, rows in ((0, 1), (1, 1), (17, 50), (99, 1)):
        part = np.zeros(rows * 5, np.uint16)
        twin.write_features(first, 5, 1.0, part)
        assert np.array_equal(part, whole[first * 5 : (first + rows) * 5])
