"""SALIENT: fast neighbour sampling and batch preparation for graph neural networks.

Each stage is a module whose first lines say what it holds and may import; the data flows from
datasets through graph, sampler, loader and models to the trainer and the result records. The
public names below are imported at first use, so that reading records needs no torch.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from salient import models
    from salient.batch import MFG, Batch, SampledBatch
    from salient.datasets import Dataset, load_dataset
    from salient.graph import Graph
    from salient.loader import NeighborLoader
    from salient.sampler import NeighborSampler
    from salient.tables import gather_rows
    from salient.transfer import DevicePrefetcher

__version__ = version("salient-bench")

__all__ = [
    "MFG",
    "Batch",
    "Dataset",
    "DevicePrefetcher",
    "Graph",
    "NeighborLoader",
    "NeighborSampler",
    "SampledBatch",
    "gather_rows",
    "load_dataset",
    "models",
]

_HOMES = {
    "MFG": "batch",
    "Batch": "batch",
    "SampledBatch": "batch",
    "Dataset": "datasets",
    "load_dataset": "datasets",
    "Graph": "graph",
    "NeighborLoader": "loader",
    "NeighborSampler": "sampler",
    "gather_rows": "tables",
    "DevicePrefetcher": "transfer",
}


def __getattr__(name: str) -> Any:
    if name == "models":
        return importlib.import_module("salient.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'salient' has no attribute {name!r}")
    return getattr(importlib.import_module(f"salient.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
