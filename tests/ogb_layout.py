"""Writes raw folders in the exact layout of OGB's node data sets."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from salient.datasets.ogb_files import OGB_SETS


@dataclass
class RawGraph:
    """What goes into the files: edges (2, E) as listed, x (N, F), y (N,) with -1, ids by part."""

    edges: npt.NDArray[Any]
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    split: dict[str, npt.NDArray[Any]]


def make_graph(num_nodes: int = 60, num_edges: int = 300, seed: int = 0) -> RawGraph:
    """A random graph with self-loops, parallel and mutual edges, and a third without label."""
    random = np.random.default_rng(seed)
    edges = random.integers(0, num_nodes, (2, num_edges))
    edges[:, 0] = 3
    edges[:, 2] = edges[:, 1]
    edges[:, 4] = edges[::-1, 3]
    y = random.integers(0, 40, num_nodes)
    y[::3] = -1
    labelled = random.permutation(np.flatnonzero(y >= 0))
    parts = np.split(labelled, [len(labelled) // 2, len(labelled) * 3 // 4])
    x = random.normal(size=(num_nodes, 5)).astype(np.float32)
    return RawGraph(edges, x, y, dict(zip(("train", "valid", "test"), parts, strict=True)))


def write_table(path: Path, rows: npt.NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="ascii", compresslevel=1) as file:
        file.writelines(",".join(map(repr, row)) + "\n" for row in np.atleast_2d(rows).tolist())


def write_raw(
    name: str, folder: Path, graph: RawGraph, *, compressed: bool = False, half: bool = False
) -> Path:
    """Write the folder of a data set; papers100M's members stored or compressed, x as asked."""
    about = OGB_SETS[name]
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (folder / "RELEASE_v1.txt").touch()
    num_nodes, num_edges = len(graph.y), graph.edges.shape[1]
    year = np.full((num_nodes, 1), 2015)
    if about.binary:
        labels = np.where(graph.y < 0, np.nan, graph.y).astype(np.float32)[:, None]
        save = np.savez_compressed if compressed else np.savez
        save(
            raw / "data.npz",
            edge_index=graph.edges.astype(np.int64),
            node_feat=graph.x.astype(np.float16 if half else np.float32),
            node_year=year,
            num_nodes_list=np.array([num_nodes]),
            num_edges_list=np.array([num_edges]),
        )
        save(raw / "node-label.npz", node_label=labels)
    else:
        write_table(raw / "edge.csv.gz", graph.edges.T)
        write_table(raw / "node-feat.csv.gz", graph.x)
        write_table(raw / "node-label.csv.gz", np.where(graph.y < 0, np.nan, graph.y)[:, None])
        write_table(raw / "node_year.csv.gz", year)
        write_table(raw / "num-node-list.csv.gz", np.array([[num_nodes]]))
        write_table(raw / "num-edge-list.csv.gz", np.array([[num_edges]]))
    for part, ids in graph.split.items():
        write_table(folder / "split" / about.split / f"{part}.csv.gz", ids[:, None])
    return folder


def zip_folder(name: str, folder: Path, archive: Path) -> Path:
    """Pack a folder as OGB's archive of the data set does."""
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                file.write(path, Path(OGB_SETS[name].folder) / path.relative_to(folder))
    return archive
