"""Downloading and unpacking: from a local server that can do everything wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import json
import multiprocessing
import re
import socket
import stat
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ogb_layout import make_graph, write_raw, zip_folder
from salient.cli import main
from salient.datasets import load_dataset, ogb_files
from salient.datasets.download import download
from salient.datasets.extraction import extract_folder
from salient.datasets.ogb_files import OGB_SETS, fetch_ogb
from salient.datasets.store import verify_store

NAME = "ogbn-arxiv"


class Server(http.server.ThreadingHTTPServer):
    """Serves ``data`` at any address, and keeps what was asked for."""

    data = np.random.default_rng(0).bytes(3_000_000)
    tag = '"v1"'
    ranges = True
    # Bytes sent in each answer before the connection is closed; then the rest is sent.
    cuts: list[int] = []  # noqa: RUF012
    status = 200
    claim: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []
        self.cuts = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/a.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        begin = 0
        if wanted and server.ranges and self.headers.get("If-Range") in (None, server.tag):
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(server.data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(server.data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        body = server.data[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            end = len(server.data) - 1
            self.send_header("Content-Range", f"bytes {begin}-{end}/{len(server.data)}")
        self.send_header("Content-Length", str(len(body) if server.claim is None else server.claim))
        self.send_header("ETag", server.tag)
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(server: Server, path: Path, **options: Any) -> str:
    return download(server.url, path, progress=False, **options)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_download(server: Server, tmp_path: Path) -> None:
    digest = get(server, tmp_path / "a.zip", size=len(server.data))
    assert digest == hashlib.sha256(server.data).hexdigest()
    assert (tmp_path / "a.zip").read_bytes() == server.data
    assert names_in(tmp_path) == ["a.zip"]


def test_a_broken_transfer_is_continued(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 500_000]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == server.data
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-"]


def test_the_next_run_continues_what_an_earlier_one_left(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 0]
    with pytest.raises(OSError, match="run again"):
        get(server, tmp_path / "a.zip")
    assert names_in(tmp_path) == ["a.zip.part", "a.zip.part.tag"]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == server.data
    assert server.asked[-1] == "bytes=1000000-"
    assert names_in(tmp_path) == ["a.zip"]


def test_a_file_that_changed_on_the_server_starts_anew(server: Server, tmp_path: Path) -> None:
    server.cuts = [1_000_000, 0]
    with pytest.raises(OSError, match="run again"):
        get(server, tmp_path / "a.zip")
    server.tag, server.data = '"v2"', server.data[::-1]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == server.data


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [1_000_000]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == server.data


def test_a_complete_part_needs_no_further_byte(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.zip.part").write_bytes(server.data)
    (tmp_path / "a.zip.part.tag").write_text(server.tag)
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == server.data


def test_a_part_that_is_too_long_is_deleted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.zip.part").write_bytes(server.data + b"more")
    (tmp_path / "a.zip.part.tag").write_text(server.tag)
    with pytest.raises(OSError, match="more than the file has; deleted"):
        get(server, tmp_path / "a.zip")
    assert names_in(tmp_path) == []


def test_always_truncated_is_never_complete(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [1_000] * 20
    with pytest.raises(OSError, match=r"broken off after 1,000 of 3,000,000|IncompleteRead"):
        get(server, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()
    assert len(server.asked) < 10


def test_wrong_size_and_sum_are_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="has 3,000,000 bytes, expected 2,999,999"):
        get(server, tmp_path / "a.zip", size=2_999_999)
    with pytest.raises(OSError, match="SHA-256"):
        get(server, tmp_path / "a.zip", sha256="0" * 64)
    assert names_in(tmp_path) == []


def test_too_little_space_is_said_before_the_transfer(server: Server, tmp_path: Path) -> None:
    server.claim = 10**18
    with pytest.raises(OSError, match=r"1,000,000,000,000,000,000 bytes to come, but .* free"):
        get(server, tmp_path / "a.zip")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_refusal_is_final(status: int, server: Server, tmp_path: Path) -> None:
    server.status = status
    with pytest.raises(OSError, match=f"{re.escape(server.url)}: the server answers {status}"):
        get(server, tmp_path / "a.zip")
    assert len(server.asked) == 1


def test_nobody_listening_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound, but nobody listens.
        with pytest.raises(OSError, match=r"refused.*check the connection"):
            download(f"http://127.0.0.1:{taken.getsockname()[1]}/", tmp_path / "a", progress=False)


# -- the data sets


@pytest.fixture
def served(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, with an archive of a small graph in the place of ogbn-arxiv's."""
    folder = write_raw(NAME, tmp_path / "made", make_graph())
    server.data = zip_folder(NAME, folder, tmp_path / "made.zip").read_bytes()
    monkeypatch.setitem(OGB_SETS, NAME, dataclasses.replace(OGB_SETS[NAME], url=server.url))
    return server


def test_a_data_set_is_fetched_once(served: Server, tmp_path: Path) -> None:
    served.cuts = [len(served.data) // 2]
    for _ in range(2):
        dataset = load_dataset(NAME, tmp_path / "root", progress=False)
        assert np.array_equal(dataset.y.numpy(), make_graph().y)
    assert len(served.asked) == 2
    source = json.loads((tmp_path / "root/ogb/arxiv/SOURCE.json").read_text())
    assert source["url"] == served.url
    assert source["bytes"] == len(served.data)
    assert source["sha256"] == hashlib.sha256(served.data).hexdigest()
    assert names_in(tmp_path / "root" / "ogb") == [".arxiv.lock", "arxiv"]


def test_prepare_stores_it_by_its_name(served: Server, tmp_path: Path) -> None:
    root = tmp_path / "root"
    done = CliRunner().invoke(main, ["data", "prepare", NAME, "--root", str(root)])
    assert done.exit_code == 0, done.output
    assert "NOT of the published size" in json.loads(done.stdout)["source"]
    verify_store(root / NAME)
    stored = load_dataset(NAME, root)
    assert np.array_equal(stored.y.numpy(), make_graph().y)
    assert len(served.asked) == 1


def test_a_damaged_archive_leaves_nothing_that_looks_complete(
    served: Server, tmp_path: Path
) -> None:
    whole = served.data
    for damaged in (whole[: len(whole) // 2], whole[:200] + bytes(64) + whole[264:]):
        served.data = damaged
        with pytest.raises(OSError, match=r"damaged.*delete .*arxiv\.zip and fetch"):
            fetch_ogb(NAME, tmp_path, progress=False)
        assert names_in(tmp_path / "ogb") == [".arxiv.lock", "arxiv.json", "arxiv.zip"]
        (tmp_path / "ogb" / "arxiv.zip").unlink()
    served.data = whole
    assert (fetch_ogb(NAME, tmp_path, progress=False) / "raw" / "edge.csv.gz").exists()


def test_large_downloads_need_permission(tmp_path: Path, served: Server) -> None:
    with pytest.raises(OSError, match=r"60\.3 GB.*limit of 5 GB.*--allow-large"):
        load_dataset("ogbn-papers100M", tmp_path / "root")
    assert not [*(tmp_path / "root").glob("[!.]*")]


def _fetch(url: str, root: str) -> None:
    OGB_SETS[NAME] = dataclasses.replace(OGB_SETS[NAME], url=url)
    fetch_ogb(NAME, Path(root), progress=False)


def test_two_processes_at_once_download_once(served: Server, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    root = str(tmp_path / "root")
    both = [context.Process(target=_fetch, args=(served.url, root)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    assert len(served.asked) == 1
    assert names_in(tmp_path / "root" / "ogb") == [".arxiv.lock", "arxiv"]


@pytest.mark.parametrize("member", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil"])
def test_members_that_leave_the_folder_are_refused(member: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("arxiv/raw/edge.csv.gz", "x")
        file.writestr(member, "x")
    with pytest.raises(OSError, match="would leave the folder"):
        extract_folder(tmp_path / "a.zip", "arxiv", tmp_path / "in" / "arxiv", {})
    assert names_in(tmp_path) == ["a.zip", "in"]
    assert names_in(tmp_path / "in") == []


def test_links_and_foreign_archives_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("arxiv/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(link, "/etc")
    with pytest.raises(OSError, match="is a link"):
        extract_folder(tmp_path / "a.zip", "arxiv", tmp_path / "arxiv", {})
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("other/file", "x")
    with pytest.raises(OSError, match="has no folder 'arxiv'"):
        extract_folder(tmp_path / "b.zip", "arxiv", tmp_path / "arxiv", {})
    assert names_in(tmp_path) == ["a.zip", "b.zip"]


def test_the_table_has_every_set_below_its_own_folder() -> None:
    assert ogb_files.OGB_SETS.keys() == {"ogbn-arxiv", "ogbn-products", "ogbn-papers100M"}
    assert len({about.folder for about in OGB_SETS.values()}) == 3
