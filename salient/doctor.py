"""What works on this machine, and what to do about what does not. May import every stage."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from salient.provenance import environment


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Parameters
    ----------
    name : str
    status : {"ok", "missing", "broken"}
        ``missing`` is something optional; ``broken`` is something that must work.
    detail : str
    remedy : str
        What to do; empty where nothing needs doing.
    """

    name: str
    status: str
    detail: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """Yield a finding for each part, in the order in which data flows through them."""
    env = environment()
    libraries = env["libraries"]
    yield Finding("python", "ok", f"{env['python']} on {env['machine']['os']}")
    for name, remedy in (
        ("torch", "pip install torch"),
        ("numpy", "pip install numpy"),
        ("torch_geometric", "the models need it: pip install 'salient-bench[pyg]'"),
    ):
        version = libraries[name]
        yield Finding(
            name,
            "ok" if version else "missing",
            version or "not installed",
            "" if version else remedy,
        )
    yield _core()
    yield _threads()
    gpus = env["gpus"]
    yield Finding(
        "gpu",
        "ok" if gpus["names"] else "missing",
        ", ".join(gpus["names"] or []) or str(gpus["reason"]),
        "" if gpus["names"] else "everything but the GPU measurements works without one",
    )
    yield from _baselines()


def _core() -> Finding:
    try:
        from salient import _core
        from salient.graph import Graph
        from salient.sampler import NeighborSampler

        info = _core.build_info()
        graph = Graph.from_edge_index(np.array([[1, 2], [0, 1]]), num_nodes=3)
        nodes = NeighborSampler(graph, [-1, -1]).sample([0]).n_id.tolist()
    except Exception as error:  # whatever it is, it must be shown and not end the examination
        return Finding(
            "core",
            "broken",
            f"{type(error).__name__}: {error}",
            "build it anew: pip install --force-reinstall --no-deps .",
        )
    if nodes != [0, 1, 2]:
        return Finding(
            "core",
            "broken",
            f"sampled nodes {nodes} of a path, expected [0, 1, 2]",
            "build it anew: pip install --force-reinstall --no-deps .",
        )
    return Finding(
        "core",
        "ok",
        f"{info['version']}, {info['compiler']}, flags {info['flags']}"
        f"{' -march=native' if info['native'] else ''}, AVX2 {'on' if info['avx2'] else 'off'}",
    )


def _threads() -> Finding:
    import torch

    usable, cores = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    detail = f"{usable} of {cores} cores usable, torch uses {torch.get_num_threads()} threads"
    if usable < cores:
        return Finding("threads", "ok", detail, "the affinity mask hides cores: see taskset -p")
    return Finding("threads", "ok", detail)


def _baselines() -> Iterator[Finding]:
    """Ask the baselines in a process of their own, which a broken library may bring down."""
    if importlib.util.find_spec("baselines") is None:
        yield Finding(
            "baselines", "missing", "not in this folder", "run from a checkout of the project"
        )
        return
    done = subprocess.run(
        [sys.executable, "-m", "baselines", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        yield Finding(
            "baselines",
            "broken",
            f"exit code {done.returncode}: {done.stderr[-500:]}",
            "run python -m baselines to see more",
        )
        return
    for name, answer in json.loads(done.stdout).items():
        yield Finding(
            f"baseline {name}",
            "ok" if answer["ok"] else "missing",
            answer["version"] if answer["ok"] else answer["reason"],
            answer["remedy"],
        )
