"""Data sets from ``.npz`` files in a documented layout. May import: the other modules of datasets.

The layout: ``edge_index`` (2, E), source over target, with ``edge_kind`` saying ``directed``,
``undirected_both`` or ``undirected_once``; features ``x`` (N, F) or ``x_indptr``, ``x_indices``,
``x_data`` in CSR form; labels ``y`` (N,), -1 for none; ``num_nodes``, ``num_features``,
``num_classes``; all or none of ``train_mask``, ``valid_mask``, ``test_mask``, bool, (N,) or (S, N)
for S published splits; optionally ``feature_note``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from salient.datasets.conversion import Conversion, graph_from_edges
from salient.datasets.dataset import Dataset, describe
from salient.datasets.features import densify_rows, to_half
from salient.datasets.labels import as_class_labels
from salient.datasets.npz_archive import NpzArchive
from salient.datasets.splits import SPLIT_NAMES, describe_random_split, random_split
from salient.graph import Graph

_EDGE_KINDS = ("directed", "undirected_both", "undirected_once")
_CSR_KEYS = ("x_indptr", "x_indices", "x_data")


class _Split(NamedTuple):
    ids: dict[str, Tensor]
    words: str
    seed: int | None
    tag: str


def load_npz(
    path: Path,
    *,
    seed: int = 0,
    columns: tuple[int, int] | None = None,
    split: int = 0,
    random_split: bool = False,
) -> Dataset:
    """Load an ``.npz`` file in the layout described above.

    A graph whose edges are listed in one direction is symmetrised: reversed edges are added,
    duplicates dropped, self-loops kept once.

    Parameters
    ----------
    path : Path
    seed : int
        Of the random split, where there is one.
    columns : (int, int), optional
        Use only these feature columns: the first, and the one after the last.
    split : int
        Which split, where the file has several.
    random_split : bool
        Split the labelled nodes at random, 60/20/20, even if the file has masks. A file without
        masks is always split so.

    Raises
    ------
    OSError
        The file cannot be opened.
    TypeError, ValueError
        An option does not fit the file, or the file not the layout; the message names path and
        key.
    """
    try:
        archive = NpzArchive(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; check the path and root") from error
    with archive:
        num_nodes, num_features, num_classes = (
            _read_count(archive, key) for key in ("num_nodes", "num_features", "num_classes")
        )
        first, last = _require_columns(columns, num_features)
        y = _read_labels(archive, num_nodes, num_classes)
        graph, kind, conversion = _read_graph(archive, num_nodes)
        x, features = _read_features(archive, num_nodes, num_features, (first, last))
        chosen = _read_split(archive, y, split, random_split, seed)
    tags = [] if columns is None else [f"columns {first}..{last - 1}"]
    tags += [chosen.tag] if chosen.tag else []
    symmetrised = kind != "undirected_both"
    description = describe(
        graph,
        x,
        y,
        chosen.ids,
        num_classes,
        source=f"the file {path.name}",
        licence="not stated in the file",
        edges=(
            f"{kind} in the file; reversed edges added, duplicates dropped"
            if symmetrised
            else "as in the file, which lists each pair both ways"
        ),
        symmetrised=symmetrised,
        self_loops=conversion.self_loops,
        features=features,
        split=chosen.words,
        seed=chosen.seed,
    )
    name = ", ".join([path.name, *tags])
    return Dataset(name, graph, x, y, chosen.ids, num_classes, description)


def _require_columns(columns: Any, num_features: int) -> tuple[int, int]:
    if columns is None:
        return 0, num_features
    if (
        not isinstance(columns, (tuple, list))
        or len(columns) != 2
        or any(isinstance(end, bool) or not isinstance(end, int) for end in columns)
    ):
        raise TypeError(f"columns: expected two ints, got {columns!r}")
    first, last = columns
    if not 0 <= first < last <= num_features:
        raise ValueError(
            f"columns: {first} to {last} is no range within the {num_features} feature columns"
        )
    return first, last


def _read_shaped(
    archive: NpzArchive, key: str, shape: tuple[int, ...], kinds: str, expected: str
) -> npt.NDArray[Any]:
    header = archive.header(key)
    if header.shape != shape or header.dtype.kind not in kinds:
        raise ValueError(
            f"{archive.path}: {key!r} must be {expected} of shape {shape}, is {header.dtype} of "
            f"shape {header.shape}"
        )
    return archive.read(key)


def _read_count(archive: NpzArchive, key: str) -> int:
    count = int(_read_shaped(archive, key, (), "iu", "one integer"))
    if count < 0:
        raise ValueError(f"{archive.path}: {key!r} is {count}, must not be negative")
    return count


def _read_text(archive: NpzArchive, key: str) -> str:
    return str(_read_shaped(archive, key, (), "U", "one string"))


def _read_labels(archive: NpzArchive, num_nodes: int, num_classes: int) -> Tensor:
    where = f"{archive.path}: 'y'"
    values = _read_shaped(archive, "y", (num_nodes,), "iuf", "numbers")
    try:
        y = as_class_labels(values)
    except ValueError as error:
        raise ValueError(f"{archive.path}: {error}") from error
    if num_nodes and int(y.max()) >= num_classes:
        at = int(y.argmax())
        raise ValueError(f"{where}: node {at} has label {int(y[at])} of {num_classes} classes")
    return y


def _read_graph(archive: NpzArchive, num_nodes: int) -> tuple[Graph, str, Conversion]:
    kind = _read_text(archive, "edge_kind")
    if kind not in _EDGE_KINDS:
        raise ValueError(
            f"{archive.path}: 'edge_kind' is {kind!r}, must be one of {', '.join(_EDGE_KINDS)}"
        )
    where = f"{archive.path}: 'edge_index'"
    edges = archive.read("edge_index")
    graph, conversion = graph_from_edges(edges, num_nodes, symmetrise=True, where=where)
    if kind == "undirected_both":
        listed, _ = graph_from_edges(edges, num_nodes, drop_duplicates=True, where=where)
        if not conversion.num_edges == conversion.num_input_edges == listed.num_edges:
            raise ValueError(
                f"{where} has {conversion.num_input_edges} edges, {listed.num_edges} of them "
                f"different, where 'edge_kind' undirected_both needs {conversion.num_edges}: some "
                "are not listed both ways, or more than once; write 'directed' to have that mended"
            )
    return graph, kind, conversion


def _read_features(
    archive: NpzArchive, num_nodes: int, num_features: int, columns: tuple[int, int]
) -> tuple[Tensor, str]:
    sparse = [key for key in _CSR_KEYS if key in archive]
    if ("x" in archive) == (len(sparse) > 0) or len(sparse) not in (0, 3):
        raise ValueError(
            f"{archive.path}: the features must be either 'x' or all of {', '.join(_CSR_KEYS)}"
        )
    first, last = columns
    if sparse:
        stored = archive.read("x_data")
        half = to_half(stored, f"{archive.path}: 'x_data'")
        indptr = _read_shaped(archive, "x_indptr", (num_nodes + 1,), "iu", "integers")
        indices = _read_shaped(archive, "x_indices", half.values.shape, "iu", "integers")
        if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < num_features:
            raise ValueError(
                f"{archive.path}: 'x_indices' reaches from {indices.min()} to {indices.max()}, "
                f"outside [0, {num_features})"
            )
        dense = densify_rows(indptr, indices, half.values, columns, f"{archive.path}: 'x_indptr'")
    else:
        stored = _read_shaped(archive, "x", (num_nodes, num_features), "fiub", "numbers")
        half = to_half(stored[:, first:last], f"{archive.path}: 'x'")
        dense = half.values
    notes = [half.note(stored.dtype)]
    if last - first < num_features:
        notes.append(f"only columns {first}..{last - 1} of {num_features}")
    if "feature_note" in archive:
        notes.append(_read_text(archive, "feature_note"))
    return torch.from_numpy(dense), "; ".join(notes)


def _read_split(archive: NpzArchive, y: Tensor, split: Any, at_random: Any, seed: int) -> _Split:
    if isinstance(split, bool) or not isinstance(split, int):
        raise TypeError(f"split: expected an int, got {split!r}")
    if not isinstance(at_random, bool):
        raise TypeError(f"random_split: expected True or False, got {at_random!r}")
    keys = {part: f"{part}_mask" for part in SPLIT_NAMES}
    missing = [key for key in keys.values() if key not in archive]
    if missing and len(missing) < len(keys):
        raise ValueError(f"{archive.path}: {missing[0]!r} is missing; give all masks or none")
    shapes = [(len(y),)] if missing else [archive.header(key).shape for key in keys.values()]
    unlike = any(shape != shapes[0] for shape in shapes)
    if unlike or len(shapes[0]) not in (1, 2) or shapes[0][-1] != len(y):
        raise ValueError(
            f"{archive.path}: the masks have shapes {', '.join(map(str, shapes))}; all must be "
            f"({len(y)},), or (splits, {len(y)})"
        )
    number = 1 if missing or at_random or len(shapes[0]) == 1 else shapes[0][0]
    if not 0 <= split < number:
        raise ValueError(f"split: is {split}, but there is a choice of {number} only")
    if missing or at_random:
        remark = "the file has none" if missing else "not the file's own"
        words = describe_random_split(seed, remark)
        return _Split(random_split(y, seed), words, seed, "random split")
    ids = {}
    for part, key in keys.items():
        mask = _read_shaped(archive, key, shapes[0], "b", "booleans")
        nodes = np.flatnonzero(mask if mask.ndim == 1 else mask[split])
        ids[part] = torch.from_numpy(nodes.astype(np.int64))
        unlabelled = nodes[y.numpy()[nodes] < 0]
        if unlabelled.size:
            raise ValueError(
                f"{archive.path}: {key!r} has node {unlabelled[0]}, which has no label; clear it"
            )
    if len(shapes[0]) == 1:
        return _Split(ids, "the masks of the file", None, "")
    return _Split(ids, f"split {split} of {number} in the file", None, f"split {split}")
