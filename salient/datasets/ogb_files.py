"""OGB's node data sets: what they are and how to fetch them. May import: download, extraction.

Folders, addresses, splits and classes are those of OGB's master list
(``ogb/nodeproppred/master.csv`` of ogb 1.3.6); numbers of nodes and edges those of its paper (Hu et
al. 2020, arXiv 2005.00687). The package ``ogb`` itself is not used: it looks for updates over the
network when imported, and asks before it downloads.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path

from salient.datasets.download import download
from salient.datasets.extraction import extract_folder

# Up to here a download needs no explicit permission.
LARGE_BYTES = 5 * 10**9

_HOST = "http://snap.stanford.edu/ogb/data/nodeproppred"


@dataclass(frozen=True)
class OgbSet:
    """One of OGB's node data sets.

    Parameters
    ----------
    folder : str
        Folder in the archive, and its name below ``ogb`` in the root.
    url : str
    download_bytes : int
        About: as OGB's own downloader announces it.
    split : str
        Folder of the split.
    binary : bool
        ``.npz`` files rather than gzipped text.
    directed : bool
        The list has directed edges, else each undirected pair once.
    num_nodes, num_edges, num_classes : int
        As published; edges as listed in the file.
    licence : str
    """

    folder: str
    url: str
    download_bytes: int
    split: str
    binary: bool
    directed: bool
    num_nodes: int
    num_edges: int
    num_classes: int
    licence: str


OGB_SETS = {
    "ogbn-arxiv": OgbSet(
        "arxiv", f"{_HOST}/arxiv.zip", 81 << 20, "time", False, True,
        169_343, 1_166_243, 40, "ODC-BY",
    ),
    "ogbn-products": OgbSet(
        "products", f"{_HOST}/products.zip", 1_413 << 20, "sales_ranking", False, False,
        2_449_029, 61_859_140, 47, "Amazon license",
    ),
    "ogbn-papers100M": OgbSet(
        "papers100M-bin", f"{_HOST}/papers100M-bin.zip", 57_519 << 20, "time", True, True,
        111_059_956, 1_615_685_872, 172, "ODC-BY",
    ),
}  # fmt: skip


def require_ogb_name(name: str) -> OgbSet:
    """Return what is known of a data set.

    Raises
    ------
    ValueError
        Unknown; the message lists the names.
    """
    if name not in OGB_SETS:
        raise ValueError(f"name: no OGB data set {name!r}; known are {', '.join(OGB_SETS)}")
    return OGB_SETS[name]


def fetch_ogb(name: str, root: Path, *, allow_large: bool = False, progress: bool = True) -> Path:
    """Return the folder with the raw files of a data set, fetching them if they are not there.

    A download that broke off is continued; the folder appears only when complete, with address,
    size and SHA-256 of the archive in ``SOURCE.json``. A second process waits for the first.

    Parameters
    ----------
    name : str
        ``ogbn-arxiv``, ``ogbn-products`` or ``ogbn-papers100M``.
    root : Path
        The files go to ``ogb/<folder>`` below it.
    allow_large : bool
        Permit a download of more than 5 GB (papers100M: 60 GB, and 80 GB more once unpacked).
    progress : bool
        Show a progress bar.

    Returns
    -------
    Path
        Holds ``raw`` and ``split``.

    Raises
    ------
    ValueError
        Unknown name.
    OSError
        Too large without permission; or not to be fetched or unpacked: the message says why.
    """
    about = require_ogb_name(name)
    parent = root / "ogb"
    folder = parent / about.folder
    if folder.exists():
        return folder
    archive = parent / f"{about.folder}.zip"
    if about.download_bytes > LARGE_BYTES and not archive.exists() and not allow_large:
        raise OSError(
            f"{name} is a download of {about.download_bytes / 1e9:.1f} GB, above the limit of "
            f"{LARGE_BYTES / 1e9:.0f} GB; permit it with --allow-large (allow_large=True), or "
            f"unpack {about.url} so that {folder / 'raw'} exists"
        )
    parent.mkdir(parents=True, exist_ok=True)
    record = parent / f"{about.folder}.json"
    with (parent / f".{about.folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        if not archive.exists():
            digest = download(about.url, archive, progress=progress)
            facts = {"url": about.url, "bytes": archive.stat().st_size, "sha256": digest}
            record.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        known = record.read_text(encoding="utf-8") if record.exists() else "{}"
        extract_folder(archive, about.folder, folder, {"SOURCE.json": known})
        archive.unlink()
        record.unlink(missing_ok=True)
    return folder
