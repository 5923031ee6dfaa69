"""Arrays in ``.npz`` files, read row by row in bounded memory. May import: npz_archive, numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from salient.datasets.npz_archive import DAMAGE, ArrayHeader, NpzArchive

_BLOCK_BYTES = 16 << 20


def open_archive(path: Path) -> NpzArchive:
    """Open an ``.npz`` file.

    Raises
    ------
    FileNotFoundError
        No such file.
    ValueError
        It is no such file, or truncated.
    """
    try:
        return NpzArchive(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} is missing; delete the data set's folder and fetch it anew"
        ) from error


def read_blocks(archive: NpzArchive, key: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Read the elements of an array in the order in which they lie, whether compressed or not.

    Parameters
    ----------
    archive : NpzArchive
    key : str
        An array of at least one dimension in C order.

    Yields
    ------
    int
        The position of the block's first element (one dimension) or first row (more).
    array, shape (rows, *shape[1:])
        The block.

    Raises
    ------
    ValueError
        Missing, in Fortran order, truncated or damaged; the message names path and key. Damage
        may show only after the last block, where the checksum is compared.
    """
    header = archive.header(key)
    per_row = int(np.prod(header.shape[1:], dtype=np.int64))
    rows = max(_BLOCK_BYTES // max(per_row * header.dtype.itemsize, 1), 1)
    for first, flat in _pieces(archive, key, header, rows * per_row):
        yield first // max(per_row, 1), flat.reshape(-1, *header.shape[1:])


def read_flat(archive: NpzArchive, key: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Read an array as one flat sequence: pairs of first position and values.

    Raises
    ------
    ValueError
        As for :func:`read_blocks`.
    """
    header = archive.header(key)
    yield from _pieces(archive, key, header, _BLOCK_BYTES // header.dtype.itemsize)


def _pieces(
    archive: NpzArchive, key: str, header: ArrayHeader, length: int
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    if header.fortran_order and len(header.shape) > 1 and min(header.shape) > 1:
        raise ValueError(f"{archive.path}: {key!r} is in Fortran order, which OGB does not write")
    total = header.num_bytes // max(header.dtype.itemsize, 1)
    first = 0
    try:
        with archive.open_data(key) as stream:
            while first < total:
                count = min(length, total - first)
                data = stream.read(count * header.dtype.itemsize)
                if len(data) < count * header.dtype.itemsize:
                    raise EOFError(f"ends before element {first + count:,} of {total:,}")
                yield first, np.frombuffer(data, header.dtype)
                first += count
            stream.read(1)  # Only at the end does zipfile compare the CRC.
    except DAMAGE as error:
        raise ValueError(
            f"{archive.path}: {key!r} {error}; delete the data set's folder and fetch it anew"
        ) from error
