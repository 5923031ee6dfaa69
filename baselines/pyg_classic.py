"""The baseline of the paper: PyG's classic ``NeighborSampler``, on torch-sparse.

May import: torch_geometric, torch_sparse, torch, ``salient.batch``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.loader import NeighborSampler
from torch_sparse import SparseTensor

from baselines.system import (
    TORCH_SPARSE_BIAS,
    ConversionCache,
    EpochLoader,
    SampleCounts,
    System,
    versions,
)
from salient.batch import MFG, Batch, StageTimes
from salient.graph import Graph

if TYPE_CHECKING:
    from salient import Dataset


class _TimedSampler(NeighborSampler):  # type: ignore[misc]  # untyped library
    """The stock class; each item carries the seconds its sampling took in the worker."""

    def sample(self, batch: Any) -> tuple[Any, float]:
        start = time.perf_counter()
        sampled = super().sample(batch)
        return sampled, time.perf_counter() - start


class PygClassic(System):
    """PyG's ``NeighborSampler`` used as in the authors' and OGB's examples.

    Worker processes sample; the main process slices features and labels. Set up in the
    baseline's favour: the graph is handed over as a ``SparseTensor`` without values, so that no
    edge ids travel from workers, and layers arrive in CSR form without sorting; workers are kept
    between epochs; torch's default start method. The seeds are shuffled anew each epoch, which
    the paper's artifact did not do.
    """

    name = "pyg_classic"
    label = "PyG NeighborSampler (classic)"
    form = "mfg"
    fanout_rule = "each hop draws up to its fanout for every node seen so far"

    def __init__(self) -> None:
        self._converted = ConversionCache(_to_sparse_tensor)

    def version(self) -> str:
        """Return the versions of PyG and of the library that samples."""
        return versions("torch-geometric", "torch-sparse")

    def settings(self) -> dict[str, Any]:
        """Return how the stock class is used."""
        return {
            "sampling": "worker processes",
            "slicing": "main process",
            "edge_ids": False,
            "persistent_workers": True,
            "known_bias": TORCH_SPARSE_BIAS,
        }

    def sampler(self, graph: Graph, fanouts: Sequence[int], *, seed: int) -> SampleCounts:
        """Return a sampling function; ``seed`` goes to torch's global generator."""
        torch.manual_seed(seed)
        stock = NeighborSampler(self._converted(graph), sizes=list(fanouts), return_e_id=False)

        def sample(seeds: NDArray[np.int64]) -> tuple[int, int]:
            _, n_id, layers = stock.sample(torch.from_numpy(seeds))
            return n_id.numel(), sum(layer.adj_t.nnz() for layer in _as_list(layers))

        return sample

    def _make_loader(
        self,
        dataset: Dataset,
        nodes: Tensor,
        fanouts: list[int],
        batch_size: int,
        *,
        shuffle: bool,
        num_workers: int,
        seed: int,
    ) -> EpochLoader:
        stock = _TimedSampler(
            self._converted(dataset.graph),
            sizes=fanouts,
            node_idx=nodes,
            return_e_id=False,
            batch_size=batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            generator=torch.Generator().manual_seed(seed),
        )

        return EpochLoader(stock, lambda item: _to_batch(dataset, item))

    def preparation(self, dataset: Dataset, fanouts: Sequence[int]) -> Callable[[Tensor], Batch]:
        """Return a function that prepares the batch of some seeds; threads may share it."""
        stock = _TimedSampler(
            self._converted(dataset.graph), sizes=list(fanouts), return_e_id=False
        )
        return lambda seeds: _to_batch(dataset, stock.sample(seeds))


def _to_batch(dataset: Dataset, item: tuple[Any, float]) -> Batch:
    (num_seeds, n_id, layers), sample_seconds = item
    mfgs = [_to_mfg(layer) for layer in _as_list(layers)]
    start = time.perf_counter()
    x = dataset.x[n_id]
    y = dataset.y[n_id[:num_seeds]]
    gather_seconds = time.perf_counter() - start
    return Batch(
        n_id=n_id,
        mfgs=mfgs,
        batch_size=num_seeds,
        num_sampled_nodes=[num_seeds, *(g.num_src - g.num_dst for g in reversed(mfgs))],
        num_sampled_edges=[g.num_edges for g in reversed(mfgs)],
        x=x,
        y=y,
        times=StageTimes(sample_seconds, gather_seconds),
    )


def _to_sparse_tensor(graph: Graph) -> Any:
    # The transposed adjacency matrix, as the stock class wants it: its rows are our columns.
    return SparseTensor(
        rowptr=torch.from_numpy(graph.indptr),
        col=torch.from_numpy(graph.indices).long(),
        sparse_sizes=(graph.num_nodes, graph.num_nodes),
        is_sorted=True,
        trust_data=True,
    )


def _as_list(layers: Any) -> list[Any]:
    # With a single hop the stock class returns the layer itself, which is a tuple too.
    return layers if isinstance(layers, list) else [layers]


def _to_mfg(layer: Any) -> MFG:
    indptr, indices, _ = layer.adj_t.csr()
    num_src, num_dst = layer.size
    return MFG(indptr.to(torch.int32), indices.to(torch.int32), num_src, num_dst)
