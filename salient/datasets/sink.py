"""Where the arrays of a data set in the making go. May import: numpy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class ArraySink(Protocol):
    """Makes arrays for the parts of a data set, in memory or mapped from files."""

    def create(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new writable array, zero everywhere, in C order.

        Raises
        ------
        ValueError
            The name is taken.
        """
        ...

    def truncate(self, name: str, length: int) -> npt.NDArray[Any]:
        """Keep only the first ``length`` rows of an array; return it as it now is.

        Arrays returned for this name before must not be used any more.
        """
        ...

    def release(self, name: str) -> None:
        """Let what was written to an array leave this process's memory, if it has a file.

        The array stays as it is and usable; pages that are touched again come back.
        """
        ...


class MemorySink:
    """An :class:`ArraySink` in this process's memory.

    Attributes
    ----------
    arrays : dict of array
        By name.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def create(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array of zeros; see :class:`ArraySink`."""
        if name in self.arrays:
            raise ValueError(f"{name!r} was created before")
        self.arrays[name] = np.zeros(shape, dtype)
        return self.arrays[name]

    def truncate(self, name: str, length: int) -> npt.NDArray[Any]:
        """Keep the first rows only; see :class:`ArraySink`."""
        self.arrays[name] = self.arrays[name][:length]
        return self.arrays[name]

    def release(self, name: str) -> None:
        """Do nothing: there is no file; see :class:`ArraySink`."""
