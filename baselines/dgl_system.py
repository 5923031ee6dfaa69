"""The DGL baseline: ``dgl.dataloading.NeighborSampler`` and ``DataLoader``.

May import: dgl (by the shim), NumPy, torch, ``salient.batch``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baselines.dgl_shim import graphbolt_is_stub, import_dgl
from baselines.system import ConversionCache, EpochLoader, SampleCounts, System, versions
from salient.batch import MFG, Batch, StageTimes
from salient.graph import Graph

if TYPE_CHECKING:
    from salient import Dataset

dgl = import_dgl()

_INT32_MAX = 2**31 - 1


class _TimedSampler(dgl.dataloading.NeighborSampler):  # type: ignore[misc, name-defined]
    """The stock class; each item carries the seconds its sampling took in the worker."""

    def sample(self, g: Any, seed_nodes: Tensor) -> tuple[Tensor, Tensor, list[Any], Tensor]:
        start = time.perf_counter()
        input_nodes, output_nodes, blocks = super().sample(g, seed_nodes)
        # As a tensor, because the loader calls ``.to(device)`` on all that a sampler returns.
        seconds = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
        return input_nodes, output_nodes, blocks, seconds


class Dgl(System):
    """DGL's neighbour sampling as in its GraphSAGE example.

    Worker processes sample; the main process slices features and labels. Set up in the
    baseline's favour: only the CSC format is kept; ids are int32 where the graph allows, which
    halves sampling time; workers are kept between epochs; torch's default start method. DGL's
    "fused" sampler is off: with int32 ids it returns wrong graphs from the second batch on, and
    with int64 ids it is slower than this. (DGL itself leaves it on the side on a single thread,
    that is, in all workers.)

    DGL reads its list of fanouts reversed, the last entry for the seeds; the adapter turns ours.
    """

    name = "dgl"
    label = "DGL"
    form = "mfg"
    fanout_rule = "each hop draws up to its fanout for every node seen so far"

    def __init__(self) -> None:
        self._converted = ConversionCache(_to_dgl)

    def version(self) -> str:
        """Return DGL's version."""
        return versions("dgl")

    def settings(self) -> dict[str, Any]:
        """Return how the stock classes are used."""
        return {
            "sampling": "worker processes",
            "slicing": "main process",
            "edge_ids": True,
            "persistent_workers": True,
            "id_type": "int32 if the graph has fewer than 2**31 nodes and edges, else int64",
            "fused_sampling": False,
            "graphbolt": "replaced by a stub" if graphbolt_is_stub() else "present",
        }

    def sampler(self, graph: Graph, fanouts: Sequence[int], *, seed: int) -> SampleCounts:
        """Return a sampling function; ``seed`` goes to DGL's generator of this process."""
        dgl.seed(seed)
        converted = self._converted(graph)
        stock = dgl.dataloading.NeighborSampler(list(reversed(fanouts)), fused=False)

        def sample(seeds: NDArray[np.int64]) -> tuple[int, int]:
            num_threads = dgl.utils.get_num_threads()
            dgl.utils.set_num_threads(1)
            try:
                ids = torch.from_numpy(seeds).to(converted.idtype)
                input_nodes, _, blocks = stock.sample(converted, ids)
            finally:
                dgl.utils.set_num_threads(num_threads)
            return input_nodes.numel(), sum(block.num_edges() for block in blocks)

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
        converted = self._converted(dataset.graph)
        stock = dgl.dataloading.DataLoader(
            converted,
            nodes.to(converted.idtype),
            _TimedSampler(fanouts[::-1], fused=False),
            batch_size=batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            worker_init_fn=_seed_worker,
            generator=torch.Generator().manual_seed(seed),
        )
        if num_workers == 0:
            dgl.seed(seed)

        def to_batch(item: tuple[Tensor, Tensor, list[Any], Tensor]) -> Batch:
            input_nodes, output_nodes, blocks, sample_seconds = item
            mfgs = [_to_mfg(block) for block in blocks]
            start = time.perf_counter()
            x = dataset.x[input_nodes]
            y = dataset.y[output_nodes]
            gather_seconds = time.perf_counter() - start
            return Batch(
                n_id=input_nodes.long(),
                mfgs=mfgs,
                batch_size=mfgs[-1].num_dst,
                num_sampled_nodes=[
                    mfgs[-1].num_dst,
                    *(mfg.num_src - mfg.num_dst for mfg in reversed(mfgs)),
                ],
                num_sampled_edges=[mfg.num_edges for mfg in reversed(mfgs)],
                x=x,
                y=y,
                times=StageTimes(float(sample_seconds), gather_seconds),
            )

        return EpochLoader(stock, to_batch, starting=lambda epoch: _numpy_seed(seed, epoch))


def _to_dgl(graph: Graph) -> Any:
    small = max(graph.num_nodes, graph.num_edges) <= _INT32_MAX
    dtype = torch.int32 if small else torch.int64
    csc = (
        torch.from_numpy(graph.indptr).to(dtype),
        torch.from_numpy(graph.indices).to(dtype),
        torch.empty(0, dtype=dtype),  # edge ids: in order
    )
    # Without the restriction a loader with workers would make two more formats of the graph.
    return dgl.graph(("csc", csc), num_nodes=graph.num_nodes, idtype=dtype).formats("csc")


def _to_mfg(block: Any) -> MFG:
    # The format DGL's own convolutions compute with.
    indptr, indices, _ = block.adj_tensors("csc")
    return MFG(
        indptr.to(torch.int32),
        indices.to(torch.int32),
        block.num_src_nodes(),
        block.num_dst_nodes(),
    )


def _seed_worker(worker: int) -> None:
    # A forked worker would start from a copy of its parent's generator, like its siblings.
    dgl.seed(torch.initial_seed() % _INT32_MAX)


@contextmanager
def _numpy_seed(seed: int, epoch: int) -> Iterator[None]:
    """Seed the generator that DGL shuffles with, NumPy's global one, for the time of a shuffle."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed([seed % 2**32, epoch])  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
