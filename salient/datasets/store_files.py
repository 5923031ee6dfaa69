"""The ``.npy`` files of a store: made, mapped, hashed. May import: numpy."""

from __future__ import annotations

import errno
import hashlib
import math
import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Large enough for the disk's full speed, small beside any array.
_BLOCK_BYTES = 16 << 20
# Python names the flag from 3.11 on; elsewhere than on Linux, nothing needs it.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if os.uname().sysname == "Linux" else 0)


class NpyHeader(NamedTuple):
    """What an ``.npy`` file says about itself, and where its data start."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @property
    def file_bytes(self) -> int:
        """Size that the file must have."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def create_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a new array of zeros, mapped from a new file, whose room on the disk is reserved.

    Raises
    ------
    OSError
        The disk has no room for it; the message says how much is needed.
    """
    with path.open("xb") as stream:
        header = _write_header(stream, shape, np.dtype(dtype).newbyteorder("<"))
        try:
            _reserve(stream.fileno(), header.file_bytes)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                error.strerror = f"no room for {header.file_bytes:,} bytes; free some, or prepare "
                error.strerror += "the data set on a larger disk"
                error.filename = str(path)
            raise
    return _map_shared(path)


def shorten_npy(path: Path, length: int) -> npt.NDArray[Any]:
    """Keep only the first ``length`` rows of a file of :func:`create_npy`; return them, mapped."""
    header = read_npy_header(path)
    if not 0 <= length <= header.shape[0]:
        raise ValueError(f"{path.name}: cannot keep {length} of {header.shape[0]} rows")
    with path.open("r+b") as stream:
        # Headers of one dtype and number of dimensions are padded alike, so the data stay put.
        shorter = _write_header(stream, (length, *header.shape[1:]), header.dtype)
        if shorter.offset != header.offset:
            raise RuntimeError(f"{path}: the header changed its size")
        stream.truncate(shorter.file_bytes)
    return _map_shared(path)


def release_pages(array: npt.NDArray[Any]) -> None:
    """Take the pages of an array of this module out of this process's memory.

    What was written stays in the file's cache, from where the system writes it to the disk. Does
    nothing where the system has no such call.

    Raises
    ------
    TypeError
        The array is not the whole of a map of :func:`create_npy` or :func:`shorten_npy`: of a
        private map, this would undo what was written.
    """
    if not (isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)):
        raise TypeError(f"expected an array mapped for writing, got a {type(array).__name__}")
    if hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)


def read_npy_header(path: Path) -> NpyHeader:
    """Return the header of a file in C order.

    Raises
    ------
    ValueError
        It is damaged, or none that :func:`create_npy` writes.
    """
    with path.open("rb") as stream:
        try:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError("another .npy version than 1.0")
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
        except Exception as error:  # NumPy parses it as Python source, so about anything comes.
            raise ValueError(f"{path}: damaged header ({error})") from error
        if fortran_order or dtype.hasobject or min(shape, default=0) < 0:
            raise ValueError(f"{path}: not an array of numbers in C order")
        return NpyHeader(shape, dtype, stream.tell())


def map_private(path: Path) -> npt.NDArray[Any]:
    """Return the array of a file as a copy-on-write map: writable, without touching the file."""
    header = read_npy_header(path)
    with path.open("rb") as stream:
        # Not np.memmap's mode "c": for that, Linux sets memory aside for a copy of every page, and
        # refuses files larger than the machine's memory.
        memory = mmap.mmap(
            stream.fileno(),
            header.file_bytes,
            flags=mmap.MAP_PRIVATE | _NO_RESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    return np.ndarray(header.shape, header.dtype, buffer=memory, offset=header.offset)


def hash_npy(path: Path, data_digest: Any) -> str:
    """Return the SHA-256 of a file, and add the array's data alone to another digest.

    Reads block by block instead of through a map, so that hardly any memory is resident.
    """
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK_BYTES))
    with path.open("rb") as stream:
        head = stream.read(read_npy_header(path).offset)
        digest.update(head)
        while count := stream.readinto(block):
            digest.update(block[:count])
            data_digest.update(block[:count])
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_header(stream: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NpyHeader:
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return NpyHeader(shape, dtype, stream.tell())


def _reserve(descriptor: int, size: int) -> None:
    # A hole in the file would end the process by SIGBUS when the disk is full.
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _map_shared(path: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(path, mmap_mode="r+", allow_pickle=False)
    return array
