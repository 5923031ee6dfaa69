"""The citation graphs pubmed, citeseer and cora. May import: the other modules of datasets.

pubmed and citeseer are those of Yang et al., "Revisiting Semi-Supervised Learning with Graph
Embeddings" (ICML 2016, arXiv 1603.08861), with the split of that paper. cora is the same graph in
the older text form, with the nodes in another order, and so without that split.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from salient.datasets.conversion import graph_from_edges
from salient.datasets.dataset import Dataset, describe
from salient.datasets.features import densify_rows, to_half
from salient.datasets.labels import as_class_labels
from salient.datasets.legacy_pickle import CsrMatrix, read_legacy_pickle
from salient.datasets.planetoid_files import RAW_FILES, fetch_raw_files
from salient.datasets.splits import describe_random_split, random_split

PLANETOID_NAMES = tuple(RAW_FILES)

_NUM_VALID = 500


class _Sizes(NamedTuple):
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int


# Published sizes, edges in both directions and without self-loops: a check against damaged files.
_SIZES = {
    "pubmed": _Sizes(19_717, 88_648, 500, 3),
    "citeseer": _Sizes(3_327, 9_104, 3_703, 6),
    "cora": _Sizes(2_708, 10_556, 1_433, 7),
}


class _Raw(NamedTuple):
    edges: npt.NDArray[Any]
    x: npt.NDArray[np.float16]
    feature_note: str
    y: Tensor
    split_idx: dict[str, Tensor] | None


def load_planetoid(name: str, root: Path, *, seed: int = 0, split: str | None = None) -> Dataset:
    """Load a Planetoid graph, fetching its raw files into ``root`` at first use.

    The edges are symmetrised, duplicates and self-loops dropped, as PyG does. The test nodes
    of citeseer that come without features and label get zeros and -1.

    Parameters
    ----------
    name : str
        "pubmed", "citeseer" or "cora".
    root : Path
        The raw files are kept in ``planetoid/raw`` below it.
    seed : int
        Of the random split, where there is one.
    split : str, optional
        "planetoid", the default, or "random", a fixed random 60/20/20 split of the labelled nodes,
        the default and only choice for cora.

    Raises
    ------
    ValueError
        An unknown split, or damaged raw files; the message names the file.
    OSError
        The raw files cannot be fetched or read.
    """
    if split is None:
        split = "random" if name == "cora" else "planetoid"
    if split not in ("planetoid", "random"):
        raise ValueError(f"split: is {split!r}, expected 'planetoid' or 'random'")
    if name == "cora" and split == "planetoid":
        raise ValueError(
            "split: cora is read from its text form, whose node order does not have the "
            "'planetoid' split; use 'random'"
        )
    folder = fetch_raw_files(name, root)
    raw = _read_text_form(folder) if name == "cora" else _read_pickled_form(folder, name)
    num_nodes = len(raw.x)
    is_loop = raw.edges[0] == raw.edges[1]
    loops = int(np.count_nonzero(is_loop))
    graph, _ = graph_from_edges(
        raw.edges[:, ~is_loop], num_nodes, symmetrise=True, where=str(folder)
    )
    num_classes = int(raw.y.max()) + 1
    found = _Sizes(num_nodes, graph.num_edges, raw.x.shape[1], num_classes)
    if found != _SIZES[name]:
        raise ValueError(
            f"{folder}: the files give {found}, but {name} has {_SIZES[name]}; delete the folder "
            "and retry"
        )
    if split == "random" or raw.split_idx is None:
        split_idx, title = random_split(raw.y, seed), f"{name}, random split"
        words = describe_random_split(seed, "not Planetoid's")
    else:
        split_idx, title, words = raw.split_idx, name, "Planetoid's"
    x = torch.from_numpy(raw.x)
    description = describe(
        graph,
        x,
        raw.y,
        split_idx,
        num_classes,
        source="Planetoid (Yang et al. 2016, arXiv 1603.08861), raw files",
        licence="MIT",
        edges=f"reversed edges added, duplicates dropped; {loops} self-loop entries dropped too",
        symmetrised=True,
        self_loops=0,
        features=raw.feature_note,
        split=words,
        seed=seed if split == "random" else None,
    )
    return Dataset(title, graph, x, raw.y, split_idx, num_classes, description)


def _read_pickled_form(folder: Path, name: str) -> _Raw:
    path = {part: folder / f"ind.{name}.{part}" for part in ("allx", "tx", "graph", "test.index")}
    known, known_note = _read_matrix(path["allx"])
    tested, _ = _read_matrix(path["tx"])
    known_y, tested_y, train_y = (
        _read_classes(folder / f"ind.{name}.{part}") for part in ("ally", "ty", "y")
    )
    test = _read_test_index(path["test.index"])
    first = len(known)
    if (
        test.size == 0
        or len({len(test), len(tested), len(tested_y)}) > 1
        or len(known_y) != first
        or test.min() < first
        or np.unique(test).size != test.size
        or tested.shape[1] != known.shape[1]
        or len(train_y) + _NUM_VALID > first
    ):
        raise ValueError(f"{folder}: the files do not fit together; delete the folder and retry")
    # Nodes that the test file skips keep zeros and no label. A bound on the highest id keeps a
    # damaged file from taking the memory.
    num_nodes = int(test.max()) + 1
    if num_nodes > 2 * (first + len(test)):
        raise ValueError(f"{path['test.index']}: names node {test.max()}, far beyond the others")
    x = np.zeros((num_nodes, known.shape[1]), np.float16)
    x[:first], x[test] = known, tested
    y = np.full(num_nodes, -1)
    y[:first], y[test] = known_y, tested_y
    train, valid = np.arange(len(train_y)), np.arange(len(train_y), len(train_y) + _NUM_VALID)
    split_idx = {
        part: torch.from_numpy(ids.astype(np.int64))
        for part, ids in (("train", train), ("valid", valid), ("test", np.sort(test)))
    }
    edges = _read_adjacency(path["graph"], num_nodes)
    return _Raw(edges, x, known_note, as_class_labels(y), split_idx)


def _read_matrix(path: Path) -> tuple[npt.NDArray[np.float16], str]:
    matrix = read_legacy_pickle(path)
    if not isinstance(matrix, CsrMatrix):
        raise ValueError(f"{path}: expected a CSR matrix, found {type(matrix).__name__}")
    half = to_half(matrix.data, str(path))
    columns = (0, matrix.shape[1])
    dense = densify_rows(matrix.indptr, matrix.indices, half.values, columns, str(path))
    return dense, half.note(matrix.data.dtype)


def _read_classes(path: Path) -> npt.NDArray[np.int64]:
    one_hot = read_legacy_pickle(path)
    if not isinstance(one_hot, np.ndarray) or one_hot.ndim != 2 or one_hot.shape[1] == 0:
        raise ValueError(f"{path}: expected a matrix with one column a class")
    if not np.isin(one_hot, (0, 1)).all() or (one_hot.sum(axis=1) > 1).any():
        raise ValueError(f"{path}: expected at most a single 1 in each row, and zeros")
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _read_test_index(path: Path) -> npt.NDArray[np.int64]:
    try:
        return np.array(path.read_text(encoding="ascii").split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: expected one node id a line ({error})") from error


def _read_adjacency(path: Path, num_nodes: int) -> npt.NDArray[Any]:
    graph = read_legacy_pickle(path)
    if not isinstance(graph, dict) or not all(isinstance(row, list) for row in graph.values()):
        raise ValueError(f"{path}: expected a dict of lists of neighbours")
    pairs = [(node, neighbour) for node, row in graph.items() for neighbour in row]
    if not all(type(node) is int for pair in pairs for node in pair):
        raise ValueError(f"{path}: a node id is not an integer")
    try:
        edges = np.array(pairs, np.int64).reshape(-1, 2).T
    except OverflowError as error:
        raise ValueError(f"{path}: a node id has more than 64 bits") from error
    return edges


def _read_text_form(folder: Path) -> _Raw:
    """Read ``paper feature... class`` lines, and ``cited citing`` lines."""
    content, cites = folder / "cora.content", folder / "cora.cites"
    rows = [line.split() for line in content.read_text(encoding="utf-8").splitlines()]
    if not rows or len(rows[0]) < 3 or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{content}: the lines are not all alike; delete {folder} and retry")
    node_of = {row[0]: node for node, row in enumerate(rows)}
    if len(node_of) != len(rows):
        raise ValueError(f"{content}: a paper is listed twice")
    classes = {label: number for number, label in enumerate(sorted({row[-1] for row in rows}))}
    try:
        half = to_half(np.array([list(map(int, row[1:-1])) for row in rows]), str(content))
        links = [
            (node_of[citing], node_of[cited])
            for cited, citing in map(str.split, cites.read_text(encoding="utf-8").splitlines())
        ]
    except KeyError as error:
        raise ValueError(f"{cites}: the paper {error} is not in {content.name}") from error
    except ValueError as error:
        raise ValueError(f"{folder}: a line cannot be read ({error})") from error
    edges = np.array(links, np.int64).reshape(-1, 2).T
    y = as_class_labels(np.array([classes[row[-1]] for row in rows]))
    return _Raw(edges, half.values, half.note(np.dtype(np.uint8)), y, None)
