"""Synthetic twins of the OGB graphs, by name and seed. May import: the modules of datasets, core.

The model and what is known of the originals is in docs/twins.md.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from salient import _core
from salient.datasets.dataset import Dataset, checksum
from salient.datasets.sink import ArraySink, MemorySink
from salient.datasets.splits import SPLIT_NAMES
from salient.datasets.store import StoreWriter
from salient.datasets.twin_presets import PRESETS, Preset
from salient.graph import Graph

TWIN_PREFIX = "synthetic:"

# Features are written in blocks of about this size, so that mapped ones can leave memory.
_BLOCK_BYTES = 1 << 26
# Room for edges that are drawn in addition, where duplicates are rare and where they are not.
_ROOM, _ROOM_SMALL, _SMALL_PAIRS = 0.10, 0.60, 20_000_000


def parse_twin_name(name: str) -> tuple[str, float]:
    """Return preset and fraction of a name such as ``products`` or ``products@0.1``.

    Parameters
    ----------
    name : str
        With or without the prefix ``synthetic:``.

    Raises
    ------
    ValueError
        An unknown preset, or a fraction that is not a number above 0 and up to 1.
    """
    preset, at, text = name.removeprefix(TWIN_PREFIX).partition("@")
    if preset not in PRESETS:
        close = difflib.get_close_matches(preset.lower(), PRESETS, n=1, cutoff=0.5)
        hint = f"did you mean {TWIN_PREFIX + close[0]!r}? " if close else ""
        known = ", ".join(TWIN_PREFIX + known for known in PRESETS)
        raise ValueError(
            f"name: no data set {name!r}; {hint}Synthetic ones are {known}, each also in part, "
            f"such as '{TWIN_PREFIX}products@0.1'"
        )
    try:
        fraction = float(text) if at else 1.0
    except ValueError:
        fraction = math.nan
    _require_fraction(fraction, f"{name!r}: after '@'", text)
    return preset, fraction


def _require_fraction(fraction: float, where: str, given: object) -> None:
    if not 0 < fraction <= 1:
        raise ValueError(f"{where}: expected a fraction above 0 and up to 1, got {given!r}")


def write_twin(
    preset: str,
    sink: ArraySink,
    *,
    seed: int,
    fraction: float = 1.0,
    num_threads: int | None = None,
) -> dict[str, Any]:
    """Write the arrays of a twin: the same for the same preset, fraction and seed, anywhere.

    Parameters
    ----------
    preset : str
        A key of ``PRESETS``.
    sink : ArraySink
        Gets ``indptr``, ``indices``, ``x``, ``y``, ``train``, ``valid`` and ``test``. Beside them
        about 16 bytes a node and an eighth of a byte an edge are needed, and some more room in
        ``indices`` for edges that turn out to be duplicates: 10 %, from a million edges on.
    seed : int
        From 0 to 2**64 - 1.
    fraction : float
        Of nodes, edges and split sizes; above 0, up to 1.
    num_threads : int, optional
        By default one per processor. Does not change the result.

    Returns
    -------
    dict
        ``name``, ``num_classes``, and ``description``: as of
        :func:`salient.datasets.dataset.describe`, but without the checksum.

    Raises
    ------
    ValueError
        An argument out of range, or a part so small that its edges do not find room.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset: no {preset!r}; known are {', '.join(PRESETS)}")
    _require_fraction(fraction, "fraction", fraction)
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: is {seed}, expected 0 to 2**64 - 1")
    if num_threads is not None and num_threads < 1:
        raise ValueError(f"num_threads: is {num_threads}, expected at least 1")
    shape = PRESETS[preset].scaled(fraction)
    name = TWIN_PREFIX + preset + (f"@{fraction:g}" if fraction < 1 else "")
    if shape.num_nodes < 4 * shape.num_classes:
        raise ValueError(
            f"{name}: {shape.num_nodes} nodes are too few for {shape.num_classes} classes; take a "
            "larger fraction"
        )
    twin = _write_edges(shape, sink, seed, num_threads or os.cpu_count() or 1, name)
    _write_labels(twin, shape, sink)
    _write_features(twin, shape, sink)
    unlabelled = shape.num_nodes - sum(shape.split_sizes)
    description = {
        "source": f"made by this program, preset {preset}, fraction {fraction:g}: a "
        "degree-corrected block model",
        "licence": "none needed",
        "num_nodes": shape.num_nodes,
        "num_edges": 2 * shape.num_pairs,
        "num_features": shape.num_features,
        "num_classes": shape.num_classes,
        "edges": "undirected, both directions stored, no duplicates or self-loops; "
        f"{twin.num_communities} communities; ids are in random order",
        "symmetrised": True,
        "self_loops": 0,
        "features": "class mean plus noise, rounded to float16",
        "split": f"random nodes, {unlabelled:,} unlabelled, seed {seed}, as the graph is made",
        "split_sizes": dict(zip(SPLIT_NAMES, shape.split_sizes, strict=True)),
        "seed": seed,
    }
    return {"name": name, "num_classes": shape.num_classes, "description": description}


def make_twin(name: str, seed: int = 0, *, num_threads: int | None = None) -> Dataset:
    """Make a twin in memory.

    Parameters
    ----------
    name : str
        As for :func:`parse_twin_name`.
    seed, num_threads
        As for :func:`write_twin`.

    Raises
    ------
    ValueError
        As those two.
    """
    preset, fraction = parse_twin_name(name)
    sink = MemorySink()
    made = write_twin(preset, sink, seed=seed, fraction=fraction, num_threads=num_threads)
    arrays = sink.arrays
    graph = Graph(arrays["indptr"], arrays["indices"])
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    split_idx = {part: torch.from_numpy(arrays[part]) for part in SPLIT_NAMES}
    description = {**made["description"], "sha256": checksum(graph, x, y, split_idx)}
    return Dataset(made["name"], graph, x, y, split_idx, made["num_classes"], description)


def twin_builder(
    name: str, seed: int = 0, *, num_threads: int | None = None
) -> Callable[[StoreWriter], None]:
    """Return what fills a store with a twin, of which little is ever in memory.

    Parameters and errors are those of :func:`make_twin`; a wrong name is refused here already.
    """
    preset, fraction = parse_twin_name(name)

    def build(writer: StoreWriter) -> None:
        made = write_twin(preset, writer, seed=seed, fraction=fraction, num_threads=num_threads)
        writer.finish(made["name"], made["num_classes"], made["description"])

    return build


def _write_edges(
    shape: Preset, sink: ArraySink, seed: int, num_threads: int, name: str
) -> _core.TwinGraph:
    wanted = 2 * shape.num_pairs
    room = math.ceil(wanted * (1 + (_ROOM if shape.num_pairs > _SMALL_PAIRS else _ROOM_SMALL)))
    indptr = sink.create("indptr", (shape.num_nodes + 1,), np.int64)
    indices = sink.create("indices", (room,), np.int32)
    class_starts, degree_steps = shape.class_starts(), shape.degree_steps()
    surplus = shape.surplus
    while True:
        twin = _core.TwinGraph(
            seed,
            class_starts,
            min(shape.community_size, shape.num_nodes),
            shape.survival[0][0],
            degree_steps,
            round(shape.community_share * 2**16),
            round(shape.class_share * 2**16),
            math.ceil(wanted * (1 + surplus)),
            num_threads,
        )
        if twin.raw_edges > room:
            raise ValueError(
                f"{name}: {shape.num_pairs:,} pairs of {shape.num_nodes:,} nodes are so dense that "
                f"too many are drawn twice; take a larger fraction"
            )
        found = twin.write_edges(shape.num_pairs, indptr, indices)
        if found >= wanted:
            break
        # Duplicates grow faster than what is drawn.
        surplus += 1.5 * (wanted - found) / wanted + 0.005
    sink.truncate("indices", wanted)
    return twin


def _write_labels(twin: _core.TwinGraph, shape: Preset, sink: ArraySink) -> None:
    y = sink.create("y", (shape.num_nodes,), np.int64)
    parts = np.empty(shape.num_nodes, np.uint8)
    ends = np.cumsum([0, *shape.split_sizes]).astype(np.int64)
    twin.write_labels(ends, y, parts)
    for number, (part, size) in enumerate(zip(SPLIT_NAMES, shape.split_sizes, strict=True)):
        sink.create(part, (size,), np.int64)[...] = np.flatnonzero(parts == number)
    if ends[-1] < shape.num_nodes:
        y[parts == 255] = -1


def _write_features(twin: _core.TwinGraph, shape: Preset, sink: ArraySink) -> None:
    x = sink.create("x", (shape.num_nodes, shape.num_features), np.float16)
    signal = shape.feature_signal / math.sqrt(shape.num_features)
    step = max(1, _BLOCK_BYTES // (2 * shape.num_features))
    for first in range(0, shape.num_nodes, step):
        block = x[first : first + step].view(np.uint16).reshape(-1)
        twin.write_features(first, shape.num_features, signal, np.asarray(block))
        sink.release("x")
