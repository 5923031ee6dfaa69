"""Unpacking zip archives that nobody vouches for. May import: the standard library only."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath


def extract_folder(archive: Path, top: str, folder: Path, extra: dict[str, str]) -> None:
    """Unpack one top-level folder of a zip archive; it appears only when complete.

    Parameters
    ----------
    archive : Path
    top : str
        Name of the folder within the archive.
    folder : Path
        What it becomes; must not exist, unlike its parent.
    extra : dict
        Text files to add: content by name.

    Raises
    ------
    OSError
        Damaged or truncated, no such folder in it, a member that would land outside or is a link,
        or too little space; nothing is left behind.
    """
    remedy = f"delete {archive} and fetch it anew"
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".extract-") as temporary:
        try:
            with zipfile.ZipFile(archive) as file:
                members = file.infolist()
                for member in members:
                    _require_inside(archive, member, remedy)
                needed = sum(member.file_size for member in members)
                free = shutil.disk_usage(temporary).free
                if needed > free:
                    raise OSError(
                        f"{archive}: {needed:,} bytes to unpack, but {folder.parent} has {free:,} "
                        "free; make room or choose another root"
                    )
                for member in members:
                    file.extract(member, temporary)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise OSError(f"{archive}: truncated or damaged ({error}); {remedy}") from error
        unpacked = Path(temporary) / top
        if not unpacked.is_dir():
            raise OSError(f"{archive}: has no folder {top!r}; {remedy}")
        for name, text in extra.items():
            (unpacked / name).write_text(text, encoding="utf-8")
        unpacked.rename(folder)


def _require_inside(archive: Path, member: zipfile.ZipInfo, remedy: str) -> None:
    name = member.filename
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise OSError(f"{archive}: the member {name!r} would leave the folder; {remedy}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise OSError(f"{archive}: the member {name!r} is a link; {remedy}")
