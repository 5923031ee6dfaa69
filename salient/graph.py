"""The graph: compressed sparse columns over in-edges. May import: numpy, torch, the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salient import _core

ArrayLike = torch.Tensor | npt.NDArray[Any]


def as_plain_tensor(values: torch.Tensor, name: str) -> torch.Tensor:
    """Return a tensor that is plain memory of this process, apart from any gradient.

    Raises
    ------
    TypeError
        It lies on another device, is sparse or quantised, or is a view that conjugates or negates.
    """
    if values.device.type != "cpu":
        raise TypeError(f"{name}: expected a CPU tensor, got one on {values.device}")
    if values.layout != torch.strided or values.is_quantized:
        kind = "quantised" if values.is_quantized else f"of layout {values.layout}"
        raise TypeError(f"{name}: expected a dense tensor, got one {kind}")
    if values.is_conj() or values.is_neg():
        raise TypeError(f"{name}: is a lazy view; resolve_conj() and resolve_neg() make a copy")
    return values.detach()


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return a torch CPU tensor or NumPy array as a NumPy array, without a copy.

    Raises
    ------
    TypeError
        ``values`` is neither, or a tensor that NumPy cannot view.
    """
    if isinstance(values, torch.Tensor):
        tensor = as_plain_tensor(values, name)
        try:
            return tensor.numpy()
        except (TypeError, RuntimeError) as error:  # bfloat16, for one
            raise TypeError(f"{name}: NumPy cannot view a tensor of {tensor.dtype}") from error
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"{name}: expected a torch tensor or NumPy array, got {type(values).__name__}"
        )
    return values


def _require_integers(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if values.dtype.kind not in "iu" or values.dtype == np.uint64:
        raise TypeError(f"{name}: expected integers, got {values.dtype}")
    return values


class Graph:
    """A directed graph in CSC form: the in-edges of each node, side by side.

    The arrays are used where they lie, also where they are mapped from a file; nothing is copied
    or widened. They must not change while the graph is in use.

    Parameters
    ----------
    indptr : array of int64, shape (num_nodes + 1,)
        The in-edges of node ``v`` are at positions ``indptr[v]`` to ``indptr[v + 1]``.
    indices : array of int32 or int64, shape (num_edges,)
        Source node of each edge.
    edge_ids : array of int64, shape (num_edges,), optional
        Position of each edge in the user's own edge list; by default its position in ``indices``.
    validate : bool
        Check that the arrays form a graph, which reads them once. Switch off only for arrays that
        were checked before: a wrong one makes the process read foreign memory.

    Raises
    ------
    TypeError, ValueError
        The arrays do not form a graph; the message says what is wrong and where.
    """

    def __init__(
        self,
        indptr: ArrayLike,
        indices: ArrayLike,
        edge_ids: ArrayLike | None = None,
        *,
        validate: bool = True,
    ) -> None:
        self.indptr = as_array(indptr, "indptr")
        self.indices = as_array(indices, "indices")
        self.edge_ids = None if edge_ids is None else as_array(edge_ids, "edge_ids")
        self._core = _core.Graph(self.indptr, self.indices, self.edge_ids, validate)

    @classmethod
    def from_edge_index(cls, edge_index: ArrayLike, num_nodes: int | None = None) -> Graph:
        """Build a graph from a list of edges, kept as they are: parallel edges, self-loops and all.

        Parameters
        ----------
        edge_index : tensor or array of integers, shape (2, num_edges)
            Source over target: edge ``i`` is ``edge_index[0, i] -> edge_index[1, i]``.
        num_nodes : int, optional
            By default the highest id plus one.

        Raises
        ------
        TypeError
            Ids are not integers.
        ValueError
            Not of shape (2, num_edges), or ``num_nodes`` is negative.
        IndexError
            An edge has an end outside [0, num_nodes); the message names the first such edge.
        """
        edges = _require_integers(as_array(edge_index, "edge_index"), "edge_index")
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise ValueError(f"edge_index: expected shape (2, num_edges), got {edges.shape}")
        if num_nodes is None:
            num_nodes = max(int(edges.max()) + 1, 0) if edges.shape[1] else 0
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
            raise TypeError(f"num_nodes: expected an int, got {num_nodes!r}")
        if num_nodes < 0:
            raise ValueError(f"num_nodes: is {num_nodes}, expected at least 0")
        dtype = np.int32 if edges.dtype == np.int32 else np.int64
        source: npt.NDArray[Any] = np.ascontiguousarray(edges[0], dtype=dtype)
        target: npt.NDArray[Any] = np.ascontiguousarray(edges[1], dtype=dtype)
        # In a list sorted by target, as many files have it, each edge already stands at its place.
        in_order = bool(np.all(target[1:] >= target[:-1]))
        indptr, indices, edge_ids = _core.coo_to_csc(
            source, target, int(num_nodes), edge_ids=not in_order
        )
        return cls(indptr, indices, edge_ids, validate=False)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.indptr.shape[0]) - 1

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return int(self.indices.shape[0])

    @property
    def edge_index(self) -> torch.Tensor:
        """Edges as int64, shape (2, num_edges), source over target, grouped by target."""
        target = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        return torch.from_numpy(np.stack([self.indices.astype(np.int64), target]))

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def require_id_array(ids: Any, name: str) -> npt.NDArray[np.int64]:
    """Return integer ids as a contiguous int64 array; their values are not looked at.

    Parameters
    ----------
    ids : tensor, array or sequence of integers, shape (n,)
    name : str
        What the messages call it.

    Raises
    ------
    TypeError
        Not integers.
    ValueError
        Not one-dimensional.
    """
    if isinstance(ids, (torch.Tensor, np.ndarray)):
        array = as_array(ids, name)
    else:
        array = np.asarray(ids)
        if array.size == 0:
            array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got shape {array.shape}")
    return np.ascontiguousarray(_require_integers(array, name), dtype=np.int64)


def require_node_ids(nodes: Any, num_nodes: int, name: str) -> npt.NDArray[np.int64]:
    """Return ids or a boolean mask of nodes as an array of valid, unique ids.

    Parameters
    ----------
    nodes : tensor, array or sequence
        Integer ids, shape (n,), or a boolean mask, shape (num_nodes,).
    num_nodes : int
        Ids must lie in [0, num_nodes).
    name : str
        What the messages call it.

    Raises
    ------
    TypeError
        Neither integers nor booleans.
    ValueError
        Not one-dimensional, a mask of another length, or a repeated id.
    IndexError
        An id outside the graph; the message names it and its position.
    """
    is_array = isinstance(nodes, (torch.Tensor, np.ndarray))
    mask = as_array(nodes, name) if is_array else np.asarray(nodes)
    if mask.dtype == np.bool_:
        if mask.shape != (num_nodes,):
            raise ValueError(
                f"{name}: the mask has shape {mask.shape}, but the graph has {num_nodes} nodes"
            )
        return np.flatnonzero(mask)
    ids = require_id_array(nodes, name)
    outside = np.flatnonzero((ids < 0) | (ids >= num_nodes))
    if outside.size:
        at = int(outside[0])
        raise IndexError(f"{name}[{at}] is {ids[at]}, outside [0, {num_nodes})")
    _refuse_repeats(ids, num_nodes, name)
    return ids


def _refuse_repeats(ids: npt.NDArray[np.int64], num_nodes: int, name: str) -> None:
    counts = np.bincount(ids, minlength=1) if ids.size * 16 > num_nodes else None
    if counts is not None:
        repeated = np.flatnonzero(counts > 1)
    else:
        values, number = np.unique(ids, return_counts=True)
        repeated = values[number > 1]
    if repeated.size == 0:
        return
    positions = np.flatnonzero(ids == repeated[0])
    hint = (
        "; a mask of 0 and 1 must be of dtype bool"
        if ids.size == num_nodes and ids.max() <= 1
        else ""
    )
    raise ValueError(
        f"{name}: node {repeated[0]} is repeated, at positions {positions[0]} and "
        f"{positions[1]}; ids must be unique{hint}"
    )
