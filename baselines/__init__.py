"""The systems that the benchmarks compare, and which of them work here.

May import: ``salient``; a baseline's own module, and with it the library, only when asked for.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import torch

from baselines.system import System

# Name: module, class, how to make it work.
_REGISTRY = {
    "pyg_classic": (
        "baselines.pyg_classic",
        "PygClassic",
        "install torch-geometric, torch-scatter and torch-sparse, built for the installed torch",
    ),
    "pyg": (
        "baselines.pyg_neighbor_loader",
        "PygNeighborLoader",
        "install torch-geometric with pyg-lib or torch-sparse, built for the installed torch",
    ),
    "dgl": (
        "baselines.dgl_system",
        "Dgl",
        "install dgl 2.1.0 with --no-deps and its requirements",
    ),
    "salient": ("baselines.ours", "Salient", "install this project: pip install ."),
}

SYSTEMS = tuple(_REGISTRY)
_working: dict[str, System] = {}


class BaselineUnavailable(NotImplementedError):
    """A system cannot be used here.

    A NotImplementedError, because asv takes that in ``setup`` for "not applicable".

    Attributes
    ----------
    name, reason, remedy : str
        The system, what went wrong ("ExceptionType: message"), what to do about it.
    """

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} is not available: {reason}; to use it, {remedy}")
        self.name = name
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Availability:
    """Whether a system works here.

    Parameters
    ----------
    ok : bool
    version : str or None
        Versions of the packages that do the work; None if it does not work.
    reason : str
        "ExceptionType: message" if it does not work, else empty.
    remedy : str
        What to do then.
    """

    ok: bool
    version: str | None
    reason: str = ""
    remedy: str = ""


def get_system(name: str) -> System:
    """Return a system after it has sampled a small graph correctly.

    Parameters
    ----------
    name : str
        One of ``SYSTEMS``.

    Raises
    ------
    ValueError
        No system has this name.
    BaselineUnavailable
        It cannot be imported or does not sample, for whatever reason.
    """
    if name not in _REGISTRY:
        raise ValueError(f"name: {name!r} is no system, expected one of {', '.join(SYSTEMS)}")
    if name not in _working:
        module, class_name, remedy = _REGISTRY[name]
        # Compiled libraries fail in many ways: a missing symbol is an OSError, a version check
        # may call sys.exit. None of them may stop the other systems.
        try:
            system: System = getattr(importlib.import_module(module), class_name)()
            _probe(system)
        except (Exception, SystemExit) as error:
            message = next(iter(str(error).strip().splitlines()), "no message")
            raise BaselineUnavailable(name, f"{type(error).__name__}: {message}", remedy) from error
        _working[name] = system
    return _working[name]


def availability() -> dict[str, Availability]:
    """Return for each system whether it works here, found out by sampling with it."""
    return {name: _try(name) for name in SYSTEMS}


def _try(name: str) -> Availability:
    try:
        return Availability(True, get_system(name).version())
    except BaselineUnavailable as error:
        return Availability(False, None, error.reason, error.remedy)


def _probe(system: System) -> None:
    """Sample the path 2 -> 1 -> 0 from node 0; RuntimeError if the result is wrong."""
    from salient.graph import Graph

    graph = Graph.from_edge_index(np.array([[1, 2], [0, 1]]), num_nodes=3)
    # Expanding all nodes seen draws 1 -> 0 in both hops.
    expected = (3, 3 if system.form == "mfg" else 2)
    with torch.random.fork_rng(devices=[]):
        sampled = system.sampler(graph, [1, 1], seed=0)(np.array([0]))
    if sampled != expected:
        raise RuntimeError(
            f"sampled {sampled} nodes and edges from a path of 3 nodes, expected {expected}"
        )
