"""Reading Python 2 pickles of arrays, matrices and lists without running any of their code.

May import: numpy. The raw Planetoid files are such pickles. Their instructions are looked through
first, and only those that such files need pass. The globals they name are replaced by holders that
keep what the file says; nothing of NumPy or SciPy is called, and any other global is refused.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_DTYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"})

# The instructions of the raw files, and those by which newer pickles name a global, so that the
# complaint about one can name it.
_INSTRUCTIONS = frozenset(
    [
        "APPEND",
        "APPENDS",
        "BINGET",
        "BININT",
        "BININT1",
        "BININT2",
        "BINPUT",
        "BINSTRING",
        "BUILD",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "GLOBAL",
        "LONG_BINPUT",
        "MARK",
        "NEWFALSE",
        "NEWOBJ",
        "NEWTRUE",
        "NONE",
        "PROTO",
        "REDUCE",
        "SETITEMS",
        "SHORT_BINSTRING",
        "STOP",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "BINUNICODE",
        "FRAME",
        "MEMOIZE",
        "SHORT_BINUNICODE",
        "STACK_GLOBAL",
    ]
)

# What a damaged pickle makes the machine that reads it raise, by the pickle documentation and
# by trial.
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


class CsrMatrix(NamedTuple):
    """A sparse matrix in CSR form."""

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]
    shape: tuple[int, int]


class _Holder:
    """Stands for an object of the file: what it was made with, and its state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_Holder):
    pass


class _Dtype(_Holder):
    pass


class _Matrix(_Holder):
    pass


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "numpy.ndarray",
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
}


class _RefusedGlobalError(Exception):
    pass


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        return _resolve(module_name, global_name)


def _resolve(module_name: str, global_name: str) -> Any:
    try:
        return _ALLOWED[module_name, global_name]
    except KeyError:
        raise _RefusedGlobalError(f"{module_name}.{global_name}") from None


def read_legacy_pickle(path: Path) -> Any:
    """Return the array, CSR matrix or dict of lists that a Python 2 pickle holds.

    Returns
    -------
    ndarray, CsrMatrix or dict

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The pickle names a global outside the allow-list (the message says which), is damaged, or
        holds something else.
    """
    data = path.read_bytes()
    try:
        _check_instructions(data)
        value = _Unpickler(io.BytesIO(data), encoding="latin1").load()
        if isinstance(value, _Array):
            return _to_array(value)
        if isinstance(value, _Matrix):
            return _to_matrix(value)
        if isinstance(value, dict):
            return dict(value)
    except _RefusedGlobalError as error:
        raise ValueError(
            f"{path}: refused, since it asks for {error}, which no data file needs; do not "
            "trust where it came from"
        ) from None
    except _DAMAGE as error:
        raise ValueError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    raise ValueError(f"{path}: holds neither an array nor a CSR matrix nor a dict")


def _check_instructions(data: bytes) -> None:
    for instruction, argument, place in pickletools.genops(data):
        if instruction.name in ("GLOBAL", "INST"):
            module_name, _, global_name = str(argument).partition(" ")
            _resolve(module_name, global_name)
        if instruction.name not in _INSTRUCTIONS:
            raise ValueError(f"has the instruction {instruction.name} at byte {place}")
        # The unpickler takes memory for all numbers up to the one under which an object is kept.
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > len(data):
            raise ValueError(f"numbers an object {argument} at byte {place}")


def _to_array(holder: Any) -> npt.NDArray[Any]:
    if not isinstance(holder, _Array) or not isinstance(holder.state, tuple):
        raise ValueError("expected an array")
    _, shape, dtype, fortran_order, raw = holder.state
    if not isinstance(dtype, _Dtype) or dtype.arguments[0] not in _DTYPES:
        raise ValueError("expected an array of plain numbers")
    order = dtype.state[1]
    if order not in ("<", ">", "|"):
        raise ValueError(f"unknown byte order {order!r}")
    # Python 2 kept the bytes in a str, which the latin1 decoding carried over one to one.
    data = raw.encode("latin1") if isinstance(raw, str) else raw
    flat = np.frombuffer(data, np.dtype(order + dtype.arguments[0]))
    if min(shape, default=0) < 0 or math.prod(shape) != flat.size:
        raise ValueError(f"{flat.size} values do not fill the shape {shape}")
    return flat.reshape(shape, order="F" if fortran_order else "C")


def _to_matrix(holder: _Matrix) -> CsrMatrix:
    state = holder.state
    indptr, indices, data = (_to_array(state[key]) for key in ("indptr", "indices", "data"))
    rows, columns = state["_shape"]
    if indptr.shape != (rows + 1,):
        raise ValueError(f"indptr of shape {indptr.shape} for {rows} rows")
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < columns:
        raise ValueError(f"column indices outside [0, {columns})")
    return CsrMatrix(indptr, indices, data, (int(rows), int(columns)))
