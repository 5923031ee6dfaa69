"""Tables of rows, one row per node: features and labels as the core copies them.

May import: graph, labels, numpy, torch, the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from salient import _core
from salient.graph import as_array, as_plain_tensor, require_id_array


@dataclass(frozen=True)
class NodeTable:
    """Rows of any dtype, one per node, as bytes for the core and as a type for torch.

    Parameters
    ----------
    name : str
        What messages call it.
    rows : array of uint8, shape (num_nodes, row_bytes)
        A view of the user's memory.
    dtype : torch.dtype
    row_shape : tuple of int
        Shape of one row.
    """

    name: str
    rows: npt.NDArray[np.uint8]
    dtype: torch.dtype
    row_shape: tuple[int, ...]

    @classmethod
    def of(cls, values: Any, name: str, num_nodes: int | None = None) -> NodeTable:
        """Take a tensor or array (num_nodes, ...) as it lies; a memory map is not read.

        Raises
        ------
        TypeError
            Not a CPU tensor or array, or of a dtype that torch does not have.
        ValueError
            Not row-major contiguous, no dimension, or the number of rows is not ``num_nodes``.
        """
        if isinstance(values, Tensor):
            values = as_plain_tensor(values, name)
            shape, dtype = tuple(values.shape), values.dtype
            contiguous = values.is_contiguous()
        else:
            array = as_array(values, name)
            shape, contiguous = array.shape, bool(array.flags.c_contiguous)
            try:
                dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
            except (TypeError, ValueError) as error:  # the latter for foreign byte orders
                raise TypeError(f"{name}: torch has no dtype for {array.dtype}") from error
        if len(shape) == 0:
            raise ValueError(f"{name}: expected one row per node, got a single value")
        if num_nodes is not None and shape[0] != num_nodes:
            raise ValueError(
                f"{name}: has {shape[0]} rows, but the graph has {num_nodes} nodes; expected one "
                "row per node"
            )
        if not contiguous:
            raise ValueError(
                f"{name}: rows are not contiguous in memory; {name}.contiguous() or "
                "numpy.ascontiguousarray makes a copy that is"
            )
        return cls(name, _byte_rows(values), dtype, shape[1:])

    def view(self, slab: Tensor, section: tuple[int, int], num_rows: int) -> Tensor:
        """Return the rows copied to a piece of a slab, shape (num_rows, *row_shape)."""
        offset, size = section
        return slab[offset : offset + size].view(self.dtype).view(num_rows, *self.row_shape)


def _byte_rows(values: Any) -> npt.NDArray[np.uint8]:
    num_rows = values.shape[0]
    if 0 in values.shape:
        return np.empty((num_rows, 0), np.uint8)
    if isinstance(values, Tensor):
        # NumPy lacks bfloat16 and the 8-bit floats, and bytes are all that the core needs.
        values = values.detach().reshape(num_rows, -1).view(torch.uint8).numpy()
    rows: npt.NDArray[np.uint8] = values.reshape(num_rows, -1).view(np.uint8)
    return rows


def gather_rows(table: Any, ids: Any, out: Tensor | None = None) -> Tensor:
    """Return the rows ``table[ids]``, copied by one thread with software prefetch.

    Parameters
    ----------
    table : tensor or array, shape (num_rows, ...)
        Row-major, of any dtype; may be a memory map.
    ids : tensor or array of integers, shape (n,)
        In [0, num_rows); may repeat.
    out : Tensor, shape (n, ...), optional
        Where the rows go; contiguous and of the table's dtype.

    Raises
    ------
    TypeError, ValueError, IndexError
        As the message says; an id outside the table is named with its position.
    """
    source = NodeTable.of(table, "table")
    rows = require_id_array(ids, "ids")
    shape = (rows.shape[0], *source.row_shape)
    if out is None:
        out = torch.empty(shape, dtype=source.dtype)
    elif not isinstance(out, Tensor):
        raise TypeError(f"out: expected a tensor, got {type(out).__name__}")
    elif tuple(out.shape) != shape or out.dtype != source.dtype or not out.is_contiguous():
        raise ValueError(
            f"out: expected a contiguous {source.dtype} tensor of shape {shape}, got {out.dtype} "
            f"of shape {tuple(out.shape)}"
        )
    if rows.size:
        _core.gather(source.rows, rows, _byte_rows(out))
    return out
