"""The manifest of a store: what its arrays are and how they were made. May import: numpy."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
MANIFEST = "manifest.json"

# How the folder stores edges, said once for those who read it without this package.
_DIRECTION = "in-edges: indices[indptr[v]:indptr[v + 1]] are the sources of the edges into v"


@dataclass(frozen=True)
class StoredArray:
    """One array's file.

    Parameters
    ----------
    file : str
        Name within the folder.
    shape : tuple of int
    dtype : str
        As NumPy writes it, such as "<f2".
    bytes : int
        Size of the file.
    sha256 : str
        Of the whole file, so that ``sha256sum`` gives it too.
    """

    file: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Facts about a stored data set.

    Parameters
    ----------
    name : str
    num_classes : int
    description : dict
        As from :func:`salient.datasets.dataset.describe`.
    arrays : dict of StoredArray
        By name.
    """

    name: str
    num_classes: int
    description: dict[str, Any]
    arrays: dict[str, StoredArray]


def remedy(folder: Path) -> str:
    """Return what to do about a damaged store, as every message ends with it."""
    return f"delete {folder} and prepare the data set anew"


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write the manifest into a folder; return its path."""
    facts: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "name": manifest.name,
        "num_classes": manifest.num_classes,
        "direction": _DIRECTION,
        "self_loops": manifest.description.get("self_loops"),
        "description": manifest.description,
        "arrays": {name: asdict(array) for name, array in manifest.arrays.items()},
    }
    # Through JSON and back first, as it is read: tuples are lists then.
    facts = json.loads(json.dumps(facts))
    facts["sha256"] = _own_checksum(facts)
    path = folder / MANIFEST
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return path


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a store.

    Raises
    ------
    FileNotFoundError
        There is none.
    ValueError
        It is damaged, was edited, or has another format version.
    """
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"{path}: no such file, so {folder} is no prepared data set; check the path, or make "
            "one by `salient data prepare`"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); {remedy(folder)}") from error
    if not isinstance(facts, dict) or "format_version" not in facts:
        raise ValueError(f"{path}: not the manifest of a data set; {remedy(folder)}")
    version = facts["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{path}: has format version {version!r}, this salient reads {FORMAT_VERSION}; "
            f"{remedy(folder)}, or use the salient that made it"
        )
    if facts.pop("sha256", None) != _own_checksum(facts):
        raise ValueError(f"{path}: was changed since it was written; {remedy(folder)}")
    arrays = {
        name: StoredArray(**{**entry, "shape": tuple(entry["shape"])})
        for name, entry in facts["arrays"].items()
    }
    return Manifest(facts["name"], facts["num_classes"], facts["description"], arrays)


def _own_checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
