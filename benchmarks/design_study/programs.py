"""Builds and runs the two C++ programs of the study. May import: standard library."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "design_study"
log = logging.getLogger(__name__)


class BuildError(RuntimeError):
    """The programs cannot be built here; the message says why and what to do."""


def build(folder: Path = BUILD, *, swiss: bool = True, targets: tuple[str, ...] = ()) -> Path:
    """Build the programs in ``folder``, which keeps what is up to date, and return it.

    Parameters
    ----------
    folder : Path
    swiss : bool
        Look for abseil's hash map; without it those variants are recorded as not available.
    targets : tuple of str
        Programs to build; by default both.

    Raises
    ------
    BuildError
        CMake is missing or says no.
    """
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildError("cmake is not installed; install it, for example with: pip install cmake")
    source = Path(__file__).resolve().parent
    option = f"-DDESIGN_STUDY_SWISS={'ON' if swiss else 'OFF'}"
    wanted = [part for target in targets for part in ("--target", target)]
    for command in (
        [cmake, "-S", str(source), "-B", str(folder), option],
        [cmake, "--build", str(folder), "--parallel", str(os.cpu_count() or 1), *wanted],
    ):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            tail = "\n".join(done.stdout.splitlines()[-20:])
            raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")
    return folder


def run_json(program: Path, *arguments: str | int | Path) -> list[dict[str, Any]]:
    """Run a program that prints a JSON list; its messages go to the terminal.

    Raises
    ------
    RuntimeError
        It ended with an error, which it has printed.
    """
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with status {done.returncode}; see its message")
    parsed: list[dict[str, Any]] = json.loads(done.stdout)
    return parsed
