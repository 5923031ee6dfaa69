"""Stores from the user's own files. May import: the other modules of datasets, graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salient.datasets.conversion import convert_edges
from salient.datasets.dataset import Dataset
from salient.datasets.edge_tables import TABLE_SUFFIXES, is_edge_table
from salient.datasets.features import to_half
from salient.datasets.labels import as_class_labels
from salient.datasets.npz import load_npz
from salient.datasets.own_formats import (
    PYG_SUFFIXES,
    OwnArrays,
    read_array_folder,
    read_edge_table,
    read_pyg,
)
from salient.datasets.sink import ArraySink
from salient.datasets.splits import SPLIT_NAMES, describe_random_split, random_split
from salient.datasets.store import StoreWriter, prepare, write_dataset
from salient.graph import require_node_ids

_BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class OwnOptions:
    """What the user says about files of their own.

    Parameters
    ----------
    symmetrise : bool
        Add every reversed edge and drop duplicates. Edges are kept as they are otherwise.
    drop_duplicates : bool
        Keep one of parallel edges.
    features, labels, splits : Path, optional
        What belongs to an edge list; see
        :func:`salient.datasets.own_formats.read_edge_table`.
    split : int
        Which split, where the file has several.
    seed : int
        Of the random 60/20/20 split of the labelled nodes, where the files have none.
    """

    symmetrise: bool = False
    drop_duplicates: bool = False
    features: Path | None = None
    labels: Path | None = None
    splits: Path | None = None
    split: int = 0
    seed: int = 0


def is_own(source: str | os.PathLike[str]) -> bool:
    """Return whether a name is that of files which :func:`prepare_own` reads."""
    path = Path(source)
    return (
        path.suffix in (".npz", *PYG_SUFFIXES)
        or is_edge_table(path)
        or (path / "edge_index.npy").is_file()
    )


def own_name(source: str | os.PathLike[str]) -> str:
    """Return the name that a data set from these files has by default."""
    path = Path(source)
    endings = (*TABLE_SUFFIXES, ".npz", *PYG_SUFFIXES)
    for ending in sorted(endings, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return path.name[: -len(ending)]
    return path.absolute().name


def prepare_own(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    options: OwnOptions | None = None,
    *,
    name: str | None = None,
) -> Dataset:
    """Make a store of the user's own files, unless the folder holds one; open it.

    Parameters
    ----------
    source : path
        An ``.npz`` file, see :mod:`salient.datasets.npz`; a PyG ``Data`` object saved by
        ``torch.save`` (``.pt``); a folder with ``edge_index.npy``, ``x.npy`` and ``y.npy``; or an
        edge list in text (``.csv``, ``.tsv``, ``.txt``, also gzipped) or Parquet.
    folder : path
        Where the store goes.
    options : OwnOptions, optional
    name : str, optional
        Of the data set, by default from the path.

    Raises
    ------
    OSError, TypeError, ValueError, ImportError
        As the readers and :func:`salient.datasets.store.prepare` raise them.
    """
    path, chosen = Path(source), options or OwnOptions()
    title = name or own_name(path)
    return prepare(folder, own_builder(path, chosen, title))


def own_builder(path: Path, options: OwnOptions, name: str) -> Callable[[StoreWriter], None]:
    """Return what fills a store with the user's own files; see :func:`prepare_own`."""
    return lambda writer: _write_own(writer, path, options, name)


def _write_own(writer: StoreWriter, path: Path, options: OwnOptions, name: str) -> None:
    if not is_edge_table(path) and (options.features or options.labels or options.splits):
        raise ValueError(
            f"{path}: features, labels and splits can be given for an edge list only; these files "
            "hold their own"
        )
    if path.suffix == ".npz":
        _write_npz(writer, path, options, name)
        return
    if is_edge_table(path):
        arrays = read_edge_table(
            path,
            writer.scratch,
            features=options.features,
            labels=options.labels,
            splits=options.splits,
        )
    elif path.suffix in PYG_SUFFIXES:
        arrays = read_pyg(path, options.split)
    else:
        arrays = read_array_folder(path)
    _write_arrays(writer, arrays, options, name)


def _write_npz(writer: StoreWriter, path: Path, options: OwnOptions, name: str) -> None:
    if options.symmetrise or options.drop_duplicates:
        raise ValueError(
            f"{path}: an .npz file says by its 'edge_kind' whether reversed edges are added; "
            "leave out --symmetrise and --drop-duplicates"
        )
    write_dataset(writer, load_npz(path, seed=options.seed, split=options.split), name)


def _write_arrays(writer: StoreWriter, own: OwnArrays, options: OwnOptions, name: str) -> None:
    y = as_class_labels(own.y)
    if own.x.ndim != 2 or len(own.x) != len(y):
        raise ValueError(
            f"{own.where}: x has shape {own.x.shape}, but y has {len(y)} labels; expected "
            f"({len(y)}, num_features)"
        )
    num_nodes = len(y)
    writer.create("y", (num_nodes,), np.int64)[...] = y.numpy()
    seed = None
    if own.split is None:
        seed = options.seed
        words = describe_random_split(seed, "the files have none")
        ids = {part: nodes.numpy() for part, nodes in random_split(y, seed).items()}
    else:
        words = "as given"
        ids = {
            part: np.sort(require_node_ids(own.split[part], num_nodes, f"{name}: {part}"))
            for part in SPLIT_NAMES
        }
    for part, nodes in ids.items():
        writer.create(part, nodes.shape, np.int64)[...] = nodes
    features = _write_features(own.x, writer, f"{name}: x")
    conversion = convert_edges(
        own.edges,
        num_nodes,
        writer,
        symmetrise=options.symmetrise,
        drop_duplicates=options.drop_duplicates,
        where=own.where,
    )
    description = {
        "source": own.source,
        "licence": "not stated in the files",
        "edges": conversion.words(),
        "symmetrised": conversion.symmetrised,
        "self_loops": conversion.self_loops,
        "features": features,
        "split": words,
        "seed": seed,
    }
    writer.finish(name, int(torch.max(y)) + 1 if num_nodes else 0, description)


def _write_features(x: npt.NDArray[Any], sink: ArraySink, where: str) -> str:
    """Write features as float16, some rows at a time; return in words how they are stored."""
    stored = sink.create("x", x.shape, np.float16)
    rounded = False
    half = to_half(x[:0], where)
    for start in range(0, len(x), _BLOCK_ROWS):
        half = to_half(x[start : start + _BLOCK_ROWS], where, start)
        stored[start : start + _BLOCK_ROWS] = half.values
        rounded |= half.rounded
    return half._replace(rounded=rounded).note(x.dtype)
