"""Synthetic twins written into a store: edges, disk, memory and time of each.

``python -m benchmarks.generation`` makes every twin in a process of its own, into a new folder that
is deleted afterwards. Memory is looked at every 20 ms: *private* is what only this process has, the
program and its libraries included; *resident* has in addition the mapped pages of the files being
written, which the system takes back as it needs. Time is of the whole, checking and hashing of the
finished store included.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import psutil
from tabulate import tabulate

from salient.datasets.store import prepare
from salient.datasets.twins import parse_twin_name, twin_builder

log = logging.getLogger(__name__)

NAMES = ",".join(f"synthetic:{twin}" for twin in ("small", "arxiv", "products", "papers100M@0.25"))
_WATCH_SECONDS = 0.02


class PeakMemory:
    """The most memory this process had while the context was open.

    Attributes
    ----------
    resident, private : int
        Bytes. Private memory is what is resident less what is shared with files.
    """

    def __init__(self) -> None:
        self.resident = self.private = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._done.wait(_WATCH_SECONDS):
            memory = process.memory_info()
            self.resident = max(self.resident, memory.rss)
            self.private = max(self.private, memory.rss - memory.shared)


def generate(name: str, folder: Path, threads: int) -> dict[str, Any]:
    """Make one twin in this process; return what it took."""
    began = time.perf_counter()
    with PeakMemory() as peak:
        dataset = prepare(folder, twin_builder(name, num_threads=threads))
    seconds = time.perf_counter() - began
    return {
        "name": name,
        "nodes": dataset.num_nodes,
        "edges": dataset.graph.num_edges,
        "disk": sum(path.stat().st_size for path in folder.iterdir()),
        "resident": peak.resident,
        "private": peak.private,
        "seconds": seconds,
    }


def generate_apart(name: str, root: Path, threads: int) -> dict[str, Any]:
    """Make one twin in a process of its own, and delete it; return what it took.

    Raises
    ------
    RuntimeError
        The process failed; its complaint is on the standard error stream.
    """
    folder = Path(tempfile.mkdtemp(prefix="twin-", dir=root))
    code = (
        "import json, sys; from pathlib import Path; from benchmarks.generation import generate; "
        "print(json.dumps(generate(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, name, str(folder / "set"), str(threads)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: the process that made it ended with {done.returncode}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


@click.command()
@click.option("--names", default=NAMES, show_default=True, help="Twins, with commas between.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder on the disk to write to.  [default: that of temporary files]",
)
@click.option("--threads", type=click.IntRange(min=1), help="[default: one per core]")
def main(names: str, root: Path | None, threads: int | None) -> None:
    """Make twins, one process each, and print what each took."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    chosen = names.split(",")
    try:
        for name in chosen:
            parse_twin_name(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--names") from error
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    used = threads or cores or 1
    rows = []
    for name in chosen:
        one = generate_apart(name, root or Path(tempfile.gettempdir()), used)
        log.info("%s: %.1f s", name, one["seconds"])
        rows.append(
            [
                name,
                f"{one['nodes']:,}",
                f"{one['edges']:,}",
                f"{one['disk'] / 1e6:,.1f}",
                f"{one['private'] / 1e9:.2f}",
                f"{one['resident'] / 1e9:.2f}",
                f"{one['seconds']:.1f}",
            ]
        )
    headers = ["twin", "nodes", "directed edges", "disk, MB"]
    headers += ["peak private, GB", "peak resident, GB", "s"]
    click.echo(f"\n{used} threads on {cores} cores, written into a store, one process each\n")
    click.echo(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
