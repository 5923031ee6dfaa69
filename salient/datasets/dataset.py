"""The data set that every stage works on, and its checksum. May import: graph, numpy, torch."""

from __future__ import annotations

import hashlib
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from salient.datasets.splits import SPLIT_NAMES
from salient.graph import Graph


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph with features, labels and a split, for node classification.

    Parameters
    ----------
    name : str
        Names the variant too, such as selected feature columns or a random split.
    graph : Graph
    x : Tensor of float16, shape (num_nodes, num_features)
        Row-major.
    y : Tensor of int64, shape (num_nodes,)
        -1 marks unlabelled nodes.
    split_idx : dict of Tensor
        Node ids under "train", "valid" and "test": int64, ascending, labelled, in one part only.
    num_classes : int
    description : dict
        Origin, licence, sizes, split and checksum; see :func:`describe`. Can be written as JSON.
    original_ids : Tensor of int64, shape (num_nodes,), optional
        Where the nodes were reordered: the id that each had before.
    validate : bool
        Look at the values of labels and splits too, which reads them once. Switch off only for
        arrays that were checked before, as those of a store were.

    Raises
    ------
    ValueError
        The parts do not fit together; the message says which and where.
    """

    name: str
    graph: Graph
    x: Tensor
    y: Tensor
    split_idx: dict[str, Tensor]
    num_classes: int
    description: dict[str, Any]
    original_ids: Tensor | None = None
    validate: InitVar[bool] = True

    def __post_init__(self, validate: bool) -> None:
        num_nodes = self.num_nodes
        if (
            self.x.dtype != torch.float16
            or self.x.ndim != 2
            or len(self.x) != num_nodes
            or not self.x.is_contiguous()
        ):
            raise ValueError(
                f"{self.name}: x must be row-major float16 of shape ({num_nodes}, num_features), "
                f"is {self.x.dtype} of shape {tuple(self.x.shape)}, strides {self.x.stride()}"
            )
        if self.y.dtype != torch.int64 or self.y.shape != (num_nodes,):
            raise ValueError(
                f"{self.name}: y must be int64 of shape ({num_nodes},), is {self.y.dtype} of "
                f"shape {tuple(self.y.shape)}"
            )
        ids = self.original_ids
        if ids is not None and (ids.dtype != torch.int64 or ids.shape != (num_nodes,)):
            raise ValueError(
                f"{self.name}: original_ids must be int64 of shape ({num_nodes},), is {ids.dtype} "
                f"of shape {tuple(ids.shape)}"
            )
        if validate:
            self._check_labels()
            self._check_splits()
            self._check_original_ids()

    def _check_labels(self) -> None:
        wrong = torch.nonzero((self.y < -1) | (self.y >= self.num_classes))
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"{self.name}: y[{at}] is {int(self.y[at])}, outside [-1, {self.num_classes})"
            )

    def _check_splits(self) -> None:
        if tuple(self.split_idx) != SPLIT_NAMES:
            raise ValueError(
                f"{self.name}: split_idx must have the keys {SPLIT_NAMES}, has "
                f"{tuple(self.split_idx)}"
            )
        taken = torch.zeros(self.num_nodes, dtype=torch.bool)
        for part, ids in self.split_idx.items():
            where = f"{self.name}: split_idx[{part!r}]"
            if ids.dtype != torch.int64 or ids.ndim != 1 or not bool((ids[1:] > ids[:-1]).all()):
                raise ValueError(f"{where} must be int64, one-dimensional and ascending")
            if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) >= self.num_nodes):
                raise ValueError(f"{where} has ids outside [0, {self.num_nodes})")
            unlabelled = ids[self.y[ids] < 0]
            if len(unlabelled):
                raise ValueError(f"{where}: node {int(unlabelled[0])} has no label")
            repeated = ids[taken[ids]]
            if len(repeated):
                raise ValueError(f"{where}: node {int(repeated[0])} is in another part too")
            taken[ids] = True

    def _check_original_ids(self) -> None:
        ids = self.original_ids
        if ids is None:
            return
        taken = torch.zeros(self.num_nodes, dtype=torch.bool)
        inside = (ids >= 0) & (ids < self.num_nodes)
        taken[ids[inside]] = True
        if not bool(taken.all()):
            raise ValueError(f"{self.name}: original_ids must hold each node once")

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """Number of features of a node."""
        return self.x.shape[1]


def describe(
    graph: Graph,
    x: Tensor,
    y: Tensor,
    split_idx: dict[str, Tensor],
    num_classes: int,
    *,
    source: str,
    licence: str,
    edges: str,
    symmetrised: bool,
    self_loops: int,
    features: str,
    split: str,
    seed: int | None,
) -> dict[str, Any]:
    """Return the description of a data set: what it is, its sizes and its checksum.

    Parameters
    ----------
    graph, x, y, split_idx, num_classes
        As in :class:`Dataset`.
    source, licence, edges, features, split : str
        In words: origin, licence, what was done to the edges and the features, kind of split.
    symmetrised : bool
        Reversed edges were added to those of the source.
    self_loops : int
        Self-loops in ``graph``.
    seed : int, optional
        The seed, where anything depended on one.
    """
    return {
        "source": source,
        "licence": licence,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": x.shape[1],
        "num_classes": num_classes,
        "edges": edges,
        "symmetrised": symmetrised,
        "self_loops": self_loops,
        "features": features,
        "split": split,
        "split_sizes": {part: len(ids) for part, ids in split_idx.items()},
        "seed": seed,
        "sha256": checksum(graph, x, y, split_idx),
    }


def checksum(graph: Graph, x: Tensor, y: Tensor, split_idx: dict[str, Tensor]) -> str:
    """Return the SHA-256 of all arrays of a data set, with their names, dtypes and shapes.

    Arrays count in little-endian byte order, so that every machine gets the same sum.
    """
    digest = hashlib.sha256()
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "x": x.numpy(), "y": y.numpy()}
    arrays |= {part: ids.numpy() for part, ids in split_idx.items()}
    for name, array in arrays.items():
        portable = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(checksum_heading(name, portable.dtype, portable.shape))
        # A view as bytes, since hashlib takes no empty or float16 buffers of several dimensions.
        digest.update(portable.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def checksum_heading(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what precedes the bytes of an array, in little-endian order, in :func:`checksum`."""
    return f"{name} {dtype.str} {shape};".encode()
