"""Data sets as folders of memory-mapped arrays. May import: the other modules of datasets, graph.

A folder holds ``manifest.json`` and one ``.npy`` file an array: ``indptr`` int64 (N + 1),
``indices`` int32 or int64 (E), ``x`` float16 (N, F), ``y`` int64 (N), ``train``, ``valid``,
``test`` int64, and ``original_ids`` int64 (N) where nodes were reordered.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from filelock import FileLock, Timeout

from salient.datasets.dataset import Dataset, checksum_heading
from salient.datasets.splits import SPLIT_NAMES
from salient.datasets.store_files import (
    create_npy,
    hash_npy,
    map_private,
    read_npy_header,
    release_pages,
    shorten_npy,
    sync,
)
from salient.datasets.store_manifest import (
    MANIFEST,
    Manifest,
    StoredArray,
    read_manifest,
    remedy,
    write_manifest,
)
from salient.graph import Graph

_logger = logging.getLogger("salient")

# In the order in which dataset.checksum takes them.
_REQUIRED = ("indptr", "indices", "x", "y", *SPLIT_NAMES)
_OPTIONAL = ("original_ids",)
_DTYPES = {"indices": ("<i4", "<i8"), "x": ("<f2",)}


class StoreWriter:
    """The arrays of a store in the making; an :class:`salient.datasets.sink.ArraySink`.

    Parameters
    ----------
    folder : Path
        An existing, empty folder.

    Attributes
    ----------
    scratch : Path
        A folder for the builder's temporary files, which vanishes afterwards.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: dict[str, npt.NDArray[Any]] = {}
        self.finished = False
        self.scratch = folder / "scratch"
        self.scratch.mkdir()

    def create(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array of zeros, mapped from its file.

        Raises
        ------
        ValueError
            The name is taken, or none of a store's.
        OSError
            The disk has no room for it.
        """
        if name in self._maps:
            raise ValueError(f"{name!r} was created before")
        if name not in (*_REQUIRED, *_OPTIONAL):
            raise ValueError(
                f"{name!r} is no array of a store, which are {', '.join(_REQUIRED + _OPTIONAL)}"
            )
        self._maps[name] = create_npy(_file_of(self._folder, name), shape, dtype)
        return self._maps[name]

    def truncate(self, name: str, length: int) -> npt.NDArray[Any]:
        """Keep the first rows only; see :class:`salient.datasets.sink.ArraySink`."""
        del self._maps[name]
        self._maps[name] = shorten_npy(_file_of(self._folder, name), length)
        return self._maps[name]

    def release(self, name: str) -> None:
        """Take an array's pages out of memory; see :class:`salient.datasets.sink.ArraySink`."""
        release_pages(self._maps[name])

    def finish(self, name: str, num_classes: int, description: dict[str, Any]) -> None:
        """Check and hash the arrays, and write the manifest.

        Parameters
        ----------
        name : str
            Of the data set.
        num_classes : int
        description : dict
            The words of :func:`salient.datasets.dataset.describe`; sizes and checksum are filled
            in.

        Raises
        ------
        ValueError
            An array is missing, or they form no data set.
        """
        missing = [part for part in _REQUIRED if part not in self._maps]
        if missing:
            raise ValueError(f"{name}: the arrays {', '.join(missing)} were not created")
        for array in self._maps.values():
            # Mapped pages reach the file's cache first, and by `sync` the disk.
            array.flush()  # type: ignore[attr-defined]
        shutil.rmtree(self.scratch)
        for part in self._maps:
            _require_dtype(_file_of(self._folder, part), part)
        dataset = _assemble(self._folder, list(self._maps), name, num_classes, {}, validate=True)
        arrays, digest = _hash_arrays(self._folder, list(self._maps))
        description = {
            **description,
            "num_nodes": dataset.num_nodes,
            "num_edges": dataset.graph.num_edges,
            "num_features": dataset.num_features,
            "num_classes": num_classes,
            "split_sizes": {part: len(ids) for part, ids in dataset.split_idx.items()},
            "sha256": digest,
        }
        for array_facts in arrays.values():
            sync(self._folder / array_facts.file)
        sync(write_manifest(self._folder, Manifest(name, num_classes, description, arrays)))
        sync(self._folder)
        self.finished = True


def prepare(folder: str | os.PathLike[str], build: Callable[[StoreWriter], None]) -> Dataset:
    """Open the store in a folder; make it first if it is not there.

    It appears as a whole or not at all: it is built in a hidden folder beside it, which is renamed
    at the end. If several processes prepare the same folder, one builds and the others wait.
    Leftovers of a killed preparation are removed by the next. A small hidden lock file stays.

    Parameters
    ----------
    folder : path
    build : callable
        Fills a :class:`StoreWriter` and calls its ``finish``.

    Raises
    ------
    FileExistsError
        The folder holds something else.
    OSError
        It cannot be written.
    ValueError
        The store there is damaged, or the arrays form no data set.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links
    if not _is_there(folder):
        with _lock(folder):
            if not _is_there(folder):
                _build(folder, build)
    return open_store(folder)


def save_store(folder: str | os.PathLike[str], dataset: Dataset) -> Dataset:
    """Store a data set that is in memory, unless the folder holds one; see :func:`prepare`.

    The graph's ``edge_ids`` are not kept.
    """
    return prepare(folder, lambda writer: write_dataset(writer, dataset))


def write_dataset(writer: StoreWriter, dataset: Dataset, name: str | None = None) -> None:
    """Write a data set that is in memory, maybe under another name, and finish."""
    arrays = {"indptr": dataset.graph.indptr, "indices": dataset.graph.indices}
    parts = {"x": dataset.x, "y": dataset.y, **dataset.split_idx}
    if dataset.original_ids is not None:
        parts["original_ids"] = dataset.original_ids
    arrays |= {part: tensor.numpy() for part, tensor in parts.items()}
    for part, array in arrays.items():
        writer.create(part, array.shape, array.dtype)[...] = array
    writer.finish(name or dataset.name, dataset.num_classes, dataset.description)


def open_store(folder: str | os.PathLike[str]) -> Dataset:
    """Open a store at once, whatever its size: nothing is copied, and no data are looked at.

    The arrays are copy-on-write maps: what is written to them stays in this process.

    Raises
    ------
    FileNotFoundError
        The folder is no store, or a file is missing.
    ValueError
        Another format version, or a file whose size, shape or dtype is not that of the manifest.
        The message names the path and the remedy.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for name, stored in manifest.arrays.items():
        _check_file(folder, name, stored)
    return _open_checked(folder, manifest, validate=False)


def verify_store(folder: str | os.PathLike[str]) -> Dataset:
    """Compare every byte of a store with its checksums, and check all values; return it.

    Raises
    ------
    FileNotFoundError, ValueError
        As for :func:`open_store`, or the data are damaged; the message names the file.
    """
    folder = Path(folder)
    open_store(folder)
    manifest = read_manifest(folder)
    found, digest = _hash_arrays(folder, list(manifest.arrays))
    for name, stored in manifest.arrays.items():
        if found[name].sha256 != stored.sha256:
            raise ValueError(
                f"{folder / stored.file}: damaged: its SHA-256 is {found[name].sha256}, expected "
                f"{stored.sha256}; {remedy(folder)}"
            )
    if digest != manifest.description["sha256"]:
        raise ValueError(
            f"{folder}: the checksum of all arrays is {digest}, that of the description "
            f"{manifest.description['sha256']}; {remedy(folder)}"
        )
    return _open_checked(folder, manifest, validate=True)


def _is_there(folder: Path) -> bool:
    if (folder / MANIFEST).is_file():
        return True
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"{folder}: exists, but is no prepared data set; choose another folder or delete it"
        )
    return False


def _lock(folder: Path) -> FileLock:
    """Return the held lock of a folder."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(f".{folder.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _logger.info("%s: waiting for another process that prepares it", folder)
            lock.acquire()
    except OSError as error:
        raise type(error)(
            error.errno,
            f"cannot write here ({error.strerror}); choose another folder for the data set",
            str(folder.parent),
        ) from error
    return lock


def _build(folder: Path, build: Callable[[StoreWriter], None]) -> None:
    # Only the holder of the lock makes this folder, so one that is there was left by the dead.
    temporary = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        writer = StoreWriter(temporary)
        build(writer)
        if not writer.finished:
            raise RuntimeError(f"{folder}: the builder did not call finish()")
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(folder.parent)


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _require_dtype(path: Path, name: str) -> None:
    expected = _DTYPES.get(name, ("<i8",))
    found = read_npy_header(path).dtype.str
    if found not in expected:
        raise ValueError(f"{path}: {name} is {found}, must be {' or '.join(expected)}")


def _check_file(folder: Path, name: str, stored: StoredArray) -> None:
    path = folder / stored.file
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: is missing; {remedy(folder)}") from error
    if size != stored.bytes:
        raise ValueError(
            f"{path}: has {size:,} bytes, expected {stored.bytes:,}: truncated or not the file "
            f"that was prepared; {remedy(folder)}"
        )
    try:
        header = read_npy_header(path)
        _require_dtype(path, name)
    except ValueError as error:
        raise ValueError(f"{error}; {remedy(folder)}") from error
    if (header.shape, header.dtype.str, header.file_bytes) != (stored.shape, stored.dtype, size):
        raise ValueError(
            f"{path}: holds {header.dtype.str} of shape {header.shape}, expected {stored.dtype} "
            f"of shape {stored.shape}; {remedy(folder)}"
        )


def _open_checked(folder: Path, manifest: Manifest, *, validate: bool) -> Dataset:
    missing = [part for part in _REQUIRED if part not in manifest.arrays]
    if missing:
        raise ValueError(f"{folder}: has no array {', '.join(missing)}; {remedy(folder)}")
    names = list(manifest.arrays)
    facts = (manifest.name, manifest.num_classes, manifest.description)
    try:
        return _assemble(folder, names, *facts, validate=validate)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}; {remedy(folder)}") from error


def _assemble(
    folder: Path,
    names: list[str],
    name: str,
    num_classes: int,
    description: dict[str, Any],
    *,
    validate: bool,
) -> Dataset:
    maps = {part: map_private(_file_of(folder, part)) for part in names}
    tensors = {part: torch.from_numpy(maps[part]) for part in names if part not in _REQUIRED[:2]}
    indptr, indices = maps["indptr"], maps["indices"]
    # Looks at two numbers only, and keeps a reader from running past the end of the map.
    if indptr.size and (indptr[0] != 0 or indptr[-1] != indices.size):
        raise ValueError(
            f"indptr must go from 0 to the number of edges, {indices.size}; it goes from "
            f"{indptr[0]} to {indptr[-1]}"
        )
    return Dataset(
        name,
        Graph(indptr, indices, validate=validate),
        tensors["x"],
        tensors["y"],
        {part: tensors[part] for part in SPLIT_NAMES},
        num_classes,
        description,
        tensors.get("original_ids"),
        validate=validate,
    )


def _hash_arrays(folder: Path, names: list[str]) -> tuple[dict[str, StoredArray], str]:
    """Hash every file, and all arrays together as dataset.checksum does, reading them once."""
    whole = hashlib.sha256()
    arrays = {}
    for name in sorted(names, key=(_REQUIRED + _OPTIONAL).index):
        path = _file_of(folder, name)
        header = read_npy_header(path)
        counted = whole if name in _REQUIRED else hashlib.sha256()
        counted.update(checksum_heading(name, header.dtype, header.shape))
        digest = hash_npy(path, counted)
        arrays[name] = StoredArray(
            path.name, header.shape, header.dtype.str, path.stat().st_size, digest
        )
    return arrays, whole.hexdigest()
