"""Batch preparation for the ladder: either sampler, in worker processes or in threads.

May import: baselines, salient, NumPy, torch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from baselines import get_system
from salient.batch import Batch, StageTimes
from salient.config import TrainConfig
from salient.datasets import Dataset
from salient.loader import NeighborLoader
from salient.sampler import NeighborSampler
from salient.tables import gather_rows

PREFETCH = 2  # batches ahead per worker process: torch's own default


class Source(Protocol):
    """Batches of the training split; each iteration is an epoch in a new order."""

    def __iter__(self) -> Iterator[Batch]: ...

    def close(self) -> None:
        """Stop the workers."""
        ...


class _Request(NamedTuple):
    """A batch to prepare."""

    epoch: int
    number: int
    seeds: Tensor


class _Plan:
    """The requests of an epoch, in a new order of the seeds for each epoch."""

    def __init__(self, nodes: Tensor, batch_size: int, seed: int) -> None:
        self.nodes, self.batch_size, self.seed = nodes, batch_size, seed
        self.epoch = 0

    def __len__(self) -> int:
        return -(-self.nodes.numel() // self.batch_size)

    def __iter__(self) -> Iterator[_Request]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = np.random.default_rng([self.seed, epoch]).permutation(self.nodes.numel())
        for number, seeds in enumerate(self.nodes[torch.from_numpy(order)].split(self.batch_size)):
            yield _Request(epoch, number, seeds)


class _FastPreparation(torch.utils.data.Dataset[Batch]):
    """Our sampler and slicing, one batch at a time in whatever process asks."""

    def __init__(self, dataset: Dataset, config: TrainConfig) -> None:
        self.dataset = dataset
        self.sampler = NeighborSampler(dataset.graph, config.fanouts, seed=config.seed)

    def __getitem__(self, request: _Request) -> Batch:
        began = time.perf_counter()
        sample = self.sampler.sample(request.seeds, request.epoch, request.number)
        sampled = time.perf_counter()
        x = gather_rows(self.dataset.x, sample.n_id)
        y = self.dataset.y[request.seeds]
        return Batch(
            sample.n_id,
            sample.mfgs,
            sample.batch_size,
            sample.num_sampled_nodes,
            sample.num_sampled_edges,
            x,
            y,
            StageTimes(sampled - began, time.perf_counter() - sampled),
        )


class _Processes:
    """Our sampler in torch's worker processes, which slice too and send whole batches."""

    def __init__(self, dataset: Dataset, nodes: Tensor, config: TrainConfig, workers: int) -> None:
        self._loader: Any = torch.utils.data.DataLoader(
            _FastPreparation(dataset, config),
            batch_size=None,
            sampler=_Plan(nodes, config.batch_size, config.seed),
            collate_fn=_as_it_is,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._loader)

    def close(self) -> None:
        self._loader._iterator = None
        self._loader = None


def _as_it_is(batch: Any) -> Any:
    return batch


class _Threads:
    """Python threads that prepare batches in shared memory, in order."""

    def __init__(self, prepare: Callable[[Tensor], Batch], plan: _Plan, workers: int) -> None:
        self._prepare, self._plan, self._workers = prepare, plan, workers
        self._pool = ThreadPoolExecutor(workers)

    def __iter__(self) -> Generator[Batch, None, None]:
        ahead: deque[Future[Batch]] = deque()
        try:
            for request in self._plan:
                ahead.append(self._pool.submit(self._prepare, request.seeds))
                if len(ahead) >= (1 + PREFETCH) * self._workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def close(self) -> None:
        self._pool.shutdown()


class _OurLoader(NeighborLoader):
    """Our loader, which has nothing to close between epochs."""

    def close(self) -> None:
        """Do nothing."""


def make_source(
    sampler: str, preparation: str, dataset: Dataset, config: TrainConfig, workers: int
) -> Source:
    """Return the training batches, prepared in one of four ways.

    Parameters
    ----------
    sampler : {"pyg", "salient"}
        PyG's classic ``NeighborSampler``, or ours.
    preparation : {"processes", "threads"}
        Worker processes as torch's ``DataLoader`` has them, or threads in shared memory. The stock
        sampler's worker processes only sample, and the loop slices; everywhere else, workers slice.
    workers : int
        Processes or threads, at least 1.

    Raises
    ------
    BaselineUnavailable
        PyG's sampler does not work here.
    """
    nodes = torch.as_tensor(dataset.split_idx["train"])
    if sampler == "pyg":
        system: Any = get_system("pyg_classic")
        if preparation == "processes":
            loader: Source = system.loader(
                dataset,
                nodes,
                config.fanouts,
                config.batch_size,
                shuffle=True,
                num_workers=workers,
                seed=config.seed,
            )
            return loader
        plan = _Plan(nodes, config.batch_size, config.seed)
        return _Threads(system.preparation(dataset, config.fanouts), plan, workers)
    if preparation == "processes":
        return _Processes(dataset, nodes, config, workers)
    return _OurLoader(
        (dataset.graph, dataset.x, dataset.y),
        config.fanouts,
        input_nodes=nodes,
        batch_size=config.batch_size,
        shuffle=True,
        seed=config.seed,
        num_threads=workers,
    )


SAMPLERS: Sequence[str] = ("pyg", "salient")
PREPARATIONS: Sequence[str] = ("processes", "threads")
