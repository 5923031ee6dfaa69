"""SALIENT behind the interface of the baselines. May import: ``salient``, NumPy, torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import salient
from baselines.system import EpochLoader, SampleCounts, System
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.sampler import NeighborSampler

if TYPE_CHECKING:
    from salient import Dataset


class Salient(System):
    """SALIENT's loader, with as many threads as a baseline has worker processes, at least one."""

    name = "salient"
    label = "SALIENT"
    form = "mfg"
    fewest_workers = 1
    fanout_rule = "each hop draws up to its fanout for every node seen so far"

    def version(self) -> str:
        """Return this project's version."""
        return f"salient-bench {salient.__version__}"

    def settings(self) -> dict[str, Any]:
        """Return how the loader is used."""
        return {"sampling": "threads", "slicing": "threads", "edge_ids": False}

    def sampler(self, graph: Graph, fanouts: Sequence[int], *, seed: int) -> SampleCounts:
        """Return a sampling function; each call draws from the stream of the next batch."""
        sampler = NeighborSampler(graph, fanouts, seed=seed, form=self.form)
        calls = 0

        def sample(seeds: NDArray[np.int64]) -> tuple[int, int]:
            nonlocal calls
            batch = sampler.sample(seeds, batch=calls)
            calls += 1
            return batch.num_nodes, batch.num_edges

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
        return EpochLoader(
            NeighborLoader(
                (dataset.graph, dataset.x, dataset.y),
                fanouts,
                input_nodes=nodes,
                batch_size=batch_size,
                shuffle=shuffle,
                seed=seed,
                num_threads=max(num_workers, self.fewest_workers),
                form=self.form,
            ),
            to_batch=lambda batch: batch,
        )
