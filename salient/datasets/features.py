"""Node features as dense float16 rows. May import: numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Rows converted at a time, so that the temporaries stay small beside the matrix.
_BLOCK_ROWS = 65_536


class HalfArray(NamedTuple):
    """Values in float16, and whether any of them had to be rounded."""

    values: npt.NDArray[np.float16]
    rounded: bool

    def note(self, original: np.dtype[Any]) -> str:
        """Return in words how the values were stored."""
        if self.rounded:
            return f"stored as float16, rounded from {original}"
        return "stored as float16 without rounding"


def to_half(values: npt.NDArray[Any], where: str, first_row: int = 0) -> HalfArray:
    """Return features as contiguous float16, and whether any value was rounded.

    Parameters
    ----------
    values : array of numbers or booleans, any shape
    where : str
        What the messages call it.
    first_row : int
        Number of its first row, where it is part of a larger array.

    Raises
    ------
    ValueError
        Values of another kind, or one that float16 cannot hold: NaN, infinite, or beyond 65,504;
        the message names the first.
    """
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{where}: expected numbers, got {values.dtype}")
    result = np.empty(values.shape, np.float16)
    rounded = False
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS]
        half = result[start : start + _BLOCK_ROWS]
        with np.errstate(over="ignore"):
            half[...] = block
        bad = ~np.isfinite(half)
        if bad.any():
            at = tuple(int(axis[0]) for axis in np.nonzero(bad))
            place = ", ".join(map(str, (at[0] + start + first_row, *at[1:])))
            raise ValueError(
                f"{where}[{place}] is {block[at]}, which float16 cannot hold (finite, up to "
                "65504): rescale or clean the features"
            )
        rounded = rounded or not np.array_equal(half, block)
    return HalfArray(result, rounded)


def densify_rows(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    data: npt.NDArray[np.float16],
    columns: tuple[int, int],
    where: str,
) -> npt.NDArray[np.float16]:
    """Return a range of columns of a matrix in CSR form as dense rows.

    Parameters
    ----------
    indptr : array of integers, shape (num_rows + 1,)
    indices : array of integers, shape (num_entries,)
        Column of each entry, ascending within a row; the caller has checked the upper bound.
    data : array of float16, shape (num_entries,)
    columns : (int, int)
        First column, and the one after the last.
    where : str
        What the messages call the matrix.

    Raises
    ------
    ValueError
        The three arrays do not form such a matrix, or it is too large.
    """
    offsets = indptr.astype(np.int64)
    column = indices.astype(np.int64)
    if column.shape != data.shape or column.ndim != 1:
        raise ValueError(
            f"{where}: the column indices have shape {column.shape}, the values {data.shape}; "
            "they must be one-dimensional and alike"
        )
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != column.size or (lengths < 0).any():
        raise ValueError(
            f"{where}: indptr must rise from 0 to the number of entries, {column.size}; it goes "
            f"from {offsets[0]} to {offsets[-1]}"
        )
    row = np.repeat(np.arange(lengths.size), lengths)
    repeats = np.flatnonzero((np.diff(column) <= 0) & (row[1:] == row[:-1]))
    if repeats.size:
        raise ValueError(
            f"{where}: the columns of row {row[repeats[0]]} do not ascend, or one is there twice; "
            "sort the indices and add up duplicates"
        )
    first, last = columns
    kept = (column >= first) & (column < last)
    try:
        dense = np.zeros((lengths.size, last - first), np.float16)
    except (MemoryError, ValueError) as error:
        raise ValueError(
            f"{where}: {lengths.size:,} rows of {last - first:,} float16 values do not fit into "
            "memory; select fewer columns"
        ) from error
    dense[row[kept], column[kept] - first] = data[kept]
    return dense
