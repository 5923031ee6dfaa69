"""The user's own arrays: folders of NumPy files, PyG data, edge tables. May import: PyG, torch.

May also import the other modules of datasets.
"""

from __future__ import annotations

import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from salient.datasets.conversion import ArrayEdges, EdgeList
from salient.datasets.edge_tables import SpooledEdges
from salient.datasets.npz_archive import NpzArchive
from salient.datasets.splits import SPLIT_NAMES
from salient.graph import as_array

# How files name the parts of a split, ours first.
_SPLIT_ALIASES = {
    part: tuple(name + end for name in names for end in ("", "_mask", "_idx"))
    for part, names in {"train": ("train",), "valid": ("valid", "val"), "test": ("test",)}.items()
}
PYG_SUFFIXES = (".pt", ".pth")


@dataclass(frozen=True)
class OwnArrays:
    """What a user's files hold, as yet unchecked.

    Parameters
    ----------
    edges : EdgeList
    x : array of numbers, shape (num_nodes, num_features)
    y : array of integers or floats, shape (num_nodes,) or (num_nodes, 1)
    split : dict of array, optional
        Masks or ids under "train", "valid" and "test".
    source : str
        In words, for the description.
    where : str
        What messages call the files.
    """

    edges: EdgeList
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    split: dict[str, npt.NDArray[Any]] | None
    source: str
    where: str


def read_array_folder(folder: Path) -> OwnArrays:
    """Map a folder with ``edge_index.npy`` (2, E), ``x.npy``, ``y.npy``, maybe a split's files.

    Those are ``train.npy``, ``valid.npy`` and ``test.npy``: ids, or masks of booleans.

    Raises
    ------
    FileNotFoundError
        One of the first three is missing.
    ValueError
        A file is no array, or only part of a split is there.
    """
    found = {path.stem: path for path in folder.glob("*.npy")}
    for name, what in {
        "edge_index": "the edges, integers (2, num_edges)",
        "x": "features, numbers (num_nodes, num_features)",
        "y": "labels, integers (num_nodes,) with -1 for none",
    }.items():
        if name not in found:
            raise FileNotFoundError(f"{folder / name}.npy: is missing; write {what}, there")
    edge_index, x, y = (map_npy(found[name]) for name in ("edge_index", "x", "y"))
    where = str(found["edge_index"])
    split = _find_split(found, str(folder))
    return OwnArrays(
        ArrayEdges(edge_index, where),
        x,
        y,
        None if split is None else {part: map_npy(path) for part, path in split.items()},
        f"the arrays in {folder.name}",
        where,
    )


def read_edge_table(
    table: Path,
    scratch: Path,
    *,
    features: Path | None,
    labels: Path | None,
    splits: Path | None,
) -> OwnArrays:
    """Read an edge list in text or Parquet, with ``.npy`` files for what belongs to its nodes.

    Parameters
    ----------
    table : Path
    scratch : Path
        A folder for a copy of the edges.
    features, labels : Path
        Arrays as in a folder of arrays. Training needs both, so neither can be left out.
    splits : Path, optional
        A folder with the files of a split, or an ``.npz`` file with such arrays.

    Raises
    ------
    ValueError
        Features or labels are not given, or a file is damaged.
    OSError, ImportError
        See :class:`salient.datasets.edge_tables.SpooledEdges`.
    """
    if not table.is_file():
        raise FileNotFoundError(f"{table}: no such file; check the path")
    if features is None or labels is None:
        raise ValueError(
            f"{table}: an edge list has neither features nor labels, and a data set needs both: "
            "give --features X.npy (num_nodes, num_features) and --labels Y.npy (num_nodes,); "
            "for a graph without features, a constant column numpy.ones((num_nodes, 1)) will do"
        )
    x, y = map_npy(features), map_npy(labels)
    split = None if splits is None else _read_splits(splits)
    if x.ndim != 2:
        raise ValueError(f"{features}: expected two dimensions, got shape {x.shape}")
    edges = SpooledEdges(table, len(x), scratch)
    return OwnArrays(edges, x, y, split, f"the edge list {table.name}", str(table))


def read_pyg(path: Path, split: int = 0) -> OwnArrays:
    """Read a PyG ``Data`` object, or a dict of its tensors, saved by ``torch.save``.

    Nothing but tensors and PyG's own classes is loaded, so the file cannot run code.

    Parameters
    ----------
    path : Path
    split : int
        Which column of masks of shape (num_nodes, splits).

    Raises
    ------
    ImportError
        PyG is not installed, or torch is older than 2.5.
    FileNotFoundError
        No such file.
    ValueError
        Damaged, or it holds something else, or no graph with features and labels.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; check the path")
    fields = _load_fields(path)
    missing = [name for name in ("edge_index", "x", "y") if fields.get(name) is None]
    if missing:
        raise ValueError(
            f"{path}: the data have no {', '.join(missing)}; found {', '.join(fields) or 'nothing'}"
        )
    arrays = {name: as_array(fields[name], f"{path}: {name}") for name in ("edge_index", "x", "y")}
    chosen = _find_split(fields, str(path))
    masks = None
    if chosen is not None:
        masks = {part: as_array(mask, f"{path}: {part} mask") for part, mask in chosen.items()}
        masks = {part: _pick_column(mask, split, path) for part, mask in masks.items()}
    edges = ArrayEdges(arrays["edge_index"], f"{path}: edge_index")
    source = f"the PyG data in {path.name}"
    return OwnArrays(edges, arrays["x"], arrays["y"], masks, source, f"{path}: edge_index")


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map an ``.npy`` file for reading; refuse pickled objects.

    Raises
    ------
    FileNotFoundError
        No such file.
    ValueError
        It is no ``.npy`` file, or damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; check the path")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError) as error:
        raise ValueError(f"{path}: no .npy file, or a damaged one ({error})") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: holds several arrays, expected an .npy file with one")
    return array


def _read_splits(path: Path) -> dict[str, npt.NDArray[Any]]:
    split: dict[str, npt.NDArray[Any]] | None
    if path.is_dir():
        files = _find_split({file.stem: file for file in path.glob("*.npy")}, str(path))
        split = None if files is None else {part: map_npy(file) for part, file in files.items()}
    else:
        with NpzArchive(path) as archive:
            known = {name for names in _SPLIT_ALIASES.values() for name in names}
            keys = _find_split({name: name for name in known if name in archive}, str(path))
            split = (
                None if keys is None else {part: archive.read(key) for part, key in keys.items()}
            )
    if split is None:
        raise ValueError(f"{path}: has no split; expected {', '.join(SPLIT_NAMES)}")
    return split


def _find_split(found: dict[str, Any], where: str) -> dict[str, Any] | None:
    """Return what is there under the names of the parts of a split, None without any."""
    parts = {}
    for part, aliases in _SPLIT_ALIASES.items():
        present = [alias for alias in aliases if found.get(alias) is not None]
        if len(present) > 1:
            raise ValueError(f"{where}: has both {present[0]} and {present[1]}; remove one")
        if present:
            parts[part] = found[present[0]]
    if parts and len(parts) < len(SPLIT_NAMES):
        missing = next(part for part in SPLIT_NAMES if part not in parts)
        raise ValueError(
            f"{where}: the split has {', '.join(parts)}, but no {missing}; give all or none"
        )
    return parts or None


def _pick_column(mask: npt.NDArray[Any], split: int, path: Path) -> npt.NDArray[Any]:
    if mask.ndim != 2:
        return mask
    if not 0 <= split < mask.shape[1]:
        raise ValueError(f"{path}: split is {split}, but there are {mask.shape[1]}")
    return np.ascontiguousarray(mask[:, split])


def _load_fields(path: Path) -> dict[str, Any]:
    try:
        from torch_geometric.data import Data
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import (
            BaseStorage,
            EdgeStorage,
            GlobalStorage,
            NodeStorage,
        )
    except ImportError as error:
        raise ImportError(
            f"{path}: reading PyG data needs torch-geometric; pip install 'salient-bench[pyg]'"
        ) from error
    if not hasattr(torch.serialization, "safe_globals"):
        raise ImportError(f"{path}: reading PyG data safely needs torch 2.5 or later")
    classes = [Data, DataEdgeAttr, DataTensorAttr]
    classes += [BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]
    try:
        with torch.serialization.safe_globals(classes):
            # Only files in torch's newer format can be mapped.
            loaded = torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, KeyError) as error:
        reason = (str(error).splitlines() or ["no message"])[0]
        raise ValueError(
            f"{path}: damaged, or it holds more than tensors and a plain PyG Data object, which "
            f"is not loaded since it could run code ({reason}); save the data anew by "
            "torch.save(Data(x=..., edge_index=..., y=..., train_mask=..., val_mask=..., "
            "test_mask=...), path)"
        ) from error
    if isinstance(loaded, Data):
        return {str(name): value for name, value in loaded.to_dict().items()}
    if isinstance(loaded, dict):
        return loaded
    raise ValueError(f"{path}: expected a PyG Data object or a dict, found {type(loaded).__name__}")
