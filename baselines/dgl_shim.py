"""Imports DGL where its compiled ``graphbolt`` does not fit the installed torch.

May import: the standard library, torch.

DGL 2.1.0, the last release on PyPI, ships ``graphbolt`` compiled for torch 2.0.0 to 2.2.1, and
``import dgl`` fails with any other torch because ``dgl.distributed`` imports it. The classic data
loading and convolutions, compiled into ``libdgl.so`` without torch, do not need it. So a module
that has nothing in it is put in its place before DGL is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_GRAPHBOLT = "dgl.graphbolt"


def import_dgl() -> Any:
    """Import DGL, without its graphbolt where that was not built for the installed torch.

    Returns
    -------
    module
        ``dgl``.

    Raises
    ------
    ModuleNotFoundError
        DGL is not installed.
    Exception
        Whatever else DGL fails with. No part of it stays in ``sys.modules`` then.
    """
    if "dgl" in sys.modules:
        return sys.modules["dgl"]
    spec = importlib.util.find_spec("dgl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'dgl'", name="dgl")
    # Without it DGL writes a configuration file into the home directory.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    if not _has_graphbolt(Path(spec.origin).parent):
        sys.modules[_GRAPHBOLT] = _make_stub()
    try:
        return importlib.import_module("dgl")
    except BaseException:
        # Python removes only the package itself; a later import would build on what is left.
        for name in [name for name in sys.modules if name.split(".")[0] == "dgl"]:
            del sys.modules[name]
        raise


def graphbolt_is_stub() -> bool:
    """Return whether the imported DGL has no graphbolt of its own."""
    return sys.modules[_GRAPHBOLT].__spec__ is None


def _has_graphbolt(package: Path) -> bool:
    version = torch.__version__.split("+")[0]
    return any((package / "graphbolt").glob(f"*graphbolt_pytorch_{version}.*"))


def _make_stub() -> ModuleType:
    stub = ModuleType(_GRAPHBOLT, "Stands for graphbolt, which does not fit the installed torch.")

    def fail(name: str) -> Any:
        raise AttributeError(
            f"dgl.graphbolt.{name}: graphbolt was not built for torch {torch.__version__}; "
            "use dgl.dataloading, or a torch that DGL was built for"
        )

    stub.__getattr__ = fail  # type: ignore[method-assign]
    return stub
