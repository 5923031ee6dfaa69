"""Data sets by name. May import: the other modules of datasets."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from salient.datasets.dataset import Dataset
from salient.datasets.npz import load_npz
from salient.datasets.ogb import ogb_builder
from salient.datasets.ogb_files import OGB_SETS
from salient.datasets.planetoid import PLANETOID_NAMES, load_planetoid
from salient.datasets.store import StoreWriter, open_store, prepare, write_dataset
from salient.datasets.store_manifest import MANIFEST
from salient.datasets.twin_presets import PRESETS
from salient.datasets.twins import TWIN_PREFIX, make_twin, twin_builder

_NPZ_SUFFIX = ".npz"


def load_dataset(
    name: str, root: str | os.PathLike[str] | None = None, *, seed: int = 0, **options: Any
) -> Dataset:
    """Load a data set, downloading or making it where needed. Never prompts.

    Parameters
    ----------
    name : str
        - ``pubmed``, ``citeseer`` or ``cora``: options as in
          :func:`salient.datasets.planetoid.load_planetoid`;
        - ``ogbn-arxiv``, ``ogbn-products`` or ``ogbn-papers100M``, fetched and prepared once in a
          folder of this name below ``root``: options as in
          :func:`salient.datasets.ogb.ogb_builder`;
        - ``synthetic:<preset>`` or ``synthetic:<preset>@<fraction>``, made on the spot, see
          :mod:`salient.datasets.twins`: no options;
        - a path ending in ``.npz``: options as in :func:`salient.datasets.npz.load_npz`;
        - the path of a prepared folder, see :mod:`salient.datasets.store`: no options.
    root : path, optional
        Folder for downloads, by default that in the environment variable ``SALIENT_DATA``, else
        ``data`` in the current folder. A relative path is looked up in ``root`` if given, a folder
        also in the default one.
    seed : int
        From 0, for whatever is random: a made graph, or a random split.
    **options
        Of the kind of data set, see above.

    Returns
    -------
    Dataset

    Raises
    ------
    TypeError
        An argument of the wrong type, or an option that this kind of data set does not have.
    ValueError
        An unknown name, an option's value out of range, or damaged files.
    OSError
        A file cannot be read or downloaded; the message says what to do.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a str, got {name!r}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed: expected an int, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed: is {seed}, expected at least 0")
    seed = int(seed)
    if name.endswith(_NPZ_SUFFIX):
        return load_npz(Path(root or "") / name, seed=seed, **options)
    if name in PLANETOID_NAMES:
        return load_planetoid(name, data_root(root), seed=seed, **options)
    if name in OGB_SETS:
        below = data_root(root)
        return prepare(below / name, ogb_builder(name, below, **options))
    folder = _find_store(name, root)
    if folder is not None:
        if options:
            raise TypeError(f"{folder}: a prepared data set takes no options, got {[*options]}")
        return open_store(folder)
    if name.startswith(TWIN_PREFIX):
        return make_twin(name, seed=seed, **options)
    known = [*PLANETOID_NAMES, *OGB_SETS, *(TWIN_PREFIX + preset for preset in PRESETS)]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
        f"name: no data set {name!r}; {hint}Known are {', '.join(known)}, or a path ending in "
        f"{_NPZ_SUFFIX}, or the path of a folder made by `salient data prepare`"
    )


def store_builder(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    allow_large: bool = False,
) -> Callable[[StoreWriter], None]:
    """Return what fills a store with the data set of a name; see :func:`load_dataset`.

    The OGB sets and synthetic ones are written piece by piece and never held in memory as a whole.
    """
    if name in OGB_SETS:
        return ogb_builder(name, data_root(root), allow_large=allow_large)
    if name.startswith(TWIN_PREFIX):
        return twin_builder(name, seed=seed)
    return lambda writer: write_dataset(writer, load_dataset(name, root, seed=seed))


def is_stored_by_name(name: str) -> bool:
    """Return whether :func:`load_dataset` keeps a prepared folder of this name below the root."""
    return name in OGB_SETS


def data_root(root: str | os.PathLike[str] | None) -> Path:
    """Return the folder of data sets; see :func:`load_dataset`."""
    return Path(root if root is not None else os.environ.get("SALIENT_DATA") or "data")


def _find_store(name: str, root: str | os.PathLike[str] | None) -> Path | None:
    for folder in (Path(root or "") / name, data_root(root) / name):
        if (folder / MANIFEST).is_file():
            return folder
    # A path is meant where there is a folder or a separator, so that the complaint is the store's.
    path = Path(root or "") / name
    return path if name and (os.sep in name or path.is_dir()) else None
