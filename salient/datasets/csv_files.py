"""Gzipped tables of numbers, read in bounded memory. May import: numpy."""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK_BYTES = 4 << 20


def read_blocks(path: Path, columns: int | None, dtype: npt.DTypeLike) -> Iterator[Any]:
    """Read a ``.csv.gz`` file without header, a few MiB of text at a time.

    Parameters
    ----------
    path : Path
    columns : int, optional
        How many each row must have; by default as many as the first one.
    dtype : dtype
        Of integers or floats. An empty field is no number.

    Yields
    ------
    array of ``dtype``, shape (rows, columns)
        The rows of the file, in order.

    Raises
    ------
    FileNotFoundError
        No such file.
    ValueError
        Truncated, damaged, or not such a table; the message names the path and the row, from 0.
    """
    rows = 0
    for text in _whole_lines(path):
        # loadtxt passes over empty lines, which would shift all later rows against their nodes.
        if "\n\n" in text or text.startswith("\n"):
            raise ValueError(f"{path}: an empty line after row {rows} or later; {_ANEW}")
        try:
            with warnings.catch_warnings():
                # Fractions read as integers are an error here, as they will be in NumPy.
                warnings.simplefilter("error")
                block = np.loadtxt(text.splitlines(), dtype, delimiter=",", comments=None, ndmin=2)
        except (ValueError, Warning) as error:
            raise ValueError(f"{path}: counted from row {rows}: {error}; {_ANEW}") from error
        columns = block.shape[1] if columns is None else columns
        if block.shape[1] != columns:
            raise ValueError(
                f"{path}: row {rows} has {block.shape[1]} columns, expected {columns}; {_ANEW}"
            )
        rows += len(block)
        yield block


def read_counts(path: Path) -> npt.NDArray[np.int64]:
    """Return a column of integers, int64, shape (rows,); see :func:`read_blocks`."""
    blocks = [block[:, 0] for block in read_blocks(path, 1, np.int64)]
    return np.concatenate([np.empty(0, np.int64), *blocks])


_ANEW = "delete the data set's folder and fetch it anew"


def _whole_lines(path: Path) -> Iterator[str]:
    rest = b""
    try:
        if path.stat().st_size == 0:
            raise EOFError("0 bytes")  # gzip takes that for an empty table
        with gzip.open(path, "rb") as stream:
            while data := stream.read(_BLOCK_BYTES):
                lines, newline, tail = data.rpartition(b"\n")
                if newline:
                    yield (rest + lines + newline).replace(b"\r\n", b"\n").decode("ascii")
                    rest = tail
                else:
                    rest += tail
                    if len(rest) > 4 * _BLOCK_BYTES:
                        raise ValueError(f"{path}: a line of more than 16 MiB; {_ANEW}")
        if rest:
            yield rest.decode("ascii")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; {_ANEW}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: truncated or damaged ({error}); {_ANEW}") from error
