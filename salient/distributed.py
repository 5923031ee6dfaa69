"""Ranks of a distributed run: who they are, what they share and how they add up.

One process is a world of size 1, in which nothing of torch.distributed is touched. May import:
config, datasets, device, heartbeat, torch.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous

from salient.config import RANK_TIMEOUT
from salient.datasets import Dataset
from salient.datasets.store import open_store, save_store
from salient.device import device_of_rank
from salient.heartbeat import Heartbeat

# A rank that is slow is waited for: it may download a data set, or read from slow storage. One that
# has failed is noticed by other means, see `joined_world` and `watched`.
_PATIENCE = timedelta(days=7)
# Time for the launcher to see which rank failed first, before those that lost it fail too.
_LAST_WORDS_SECONDS = 2.0


@dataclass(frozen=True)
class World:
    """The processes of a run, and this one's place among them.

    Parameters
    ----------
    rank, size : int
        Among all processes.
    local_rank, local_size : int
        Among those of this host.
    gradients : ProcessGroup, optional
        Over which the training steps communicate; None for one process.
    control : ProcessGroup, optional
        Over which counts and objects go, from CPU memory; None for torch's default group.
    store : Store, optional
        Of all ranks; None for one process.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    gradients: Any = None
    control: Any = None
    store: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this rank speaks and writes files for all."""
        return self.rank == 0

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all ranks."""
        total = torch.tensor(values, dtype=torch.int64)
        if self.size > 1:
            dist.all_reduce(total, group=self.control)
        return [int(value) for value in total]

    def gather(self, value: Any) -> list[Any]:
        """Return the value of every rank, in their order; it must be picklable."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.size > 1:
            dist.barrier(group=self.control)

    def share_buffers(self, model: nn.Module) -> None:
        """Give all ranks rank 0's buffers, such as running means of a batch normalisation."""
        if self.size > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0, group=self.gradients)

    def require_agreement(self, what: str, value: dict[str, Any]) -> None:
        """Raise ValueError on every rank, with the difference, if a rank has another value."""
        values = self.gather((socket.gethostname(), value))
        first_host, first = values[0]
        for rank, (host, other) in enumerate(values):
            differing = [key for key in first if other.get(key) != first[key]]
            if differing:
                key = differing[0]
                raise ValueError(
                    f"{what}: {key} is {first[key]!r} on rank 0 ({first_host}), but "
                    f"{other.get(key)!r} on rank {rank} ({host}); start all hosts with the same "
                    "settings and data"
                )


ALONE = World()


def is_launched() -> bool:
    """Whether torchrun started this process."""
    return dist.is_available() and dist.is_torchelastic_launched()


@contextmanager
def joined_world(device: str) -> Iterator[World]:
    """Join the other processes that torchrun started, for the length of the context.

    If another process ends before, whatever waits for it raises RuntimeError at once; see
    :func:`watched` for hosts that vanish.

    Parameters
    ----------
    device : str
        ``"cuda"``, on which each rank trains with its own device and NCCL, or ``"cpu"``, with gloo.

    Raises
    ------
    ValueError
        There is no such device, or there are more ranks on this host than devices.
    RuntimeError
        Another rank failed; the message says so.
    """
    if not is_launched():
        yield ALONE
        return
    local_rank, local_size = (int(os.environ[k]) for k in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    on_gpu = device_of_rank(device, local_rank, local_size).type == "cuda"
    with _lost_ranks_explained():
        store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
        # Counts, objects and waiting go over gloo, also where gradients go over NCCL.
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_PATIENCE)
        gradients = dist.new_group(backend="nccl" if on_gpu else "gloo", timeout=_PATIENCE)
        yield World(rank, size, local_rank, local_size, gradients, store=store)
        dist.barrier()
        # Only here: after a failure, closing could wait for a rank that is no more.
        dist.destroy_process_group()


@contextmanager
def watched(world: World, patience: float = RANK_TIMEOUT) -> Iterator[None]:
    """End this process, with a message, if a rank of another host vanishes meanwhile.

    Parameters
    ----------
    world : World
        All its ranks enter and leave the context.
    patience : float
        Seconds without a sign of life, in (0, 1e6].

    Raises
    ------
    ValueError
        The time is out of range.
    """
    if not 0 < patience <= 1e6:
        raise ValueError(f"rank_timeout: is {patience}, expected seconds in (0, 1e6]")
    if world.size == 1:
        yield
        return
    heartbeat = Heartbeat(world.store, world.rank, world.size, patience)
    world.barrier()
    heartbeat.start()
    try:
        yield
        world.barrier()
    finally:
        heartbeat.stop()


@contextmanager
def _lost_ranks_explained() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not _is_lost_contact(error):
            raise
        time.sleep(_LAST_WORDS_SECONDS)
        where = f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on {socket.gethostname()}"
        raise RuntimeError(
            f"{where}: lost another rank, whose own message says why; `--resume` continues after "
            f"the last finished epoch. ({str(error).splitlines()[0]})"
        ) from error


def _is_lost_contact(error: RuntimeError) -> bool:
    """Whether an error is of the communication; gloo's have no type of their own."""
    kinds = tuple(
        getattr(dist, name) for name in ("DistError", "DistBackendError") if hasattr(dist, name)
    )
    return isinstance(error, kinds) or "gloo" in str(error) or "NCCL" in str(error)


def load_once_per_host(world: World, load: Callable[[], Dataset]) -> Dataset:
    """Load a data set so that the ranks of a host share one copy of its arrays.

    The first rank of each host loads it. The others open a store by themselves, since its pages are
    shared by all that map them; a set in memory is stored in a temporary folder first, which is
    gone as soon as all have mapped it. (``TMPDIR`` chooses where; it needs room for the set.)

    Parameters
    ----------
    world : World
    load : callable
        Gives the data set; called by every rank only if that maps files.

    Raises
    ------
    ValueError
        Hosts have different data under the same name.
    """
    if world.size == 1:
        return load()
    temporary: Path | None = None
    dataset: Dataset | None = None
    if world.local_rank == 0:
        dataset = load()
        if world.local_size > 1 and not _is_mapped(dataset):
            temporary = Path(tempfile.mkdtemp(prefix="salient-shared-"))
    try:
        if temporary is not None and dataset is not None:
            dataset = save_store(temporary / "store", dataset)
        folders = world.gather(temporary)
        if dataset is None:
            folder = folders[world.rank - world.local_rank]  # torchrun numbers host by host
            dataset = load() if folder is None else open_store(folder / "store")
        world.barrier()
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    world.require_agreement("data set", {"sha256": dataset.description["sha256"]})
    return dataset


def _is_mapped(dataset: Dataset) -> bool:
    base: Any = dataset.graph.indices
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base is not None


class _OptionalStep(nn.Module):
    """A model that may be called without a batch, for a rank that has no seeds in a step.

    The result then has a gradient of zero for every parameter, and no buffer changes.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Any) -> torch.Tensor:
        """Return the model's scores, or a zero that depends on all parameters."""
        if batch:
            scores: torch.Tensor = self.model(*batch)
            return scores
        # Sums of no elements, since zero times a weight that is not finite would not be zero.
        return torch.stack([p.flatten()[:0].sum() for p in self.model.parameters()]).sum()


def data_parallel(model: nn.Module, world: World) -> nn.Module:
    """Wrap a model so that its gradients are averaged over the ranks.

    It is called as ``model`` is, or without arguments in a step in which this rank has no seeds.
    Batch normalisation takes each rank's own statistics, as in the paper, and the running ones of
    rank 0.
    """
    if world.size == 1:
        return model
    return nn.parallel.DistributedDataParallel(_OptionalStep(model), process_group=world.gradients)
