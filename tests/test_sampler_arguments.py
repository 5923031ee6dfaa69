"""What the sampler takes as seeds, fanouts and options, and what it refuses, naming the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphs import make_g1, make_g2
from salient.graph import Graph
from salient.sampler import NeighborSampler


@pytest.mark.parametrize(
    "seeds",
    [
        [4, 0],
        (4, 0),
        np.array([4, 0], np.int32),
        np.array([4, 9, 0, 9], np.uint8)[::2],
        torch.tensor([4, 0]),
        torch.tensor([4, 0], dtype=torch.int16),
    ],
)
def test_seeds_may_be_any_integers(seeds: Any) -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g1(), 7), [-1])
    assert sampler.sample(seeds).n_id[:2].tolist() == [4, 0]


def test_a_mask_stands_for_its_nodes_in_order() -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g1(), 7), [0])
    mask = torch.zeros(7, dtype=torch.bool)
    mask[[6, 1]] = True
    assert sampler.sample(mask).n_id.tolist() == [1, 6]


BAD_SEEDS = [
    ([7], IndexError, r"seeds\[0\] is 7, outside \[0, 7\)"),
    ([0, 1, 2**40], IndexError, rf"seeds\[2\] is {2**40}"),
    ([0, -1], IndexError, r"seeds\[1\] is -1"),
    ([3, 1, 2, 1], ValueError, "node 1 is repeated, at positions 1 and 3"),
    ([1, 0, 1, 0, 0, 0, 0], ValueError, "repeated"),
    ([1.0, 2.0], TypeError, "seeds.*float64"),
    (torch.tensor([1.5]), TypeError, "seeds.*float32"),
    ([[1, 2]], ValueError, r"seeds.*\(1, 2\)"),
    (3, ValueError, r"seeds.*\(\)"),
    (np.array(3), ValueError, r"seeds.*\(\)"),
    (np.ones(6, bool), ValueError, "seeds.*6.*7"),
    (np.ones(8, bool), ValueError, "seeds.*8.*7"),
    (["a"], TypeError, "seeds"),
    (None, ValueError, r"seeds.*\(\)"),
    ([2**64], TypeError, "seeds"),
    (torch.zeros(1, dtype=torch.long, device="meta"), TypeError, "seeds.*meta"),
]


@pytest.mark.parametrize(("seeds", "error", "words"), BAD_SEEDS)
def test_bad_seeds_are_refused_and_the_sampler_lives(
    seeds: Any, error: type[Exception], words: str
) -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g1(), 7), [-1, -1])
    expected = sampler.sample([4, 6, 0]).n_id.tolist()
    with pytest.raises(error, match=words):
        sampler.sample(seeds)
    assert sampler.sample([4, 6, 0]).n_id.tolist() == expected


def test_seeds_of_an_empty_graph_are_out_of_range() -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g2(), 0), [2])
    with pytest.raises(IndexError, match=r"seeds\[0\] is 0, outside \[0, 0\)"):
        sampler.sample([0])


@pytest.mark.parametrize(
    ("fanouts", "error", "words"),
    [
        ([], ValueError, "fanouts.*empty"),
        ([5, -2], ValueError, r"fanouts\[1\].*-2"),
        ([2**24], ValueError, f"fanouts.*{2**24}"),
        ([2**70], ValueError, f"fanouts.*{2**70}"),
        ([2.5], TypeError, r"fanouts\[0\].*2\.5"),
        ([True], TypeError, r"fanouts\[0\].*True"),
        ([None], TypeError, r"fanouts\[0\].*None"),
        ([[5, 5]], TypeError, r"fanouts\[0\]"),
        (["5"], TypeError, r"fanouts\[0\].*'5'"),
        ("15,10", TypeError, "fanouts.*15,10"),
        (5, TypeError, "fanouts.*5"),
        (None, TypeError, "fanouts.*None"),
        (np.array([1.0]), TypeError, r"fanouts\[0\].*1\.0"),
        (torch.tensor(5), TypeError, "fanouts"),
        ([1] * 256, ValueError, "fanouts.*256"),
    ],
)
def test_bad_fanouts_are_refused_naming_the_value(
    fanouts: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        NeighborSampler(Graph.from_edge_index(make_g1(), 7), fanouts)


@pytest.mark.parametrize("fanouts", [(2, 3), np.array([2, 3]), torch.tensor([2, 3])])
def test_fanouts_may_be_any_sequence_of_ints(fanouts: Any) -> None:
    assert NeighborSampler(Graph.from_edge_index(make_g1(), 7), fanouts).fanouts == [2, 3]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"form": "blocks"}, ValueError, "form.*blocks"),
        ({"form": None}, ValueError, "form.*None"),
        ({"replace": 1}, TypeError, "replace.*1"),
        ({"edge_ids": "yes"}, TypeError, "edge_ids.*yes"),
        ({"seed": -1}, ValueError, "seed.*-1"),
        ({"seed": 2**64}, ValueError, f"seed.*{2**64}"),
        ({"seed": 0.5}, TypeError, r"seed.*0\.5"),
    ],
)
def test_bad_options_are_refused_naming_the_value(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        NeighborSampler(Graph.from_edge_index(make_g1(), 7), [2], **options)


def test_the_graph_must_be_a_graph() -> None:
    with pytest.raises(TypeError, match=r"graph.*ndarray"):
        NeighborSampler(make_g1(), [2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("numbers", "error", "words"),
    [
        ({"epoch": -1}, ValueError, "epoch.*-1"),
        ({"epoch": 2**24}, ValueError, f"epoch.*{2**24}"),
        ({"batch": -1}, ValueError, "batch.*-1"),
        ({"batch": 2**32}, ValueError, f"batch.*{2**32}"),
        ({"epoch": 2**70}, ValueError, f"epoch.*{2**70}"),
        ({"batch": 2**70}, ValueError, f"batch.*{2**70}"),
        ({"epoch": 1.0}, TypeError, r"epoch.*1\.0"),
    ],
)
def test_bad_stream_numbers_are_refused_naming_the_value(
    numbers: dict[str, Any], error: type[Exception], words: str
) -> None:
    sampler = NeighborSampler(Graph.from_edge_index(make_g1(), 7), [2])
    with pytest.raises(error, match=words):
        sampler.sample([0], **numbers)
