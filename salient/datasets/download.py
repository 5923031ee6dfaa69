"""Downloads that resume, and appear under their name only when complete. May import: tqdm."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import logging
import re
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

_logger = logging.getLogger("salient")

_TIMEOUT_SECONDS = 30
_BLOCK_BYTES = 1 << 20
# Further tries after a transfer broke off that had brought something.
_RETRIES = 5
_RANGE_NOT_SATISFIABLE = 416


def download(
    url: str, path: Path, *, size: int | None = None, sha256: str | None = None, progress: bool
) -> str:
    """Download a file; an earlier, unfinished download is continued. Never prompts.

    While it is incomplete, the file is ``<name>.part``, and ``<name>.part.tag`` says which version
    of the server's file it is a part of. Two processes must not download to the same path at once.

    Parameters
    ----------
    url : str
        http or https.
    path : Path
        Its folder must exist.
    size : int, optional
        Bytes that the file must have, where known before; the server's word is checked always.
    sha256 : str, optional
        What the file's SHA-256 must be, where known before.
    progress : bool
        Show a progress bar.

    Returns
    -------
    str
        The SHA-256 of the file, in hexadecimal.

    Raises
    ------
    OSError
        The server cannot be reached, refuses, or breaks off too often (what came so far is kept);
        the file has another size or sum than expected; or it does not fit on the disk.
    """
    part = path.with_name(path.name + ".part")
    for left in reversed(range(_RETRIES + 1)):
        before = part.stat().st_size if part.exists() else 0
        try:
            _continue(url, part, size, progress)
            break
        except urllib.error.HTTPError as error:
            raise OSError(f"{url}: the server answers {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            came = (part.stat().st_size if part.exists() else 0) - before
            if isinstance(error, _Unfit) or came <= 0 or not left:
                reason = getattr(error, "reason", error)
                raise OSError(
                    f"{url}: {reason}; check the connection and run again: {part} is continued"
                ) from error
            _logger.info("%s: broken off after %d bytes (%s), continuing", url, came, error)
    digest = _sha256(part)
    if sha256 is not None and digest != sha256:
        discard(part)
        raise OSError(f"{url}: the SHA-256 is {digest}, expected {sha256}; deleted, run again")
    part.rename(path)
    _tag_path(part).unlink(missing_ok=True)
    return digest


def discard(part: Path) -> None:
    """Delete an unfinished download and its tag."""
    part.unlink(missing_ok=True)
    _tag_path(part).unlink(missing_ok=True)


class _Unfit(OSError):
    """An error that another try does not mend."""


def _tag_path(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _continue(url: str, part: Path, size: int | None, progress: bool) -> None:
    tag_path = _tag_path(part)
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url)
    tag = tag_path.read_text() if tag_path.exists() else ""
    if start and tag:
        # Without a tag nobody knows whether the server's file is still the same one.
        request.add_header("Range", f"bytes={start}-")
        request.add_header("If-Range", tag)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != _RANGE_NOT_SATISFIABLE:
            raise
        total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == start and size in (None, start):
            return
        discard(part)
        raise _Unfit(f"{start:,} bytes were there, more than the file has; deleted") from error
    with response:
        begin, total_bytes = _extent(response, url)
        if begin not in (0, start):
            raise _Unfit(f"the server continues at byte {begin:,}, asked for {start:,}")
        if size is not None and total_bytes not in (None, size):
            raise _Unfit(f"the server's file has {total_bytes:,} bytes, expected {size:,}")
        total_bytes = total_bytes if size is None else size
        free = shutil.disk_usage(part.parent).free
        if total_bytes is not None and total_bytes - begin > free + (start if not begin else 0):
            raise _Unfit(
                f"{total_bytes - begin:,} bytes to come, but {part.parent} has {free:,} free"
            )
        # A weak tag must not stand in If-Range.
        etag = response.headers.get("ETag", "")
        new_tag = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        tag_path.write_text(new_tag)
        with (
            part.open("ab" if begin else "wb") as file,
            tqdm(
                total=total_bytes,
                initial=begin,
                unit="B",
                unit_scale=True,
                desc=part.stem,
                disable=not progress,
            ) as bar,
        ):
            while block := response.read(_BLOCK_BYTES):
                file.write(block)
                bar.update(len(block))
    got = part.stat().st_size
    if total_bytes is not None and got != total_bytes:
        if got > total_bytes:
            discard(part)
            raise _Unfit(f"{got:,} bytes came, expected {total_bytes:,}; deleted")
        raise OSError(f"broken off after {got:,} of {total_bytes:,} bytes")


def _extent(response: http.client.HTTPResponse, url: str) -> tuple[int, int | None]:
    length = response.headers.get("Content-Length")
    if response.status != http.client.PARTIAL_CONTENT:
        return 0, int(length) if length and length.isdigit() else None
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    if match is None:
        raise _Unfit(f"{url}: a partial answer that does not say which part it is")
    return int(match[1]), int(match[2])


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with contextlib.closing(path.open("rb")) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
