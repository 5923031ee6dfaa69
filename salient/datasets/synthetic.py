"""Graphs made on the spot. May import: the other modules of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salient.datasets.conversion import graph_from_edges
from salient.datasets.dataset import Dataset, describe
from salient.datasets.labels import as_class_labels
from salient.datasets.splits import describe_random_split, random_split

# Keeps the generator's stream apart from that of the random split under the same seed.
_STREAM = 0x5A11E27


@dataclass(frozen=True)
class Preset:
    """Size and character of a made graph.

    Parameters
    ----------
    num_nodes, num_features, num_classes : int
    num_pairs : int
        Undirected edges, each of which is stored both ways.
    homophily : float
        Share of edges drawn within a class; the others go anywhere.
    tail_exponent : float
        Of the power law of degrees: P(degree > d) falls as d ** -tail_exponent.
    feature_signal : float
        Distance of a class's mean from the origin, where the noise has deviation 1 in each
        feature.
    """

    num_nodes: int
    num_pairs: int
    num_features: int
    num_classes: int
    homophily: float
    tail_exponent: float
    feature_signal: float


PRESETS = {
    "tiny": Preset(1_000, 8_000, 32, 8, 0.5, 1.6, 1.4),
    "small": Preset(20_000, 200_000, 64, 16, 0.5, 1.6, 1.8),
}


def make_synthetic(preset: str, *, seed: int = 0) -> Dataset:
    """Make a graph on which neighbours tell more about a node's class than its own features.

    A degree-corrected block model (Karrer and Newman 2011, arXiv 1008.3926): the ends of an edge
    are drawn in proportion to power-law weights, a share of them within a class. Features are the
    mean of the class plus Gaussian noise. The same preset and seed give the same arrays, as the
    checksum in the description shows.

    Parameters
    ----------
    preset : str
        A key of ``PRESETS``.
    seed : int
        From 0.
    """
    shape = PRESETS[preset]
    rng = np.random.Generator(np.random.PCG64([_STREAM, seed]))
    labels = _draw_labels(rng, shape)
    pairs = _draw_pairs(rng, shape, labels)
    x = torch.from_numpy(_draw_features(rng, shape, labels))
    y = as_class_labels(labels)
    graph, _ = graph_from_edges(pairs, shape.num_nodes, symmetrise=True)
    split_idx = random_split(y, seed)
    description = describe(
        graph,
        x,
        y,
        split_idx,
        shape.num_classes,
        source=f"made on the spot, preset {preset}",
        licence="none needed",
        edges="reversed edges added, no duplicates or self-loops",
        symmetrised=True,
        self_loops=0,
        features="class mean plus Gaussian noise, rounded to float16",
        split=describe_random_split(seed, "as the graph is made"),
        seed=seed,
    )
    name = f"synthetic:{preset}"
    return Dataset(name, graph, x, y, split_idx, shape.num_classes, description)


def _draw_labels(rng: np.random.Generator, shape: Preset) -> npt.NDArray[np.int64]:
    # Classes of unequal size, the largest about three times the smallest.
    share = np.linspace(1, 3, shape.num_classes)
    ends = np.cumsum(share / share.sum())
    labels = np.searchsorted(ends, rng.random(shape.num_nodes), side="right")
    return np.minimum(labels, shape.num_classes - 1).astype(np.int64)


def _draw_pairs(
    rng: np.random.Generator, shape: Preset, labels: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    # The weights are those of a Pareto law, bounded so that no hub takes over a small graph.
    weight = (1 - rng.random(shape.num_nodes)) ** (-1 / shape.tail_exponent)
    weight = np.minimum(weight, shape.num_nodes**0.5)
    # Nodes in the order of their classes, so that a class is one stretch of the running sum.
    order = np.argsort(labels, kind="stable")
    running = np.concatenate([[0.0], np.cumsum(weight[order])])
    starts = np.searchsorted(labels[order], np.arange(shape.num_classes + 1))

    def draw(low: Any, high: Any, size: int) -> npt.NDArray[np.int64]:
        """Draw nodes by weight, each from a stretch of the running sum."""
        point = low + rng.random(size) * (high - low)
        place = np.searchsorted(running, point, side="right") - 1
        nodes: npt.NDArray[np.int64] = order[np.clip(place, 0, shape.num_nodes - 1)]
        return nodes

    drawn = np.empty((2, 0), np.int64)
    while True:
        missing = shape.num_pairs - drawn.shape[1]
        if missing <= 0:
            break
        size = missing + missing // 8 + 16
        source = draw(0.0, running[-1], size)
        within = rng.random(size) < shape.homophily
        kind = labels[source]
        low = np.where(within, running[starts[kind]], 0.0)
        high = np.where(within, running[starts[kind + 1]], running[-1])
        pairs = np.sort(np.stack([source, draw(low, high, size)]), axis=0)
        pairs = np.concatenate([drawn, pairs[:, pairs[0] != pairs[1]]], axis=1)
        keys = pairs[0] * shape.num_nodes + pairs[1]
        # In the order of their first draw, so that cutting the surplus favours no node.
        _, first = np.unique(keys, return_index=True)
        drawn = pairs[:, np.sort(first)]
    return drawn[:, : shape.num_pairs]


def _draw_features(
    rng: np.random.Generator, shape: Preset, labels: npt.NDArray[np.int64]
) -> npt.NDArray[np.float16]:
    means = rng.standard_normal((shape.num_classes, shape.num_features))
    means *= shape.feature_signal / np.linalg.norm(means, axis=1, keepdims=True)
    noise = rng.standard_normal((shape.num_nodes, shape.num_features), dtype=np.float32)
    return (means[labels] + noise).astype(np.float16)
