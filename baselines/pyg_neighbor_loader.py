"""The baseline of today's users: PyG's ``NeighborLoader``, on pyg-lib or torch-sparse.

May import: torch_geometric, torch, ``salient.batch``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch_geometric.typing
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

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


class _TimedLoader(NeighborLoader):  # type: ignore[misc]  # untyped library
    """The stock class; each item carries the seconds its sampling and slicing took."""

    def collate_fn(self, index: list[int]) -> Data:
        start = time.perf_counter()
        data = super().collate_fn(index)
        data.sample_seconds = time.perf_counter() - start - data.gather_seconds
        return data

    def filter_fn(self, out: Any) -> Data:
        start = time.perf_counter()
        data = super().filter_fn(out)
        data.gather_seconds = time.perf_counter() - start
        return data


class PygNeighborLoader(System):
    """PyG's ``NeighborLoader`` with its defaults.

    Worker processes sample, and slice features and labels into shared memory, as is the default
    for data on the CPU. Set up in the baseline's favour: edges are handed over sorted, so that
    the loader keeps no permutation; workers are kept between epochs; torch's default start
    method.

    Without pyg-lib the loader does not tell which edges belong to which hop, so that is read
    from their order: both libraries expand nodes in the order of their local ids.
    """

    name = "pyg"
    label = "PyG NeighborLoader"
    form = "subgraph"
    fanout_rule = "each hop draws up to its fanout, only for the nodes that the last hop added"

    def __init__(self) -> None:
        self._edge_index = ConversionCache(lambda graph: graph.edge_index)

    def version(self) -> str:
        """Return the versions of PyG and of the library that samples."""
        return versions("torch-geometric", self._sampling_library())

    def settings(self) -> dict[str, Any]:
        """Return how the stock class is used."""
        biased = self._sampling_library() == "torch-sparse"
        return {
            "sampling": f"worker processes, by {self._sampling_library()}",
            "slicing": "worker processes",
            "edge_ids": True,
            "persistent_workers": True,
            "known_bias": TORCH_SPARSE_BIAS if biased else None,
        }

    @staticmethod
    def _sampling_library() -> str:
        return "pyg-lib" if torch_geometric.typing.WITH_PYG_LIB else "torch-sparse"

    def sampler(self, graph: Graph, fanouts: Sequence[int], *, seed: int) -> SampleCounts:
        """Return a sampling function; ``seed`` goes to torch's global generator."""
        torch.manual_seed(seed)
        data = Data(edge_index=self._edge_index(graph), num_nodes=graph.num_nodes)
        stock = NeighborSampler(data, list(fanouts), is_sorted=True)

        def sample(seeds: NDArray[np.int64]) -> tuple[int, int]:
            request = NodeSamplerInput(input_id=None, node=torch.from_numpy(seeds))
            sampled = stock.sample_from_nodes(request)
            return sampled.node.numel(), sampled.row.numel()

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
        data = Data(
            x=dataset.x,
            y=dataset.y,
            edge_index=self._edge_index(dataset.graph),
            num_nodes=dataset.graph.num_nodes,
        )
        stock = _TimedLoader(
            data,
            fanouts,
            input_nodes=nodes,
            is_sorted=True,
            batch_size=batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            generator=torch.Generator().manual_seed(seed),
        )
        num_hops = len(fanouts)
        return EpochLoader(stock, lambda data: _to_batch(data, num_hops))


def _to_batch(data: Data, num_hops: int) -> Batch:
    nodes_after, edges_after = _split_hops(data.edge_index, data.batch_size, num_hops)
    # The nodes of the last hop are not expanded: no edge ends at them.
    whole = MFG.from_edge_index(data.edge_index, nodes_after[-1], nodes_after[-2])
    mfgs = [
        MFG(
            whole.indptr[: num_dst + 1],
            whole.indices[:num_edges],
            num_src,
            num_dst,
        )
        for num_dst, num_src, num_edges in zip(
            nodes_after[:-1], nodes_after[1:], edges_after[1:], strict=True
        )
    ]
    return Batch(
        n_id=data.n_id,
        mfgs=mfgs[::-1],
        batch_size=data.batch_size,
        num_sampled_nodes=np.diff(nodes_after, prepend=0).tolist(),
        num_sampled_edges=np.diff(edges_after).tolist(),
        x=data.x,
        y=data.y[: data.batch_size],
        times=StageTimes(data.sample_seconds, data.gather_seconds),
    )


def _split_hops(edge_index: Tensor, num_seeds: int, num_hops: int) -> tuple[list[int], list[int]]:
    """Return the numbers of nodes and of edges after 0, 1, ... hops.

    A hop expands the nodes that the last one added, so its edges are the next ones that end at
    a node known so far; the nodes it adds get the next local ids.

    Raises
    ------
    RuntimeError
        The edges are not in the order in which nodes were expanded.
    """
    src, dst = edge_index
    if bool((dst[1:] < dst[:-1]).any()):
        raise RuntimeError(
            "NeighborLoader's edges are not sorted by destination, so hops cannot be told "
            "apart; use a version of torch-geometric named in constraints.txt"
        )
    nodes_after, edges_after = [num_seeds], [0]
    for _ in range(num_hops):
        end = int(torch.searchsorted(dst, nodes_after[-1]))
        added = src[edges_after[-1] : end]
        known = max(nodes_after[-1], int(added.max()) + 1) if added.numel() else nodes_after[-1]
        nodes_after.append(known)
        edges_after.append(end)
    return nodes_after, edges_after
