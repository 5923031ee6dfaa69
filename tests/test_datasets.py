"""Data sets: labels, names, and the class itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphs import G1_NUM_NODES, make_g1
from salient.datasets import Dataset, load_dataset
from salient.datasets.dataset import checksum
from salient.datasets.labels import as_class_labels
from salient.graph import Graph

NAN = float("nan")


# -- labels


def test_labels_of_papers100m_form_become_int64() -> None:
    y = as_class_labels(torch.tensor([[NAN], [3.0], [NAN], [1.0]]))
    assert y.dtype == torch.int64
    assert y.tolist() == [-1, 3, -1, 1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint16])
def test_labels_of_any_number_type_are_taken(dtype: type) -> None:
    values = np.array([2, 0, 1], dtype)
    assert as_class_labels(values).tolist() == [2, 0, 1]
    if np.dtype(dtype).kind == "f":
        values[1] = NAN
        assert as_class_labels(values).tolist() == [2, -1, 1]


@pytest.mark.parametrize("wrong", [0.5, -2.0, float("inf"), -float("inf"), 1e300])
def test_wrong_label_is_named(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"y\[2\] is "):
        as_class_labels(np.array([0.0, NAN, wrong]))


def test_wrong_form_of_labels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        as_class_labels(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="bool"):
        as_class_labels(np.array([True]))


# -- names and the class itself


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'pubmed'\?.*synthetic:small.*\.npz"):
        load_dataset("PubMet")
    with pytest.raises(ValueError, match="'synthetic:tiny'"):
        load_dataset("synthetic:tinny")
    with pytest.raises(TypeError, match="name: expected a str"):
        load_dataset(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no_such_option"):
        load_dataset("synthetic:tiny", no_such_option=1)
    with pytest.raises(ValueError, match="seed: is -1"):
        load_dataset("synthetic:tiny", seed=-1)


def test_checksum_depends_on_every_array() -> None:
    base = load_dataset("synthetic:tiny")
    sums = {checksum(base.graph, base.x, base.y, base.split_idx)}
    assert sums == {base.description["sha256"]}
    x, y = base.x.clone(), base.y.clone()
    x[5, 5] += 1
    y[5] = (y[5] + 1) % 8
    edges = base.graph.edge_index.clone()
    edges[0, 0] = (edges[0, 0] + 1) % base.num_nodes
    split = base.split_idx | {"test": base.split_idx["test"][1:]}
    sums.add(checksum(base.graph, x, base.y, base.split_idx))
    sums.add(checksum(base.graph, base.x, y, base.split_idx))
    sums.add(checksum(Graph.from_edge_index(edges, 1_000), base.x, base.y, base.split_idx))
    sums.add(checksum(base.graph, base.x, base.y, split))
    assert len(sums) == 5


@pytest.mark.parametrize(
    ("part", "ids", "message"),
    [
        ("train", [1, 0], "ascending"),
        ("train", [0, 0], "ascending"),
        ("valid", [7], "outside"),
        ("test", [6], "node 6 has no label"),
        ("test", [0], "node 0 is in another part too"),
    ],
)
def test_dataset_refuses_wrong_splits(part: str, ids: list[int], message: str) -> None:
    empty = torch.empty(0, dtype=torch.long)
    split = {"train": torch.tensor([0]), "valid": empty, "test": empty}
    split[part] = torch.tensor(ids)
    y = torch.tensor([0, 1, 0, 1, 0, 1, -1])
    graph = Graph.from_edge_index(make_g1(), G1_NUM_NODES)
    with pytest.raises(ValueError, match=message):
        Dataset("g1", graph, torch.zeros(7, 3, dtype=torch.half), y, split, 2, {})
