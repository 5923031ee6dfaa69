"""Edge lists: checking, symmetrising. May import: numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def require_edges(edge_index: npt.NDArray[Any], num_nodes: int, where: str) -> None:
    """Check that an array is a list of edges between existing nodes.

    Raises
    ------
    ValueError
        Not integers of shape (2, num_edges), or an end outside [0, num_nodes).
    """
    if edge_index.dtype.kind not in "iu" or edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            f"{where}: expected integers of shape (2, num_edges), got {edge_index.dtype} of shape "
            f"{edge_index.shape}"
        )
    outside = (edge_index < 0) | (edge_index >= num_nodes)
    if outside.any():
        at = int(np.flatnonzero(outside.any(axis=0))[0])
        source, target = edge_index[:, at].tolist()
        raise ValueError(
            f"{where}: edge {at}, {source} -> {target}, has an end outside [0, {num_nodes})"
        )


def symmetrise(edge_index: npt.NDArray[Any], num_nodes: int) -> npt.NDArray[Any]:
    """Return the edges with every reversed edge added and duplicates dropped.

    A self-loop is its own reverse and stays, once.

    Parameters
    ----------
    edge_index : array of integers, shape (2, num_edges)
        Ids in [0, num_nodes).
    num_nodes : int

    Returns
    -------
    array of int32, or of int64 from 2**31 nodes, shape (2, num_result)
        Sorted by target, then source.
    """
    source, target = edge_index.astype(np.int64)
    keys = np.concatenate([target * num_nodes + source, source * num_nodes + target])
    keys.sort()
    keys = keys[np.append(True, keys[1:] != keys[:-1])[: keys.size]]
    width = np.int32 if num_nodes < 2**31 else np.int64
    both = np.empty((2, keys.size), width)
    both[0] = keys % max(num_nodes, 1)
    both[1] = keys // max(num_nodes, 1)
    return both


def count_self_loops(edge_index: npt.NDArray[Any]) -> int:
    """Return the number of edges from a node to itself."""
    return int(np.count_nonzero(edge_index[0] == edge_index[1]))
