"""Where a number came from: commit, machine, libraries and load, as one dictionary of JSON.

What cannot be known is null beside a reason. Libraries are looked up, never imported, so that
asking does not change what is measured. May import: standard library, ``salient._core``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_DISTRIBUTIONS = {
    "torch": "torch",
    "numpy": "numpy",
    "torch_geometric": "torch-geometric",
    "torch_sparse": "torch-sparse",
    "torch_scatter": "torch-scatter",
    "pyg_lib": "pyg-lib",
    "dgl": "dgl",
    "salient": "salient-bench",
}


def environment() -> dict[str, Any]:
    """Describe the code, the machine and its load at this moment.

    Call it before the clock starts: it runs ``git`` and ``nvidia-smi``, and the load average
    should not contain the measured work.

    Returns
    -------
    dict
        ``git`` {commit, dirty, reason}, ``machine`` {cpu_model, cores, affinity,
        memory_bytes, os, kernel, architecture, cache_bytes {level: size}}, ``python``,
        ``libraries`` {name: version or None where it is not installed},
        ``torch_threads`` {intra_op, inter_op, reason},
        ``gpus`` {names, driver, reason}, ``load_average`` (1, 5 and 15 minutes, or None),
        ``core`` {build_info, reason}. The name of the host is not in it.
    """
    return {
        "git": source_state(Path(__file__).resolve().parent.parent),
        "machine": _machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: _version(dist) for name, dist in _DISTRIBUTIONS.items()},
        "torch_threads": _torch_threads(),
        "gpus": _gpus(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "core": _core_build(),
    }


def source_state(root: Path) -> dict[str, Any]:
    """Return the commit of the checkout at ``root`` and whether it was changed.

    Parameters
    ----------
    root : Path
        Folder that holds the package ``salient``.

    Returns
    -------
    dict
        ``commit`` (40 hexadecimal digits), ``dirty`` (a tracked file differs or there is an
        untracked one that is not ignored), ``reason``. When ``root`` is not the top of a
        checkout, as in an installed package, the first two are None and ``reason`` says why:
        the commit of a repository that merely surrounds it would be another project's.
    """
    unknown: dict[str, Any] = {"commit": None, "dirty": None}
    try:
        top = Path(_run_git(root, "rev-parse", "--show-toplevel"))
        if top.resolve() != root.resolve():
            return {**unknown, "reason": "installed package, not a checkout"}
        commit = _run_git(root, "rev-parse", "--verify", "HEAD")
        dirty = _run_git(root, "status", "--porcelain") != ""
    except FileNotFoundError:
        return {**unknown, "reason": "git is not installed"}
    except subprocess.TimeoutExpired as error:
        return {**unknown, "reason": f"git did not answer within {error.timeout} s"}
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit status {error.returncode}"]
        return {**unknown, "reason": f"git: {lines[0]}"}
    return {"commit": commit, "dirty": dirty, "reason": ""}


def _run_git(root: Path, *arguments: str) -> str:
    # GIT_DIR and its like, set inside a hook, would answer for another repository.
    variables = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    variables["LC_ALL"] = "C"
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    done = subprocess.run(
        command,
        env=variables,
        check=True,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=60,
    )
    return done.stdout.strip()


def _machine() -> dict[str, Any]:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "cpu_model": _cpu_model(),
        "cores": os.cpu_count(),
        "affinity": affinity,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "os": _os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cache_bytes": _cache_bytes(),
    }


def _cache_bytes() -> dict[str, int]:
    """Return the sizes of one core's data caches by level, as far as the system tells."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (index / "type").read_text().strip()
        size = (index / "size").read_text().strip()
        if kind != "Instruction" and size.endswith("K"):
            sizes[f"L{(index / 'level').read_text().strip()}"] = int(size[:-1]) * 1024
    return sizes


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or f"unknown {platform.machine()}"


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # not a Linux distribution that says its name
        return platform.platform()


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_threads() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {"intra_op": None, "inter_op": None, "reason": "torch is not imported"}
    return {
        "intra_op": torch.get_num_threads(),
        "inter_op": torch.get_num_interop_threads(),
        "reason": "",
    }


def _gpus() -> dict[str, Any]:
    # nvidia-smi and not torch.cuda: asking torch would start CUDA in this process.
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"names": [], "driver": None, "reason": "nvidia-smi not found"}
    query = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return {"names": [], "driver": None, "reason": f"nvidia-smi: {error}"}
    rows = [line.rsplit(",", 1) for line in done.stdout.splitlines() if "," in line]
    return {
        "names": [name.strip() for name, _ in rows],
        "driver": rows[0][1].strip() if rows else None,
        "reason": "" if rows else "nvidia-smi lists no GPU",
    }


def _core_build() -> dict[str, Any]:
    try:
        core = importlib.import_module("salient._core")
    except ImportError as error:
        return {"build_info": None, "reason": f"salient._core: {error}"}
    if not hasattr(core, "build_info"):
        return {"build_info": None, "reason": "salient._core has no build_info"}
    return {"build_info": core.build_info(), "reason": ""}
