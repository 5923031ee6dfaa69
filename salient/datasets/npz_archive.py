"""A reader of ``.npz`` files that trusts nothing in them. May import: numpy."""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

# No DEFLATE stream expands further (zlib's documentation gives 1032:1), so that an entry
# which claims to was forged. The slack covers the constant part of very small streams.
_LARGEST_EXPANSION = 1032
_EXPANSION_SLACK = 4096

_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

# What zipfile, zlib and NumPy's header parser raise for damaged input.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
)


class ArrayHeader(NamedTuple):
    """Shape and dtype of a stored array."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def num_bytes(self) -> int:
        """Size of the array's data."""
        return math.prod(self.shape) * self.dtype.itemsize


class NpzArchive:
    """An open ``.npz`` file. Headers are checked before memory is taken; pickles are refused.

    Parameters
    ----------
    path : Path

    Raises
    ------
    OSError
        The file cannot be opened.
    ValueError
        It is no zip file, or a truncated one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ValueError(
                f"{path}: not an .npz file, or a truncated one ({error}); fetch or write it anew"
            ) from error
        self._size = path.stat().st_size
        self._entries = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __enter__(self) -> NpzArchive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def header(self, key: str) -> ArrayHeader:
        """Return shape and dtype of an array, without reading it.

        Raises
        ------
        ValueError
            No such key, an array of objects, or sizes that contradict each other.
        """
        try:
            with self._open(key) as stream:
                return self._read_header(key, stream)
        except DAMAGE as error:
            raise self._complaint(key, error) from error

    def read(self, key: str) -> npt.NDArray[Any]:
        """Return an array, C-contiguous, its checksum verified.

        Raises
        ------
        ValueError
            As for :meth:`header`, or the data are damaged.
        """
        try:
            with self._open(key) as stream:
                header = self._read_header(key, stream)
                flat = np.empty(header.num_bytes, np.uint8)
                filled = 0
                while filled < flat.size:
                    count = stream.readinto(flat[filled : filled + (1 << 24)])  # type: ignore[attr-defined]
                    if not count:
                        raise EOFError(f"ends after {filled:,} of {flat.size:,} bytes")
                    filled += count
                stream.read(1)  # Only at the end does zipfile compare the CRC.
        except DAMAGE as error:
            raise self._complaint(key, error) from error
        values = flat.view(header.dtype)
        if header.fortran_order:
            return np.ascontiguousarray(values.reshape(header.shape[::-1]).T)
        return values.reshape(header.shape)

    def open_data(self, key: str) -> IO[bytes]:
        """Open an array for reading its data piece by piece; damage raises one of ``DAMAGE``."""
        stream = self._open(key)
        self._read_header(key, stream)
        return stream

    def _open(self, key: str) -> IO[bytes]:
        if key not in self._entries:
            raise ValueError(f"is missing; the file has {', '.join(self._entries) or 'no arrays'}")
        info = self._entries[key]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("is compressed in a way that NumPy does not write")
        packed = min(info.compress_size, self._size)
        if info.file_size > packed * _LARGEST_EXPANSION + _EXPANSION_SLACK:
            raise ValueError(
                f"claims {info.file_size:,} bytes out of {packed:,} compressed ones, which is "
                "impossible"
            )
        return self._zip.open(info)

    def _read_header(self, key: str, stream: IO[bytes]) -> ArrayHeader:
        version = np.lib.format.read_magic(stream)
        if version not in _READ_HEADER:
            raise ValueError(f"has the unknown .npy format version {version}")
        header = ArrayHeader(*_READ_HEADER[version](stream))
        if header.dtype.hasobject:
            raise ValueError("holds pickled objects, which are never loaded")
        stored = self._entries[key].file_size - stream.tell()
        if min(header.shape, default=0) < 0 or header.num_bytes != stored:
            raise ValueError(
                f"has a header for shape {header.shape} of {header.dtype}, "
                f"{header.num_bytes:,} bytes, but the entry holds {stored:,}"
            )
        return header

    def _complaint(self, key: str, error: Exception) -> ValueError:
        return ValueError(f"{self.path}: {key!r} {error}; fetch or write the file anew")
