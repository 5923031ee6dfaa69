"""OGB's node data sets from their raw files. May import: the other modules of datasets, numpy.

The layout is the one that OGB's own reader expects (``ogb/io/read_graph_raw.py`` and
``ogb/nodeproppred/dataset.py`` of ogb 1.3.6): ``raw/edge.csv.gz``, ``num-node-list.csv.gz``,
``num-edge-list.csv.gz``, ``node-feat.csv.gz`` and ``node-label.csv.gz``, or for papers100M
``raw/data.npz`` and ``raw/node-label.npz``; and ``split/<kind>/{train,valid,test}.csv.gz``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from salient.datasets import csv_files, zip_members
from salient.datasets.conversion import ArrayEdges, convert_edges
from salient.datasets.features import to_half
from salient.datasets.labels import as_class_labels
from salient.datasets.npz_archive import NpzArchive
from salient.datasets.ogb_files import fetch_ogb, require_ogb_name
from salient.datasets.sink import ArraySink
from salient.datasets.splits import SPLIT_NAMES
from salient.datasets.store import StoreWriter

_Blocks = Iterator[tuple[int, npt.NDArray[Any]]]
_ANEW = "delete the data set's folder and fetch it anew"


def ogb_builder(
    name: str, root: Path, *, allow_large: bool = False, progress: bool = True
) -> Callable[[StoreWriter], None]:
    """Return what fills a store with a data set, fetching its raw files where needed.

    Parameters and errors are those of :func:`salient.datasets.ogb_files.fetch_ogb` and
    :func:`write_ogb`; nothing is fetched before the store is built.
    """

    def build(writer: StoreWriter) -> None:
        raw = fetch_ogb(name, root, allow_large=allow_large, progress=progress)
        description = write_ogb(name, raw, writer, scratch=writer.scratch)
        writer.finish(name, description["num_classes"], description)

    return build


def write_ogb(name: str, raw: Path, sink: ArraySink, *, scratch: Path | None) -> dict[str, Any]:
    """Write the arrays of a data set from OGB's raw files, holding little of them in memory.

    Reversed edges are added and duplicates dropped, as the SALIENT paper does; the
    result is the undirected graph. Features become float16, labels int64 with -1 for NaN.

    Parameters
    ----------
    name : str
        ``ogbn-arxiv``, ``ogbn-products`` or ``ogbn-papers100M``.
    raw : Path
        Folder that holds ``raw`` and ``split``, see :func:`salient.datasets.ogb_files.fetch_ogb`.
    sink : ArraySink
        Gets ``indptr``, ``indices``, ``x``, ``y``, ``train``, ``valid`` and ``test``.
    scratch : Path, optional
        An existing folder for the edge list while it is converted (8 bytes an edge); without one
        it is in memory.

    Returns
    -------
    dict
        As from :func:`salient.datasets.dataset.describe`, without the checksum.

    Raises
    ------
    FileNotFoundError
        A raw file is missing.
    ValueError
        Truncated or damaged files, or such as contradict each other; the message names file,
        place and remedy.
    """
    about = require_ogb_name(name)
    with ExitStack() as stack:
        source: _TextSource | _BinarySource = (
            _BinarySource(raw / "raw", stack) if about.binary else _TextSource(raw / "raw")
        )
        num_nodes, num_edges = source.num_nodes, source.num_edges
        y = sink.create("y", (num_nodes,), np.int64)
        _write_labels(source, y, about.num_classes)
        split_sizes = _write_splits(raw / "split" / about.split, y, sink)
        num_features, features = _write_features(source, num_nodes, sink)
        edges = _collect_edges(source, num_nodes, num_edges, scratch)
        where = str(source.edge_file)
    conversion = convert_edges(ArrayEdges(edges), num_nodes, sink, symmetrise=True, where=where)
    listed = "directed edges" if about.directed else "each undirected pair once"
    usual = (num_nodes, num_edges) == (about.num_nodes, about.num_edges)
    return {
        "source": f"{name} of the Open Graph Benchmark, {about.url}"
        + ("" if usual else "; NOT of the published size"),
        "licence": about.licence,
        "num_nodes": num_nodes,
        "num_edges": conversion.num_edges,
        "num_features": num_features,
        "num_classes": about.num_classes,
        "edges": f"the file lists {listed}; {conversion.words()}",
        "symmetrised": True,
        "self_loops": conversion.self_loops,
        "features": features,
        "split": f"OGB's, by {about.split}",
        "split_sizes": split_sizes,
        "seed": None,
    }


class _TextSource:
    """Raw files of arxiv and products. Each iterator yields first rows and blocks."""

    def __init__(self, folder: Path) -> None:
        self.edge_file = folder / "edge.csv.gz"
        self.feature_file = folder / "node-feat.csv.gz"
        self.label_file = folder / "node-label.csv.gz"
        counts = []
        for kind in ("node", "edge"):
            path = folder / f"num-{kind}-list.csv.gz"
            counts.append(_only_count(csv_files.read_counts(path), str(path)))
        self.num_nodes, self.num_edges = counts
        self.num_features = next(
            (block.shape[1] for block in csv_files.read_blocks(self.feature_file, None, "f4")), 0
        )

    def features(self) -> _Blocks:
        return _numbered(csv_files.read_blocks(self.feature_file, self.num_features, np.float32))

    def labels(self) -> _Blocks:
        return _numbered(csv_files.read_blocks(self.label_file, 1, np.float64))

    def edges(self) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        for first, block in _numbered(csv_files.read_blocks(self.edge_file, 2, np.int64)):
            yield 0, first, block[:, 0]
            yield 1, first, block[:, 1]


class _BinarySource:
    """Raw files of papers100M."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.edge_file = self.feature_file = folder / "data.npz"
        self.label_file = folder / "node-label.npz"
        self._data = stack.enter_context(zip_members.open_archive(self.edge_file))
        self._labels = stack.enter_context(zip_members.open_archive(self.label_file))
        self.num_nodes, self.num_edges = (
            _only_count(self._read_list(key), f"{self.edge_file}: {key!r}")
            for key in ("num_nodes_list", "num_edges_list")
        )
        _require_header(self._data, "edge_index", "iu", (2, self.num_edges))
        features = self._data.header("node_feat").shape
        self.num_features = features[1] if len(features) == 2 else 0
        _require_header(self._data, "node_feat", "f", (self.num_nodes, self.num_features))
        _require_header(self._labels, "node_label", "iuf", (self.num_nodes, 1))

    def _read_list(self, key: str) -> npt.NDArray[Any]:
        if self._data.header(key).dtype.kind not in "iu":
            raise ValueError(f"{self.edge_file}: {key!r} is not of integers; {_ANEW}")
        return self._data.read(key)

    def features(self) -> _Blocks:
        return zip_members.read_blocks(self._data, "node_feat")

    def labels(self) -> _Blocks:
        return zip_members.read_blocks(self._labels, "node_label")

    def edges(self) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        for first, block in zip_members.read_flat(self._data, "edge_index"):
            # Sources of all edges come first, then targets; one block can hold the seam.
            until = min(max(self.num_edges - first, 0), len(block))
            if until:
                yield 0, first, block[:until]
            if until < len(block):
                yield 1, first + until - self.num_edges, block[until:]


def _numbered(blocks: Iterator[npt.NDArray[Any]]) -> _Blocks:
    first = 0
    for block in blocks:
        yield first, block
        first += len(block)


def _only_count(counts: npt.NDArray[Any], where: str) -> int:
    if counts.size != 1 or int(counts.reshape(-1)[0]) < 0:
        raise ValueError(
            f"{where} has {counts.size} entries, {counts.reshape(-1)[:3].tolist()}; expected one "
            f"count, since there is one graph; {_ANEW}"
        )
    return int(counts.reshape(-1)[0])


def _require_header(archive: NpzArchive, key: str, kinds: str, shape: tuple[int, ...]) -> None:
    header = archive.header(key)
    if header.dtype.kind not in kinds or header.shape != shape:
        raise ValueError(
            f"{archive.path}: {key!r} is {header.dtype} of shape {header.shape}, expected shape "
            f"{shape} by the counts in the archive; {_ANEW}"
        )


def _require_rows(rows: int, expected: int, path: Path, what: str) -> None:
    if rows != expected:
        raise ValueError(
            f"{path}: has {'more than ' if rows > expected else ''}{min(rows, expected):,} rows "
            f"where the list of counts says {expected:,} {what}; {_ANEW}"
        )


def _write_labels(
    source: _TextSource | _BinarySource, y: npt.NDArray[np.int64], num_classes: int
) -> None:
    path, rows = source.label_file, 0
    for first, block in source.labels():
        rows = first + len(block)
        if rows > len(y):
            break
        try:
            labels = as_class_labels(block).numpy()
        except ValueError as error:
            raise ValueError(f"{path}: counted from row {first}: {error}; {_ANEW}") from error
        if labels.max(initial=-1) >= num_classes:
            at = int(labels.argmax())
            raise ValueError(
                f"{path}: row {first + at} has label {labels[at]} of {num_classes} classes; {_ANEW}"
            )
        y[first:rows] = labels
    _require_rows(rows, len(y), path, "nodes")


def _write_splits(folder: Path, y: npt.NDArray[np.int64], sink: ArraySink) -> dict[str, int]:
    taken = np.zeros(len(y), np.bool_)
    sizes = {}
    for part in SPLIT_NAMES:
        path = folder / f"{part}.csv.gz"
        ids = np.sort(csv_files.read_counts(path))
        if ids.size and (ids[0] < 0 or ids[-1] >= len(y)):
            wrong = ids[0] if ids[0] < 0 else ids[-1]
            raise ValueError(f"{path}: node {wrong} is outside [0, {len(y)}); {_ANEW}")
        repeated = ids[taken[ids]].tolist() + ids[1:][ids[1:] == ids[:-1]].tolist()
        if repeated:
            raise ValueError(
                f"{path}: node {repeated[0]} is in it twice, or in another part; {_ANEW}"
            )
        unlabelled = ids[y[ids] < 0]
        if unlabelled.size:
            raise ValueError(f"{path}: node {unlabelled[0]} has no label; {_ANEW}")
        taken[ids] = True
        sink.create(part, ids.shape, np.int64)[...] = ids
        sizes[part] = len(ids)
    return sizes


def _write_features(
    source: _TextSource | _BinarySource, num_nodes: int, sink: ArraySink
) -> tuple[int, str]:
    x = sink.create("x", (num_nodes, source.num_features), np.float16)
    path, rows, note = source.feature_file, 0, "stored as float16 without rounding"
    for first, block in source.features():
        rows = first + len(block)
        if rows > num_nodes:
            break
        half = to_half(block, f"{path}: features", first)
        x[first:rows] = half.values
        if half.rounded:
            note = half.note(block.dtype)
    _require_rows(rows, num_nodes, path, "nodes")
    return source.num_features, note


def _collect_edges(
    source: _TextSource | _BinarySource, num_nodes: int, num_edges: int, scratch: Path | None
) -> npt.NDArray[Any]:
    width = np.int32 if num_nodes < 2**31 else np.int64
    edges: npt.NDArray[Any]
    if scratch is None or not num_edges:
        edges = np.empty((2, num_edges), width)
    else:
        file = scratch / "ogb_edges.tmp"
        edges = np.memmap(file, width, "w+", shape=(2, num_edges))
        file.unlink()  # The space is free again as soon as the map is.
    rows = 0
    for side, first, block in source.edges():
        rows = first + len(block)
        if rows > num_edges:
            break
        if block.size and (block.min() < 0 or block.max() >= num_nodes):
            at = int(np.flatnonzero((block < 0) | (block >= num_nodes))[0])
            end = ("source", "target")[side]
            raise ValueError(
                f"{source.edge_file}: edge {first + at} has the {end} {block[at]}, outside "
                f"[0, {num_nodes}); {_ANEW}"
            )
        edges[side, first:rows] = block
    _require_rows(rows, num_edges, source.edge_file, "edges")
    return edges
