"""Batch preparation as an iterable: sample and slice mini-batches in threads.

May import: graph, sampler, tables, batch, labels, seed_plan, numpy, torch, the core.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from salient import _core
from salient.batch import Batch, SampledBatch, StageTimes
from salient.datasets.labels import as_class_labels
from salient.graph import Graph, as_array, require_node_ids
from salient.sampler import (
    MAX_EPOCH,
    Form,
    NeighborSampler,
    require_bool,
    require_fanouts,
    require_int,
    view_sample,
)
from salient.seed_plan import SeedPlan
from salient.tables import NodeTable

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

_open_epochs: weakref.WeakSet[_EpochIterator] = weakref.WeakSet()


@atexit.register
def _close_open_epochs() -> None:
    """Stop threads that an epoch left unfinished still has, while their memory is in place."""
    for epoch in list(_open_epochs):
        epoch.close()


class NeighborLoader:
    """Loads mini-batches for training or inference: neighbourhoods, features and labels.

    Threads of the core sample and slice ahead of the consumer. Batches arrive in order and are
    bit-identical for any number of threads. Each batch is one block of memory that is used again
    once no tensor views it; batches may be kept as long as they are needed.

    Parameters
    ----------
    data : torch_geometric.data.Data or (Graph, x, y)
        ``x`` and ``y``: tensors or arrays, one row per node, of any dtype, also memory maps; either
        may be None.
    num_neighbors : list of int
        Fanouts, the hop at the seeds first; -1 keeps all in-edges.
    input_nodes : tensor or array of int or bool, optional
        Seed nodes of an epoch, unique ids or a mask; by default all nodes.
    batch_size : int
        Seeds per batch.
    shuffle : bool
        A new order of the seeds in each epoch, fixed by ``seed`` and epoch.
    seed : int
        In [0, 2**64); together with epoch and batch number it fixes all random choices.
    num_threads : int, optional
        Threads of batch preparation; by default one per usable core.
    prefetch : int
        Batches prepared ahead, besides the ones that threads are working on.
    form : {"mfg", "subgraph"}
        ``"mfg"`` yields :class:`salient.batch.Batch`, labels of the seeds only, class labels as
        int64 of shape (batch_size,); ``"subgraph"`` yields a ``torch_geometric.data.Data`` as PyG's
        ``NeighborLoader`` does, labels of all nodes, as they are.
    replace : bool
        Draw neighbours with replacement.
    drop_last : bool
        Leave out a last batch of fewer than ``batch_size`` seeds.
    edge_ids : bool
        Report which edges were drawn, as positions in the user's edge list.
    rank, world_size : int
        Yield this rank's share of the batches; all ranks get equally many, of which the last may
        have no seeds, see :mod:`salient.seed_plan`.

    Raises
    ------
    TypeError, ValueError, IndexError
        An argument is wrong; the message names it, its value and what was expected.
    RuntimeError
        While iterating: a batch could not be prepared, for example for lack of memory.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int],
        input_nodes: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        num_threads: int | None = None,
        prefetch: int = 4,
        form: Form = "mfg",
        replace: bool = False,
        drop_last: bool = False,
        edge_ids: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        graph, x, y = _unpack(data)
        self.sampler = NeighborSampler(
            graph,
            require_fanouts(num_neighbors, "num_neighbors"),
            replace=replace,
            seed=seed,
            form=form,
            edge_ids=edge_ids,
        )
        self.graph = graph
        self.shuffle = require_bool(shuffle, "shuffle")
        self.num_threads = (
            len(os.sched_getaffinity(0))
            if num_threads is None
            else require_int(num_threads, "num_threads", 1, 1024)
        )
        self.prefetch = require_int(prefetch, "prefetch", 0, 1024)
        self.input_nodes = (
            np.arange(graph.num_nodes)
            if input_nodes is None
            else require_node_ids(input_nodes, graph.num_nodes, "input_nodes")
        )
        self.plan = SeedPlan(self.input_nodes.shape[0], batch_size, rank, world_size, drop_last)
        self.batch_size = self.plan.batch_size
        self._x = None if x is None else NodeTable.of(x, "x", graph.num_nodes)
        self._y = None if y is None else _label_table(y, graph.num_nodes, self.input_nodes)
        if self._y is not None and form == "subgraph":
            self._y = NodeTable.of(y, "y", graph.num_nodes)  # as PyG has it: rows unchanged
        self._make_batch = self._as_data if form == "subgraph" else self._as_batch
        if form == "subgraph":
            _import_data_class()
        self._epoch = 0
        self._start_core()

    def _start_core(self) -> None:
        seeds_only = self.sampler.form == "mfg"
        tables = []
        if self._x is not None:
            tables.append((self._x.rows, self._x.name, False))
        if self._y is not None:
            tables.append((self._y.rows, self._y.name, seeds_only))
        self._preparer = _core.BatchPreparer(
            self.sampler.core, tables, self.num_threads, self.prefetch
        )
        self._pid = os.getpid()

    @property
    def core(self) -> _core.BatchPreparer:
        """The compiled batch preparation of this process, for :mod:`salient.transfer_cuda`."""
        if self._pid != os.getpid():
            self._start_core()
        return self._preparer

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on each rank."""
        return self.plan.num_steps

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration yields; without this, epochs count up."""
        self._epoch = require_int(epoch, "epoch", 0, MAX_EPOCH)

    def __iter__(self) -> _EpochIterator:
        """Start the threads of one epoch. Several epochs may run side by side."""
        core = self.core
        epoch, self._epoch = self._epoch, self._epoch + 1
        count = self.input_nodes.shape[0]
        if self.shuffle:
            input_ids = np.random.default_rng([self.sampler.seed, epoch]).permutation(count)
            order = self.input_nodes[input_ids]
        else:
            input_ids = np.arange(count)
            order = self.input_nodes
        # No batch is larger than all seeds, and the core multiplies by this.
        batch_size = min(self.batch_size, max(count, 1))
        order = order[: self.plan.seeds_used]
        run = _core.Epoch(core, order, batch_size, self.plan.batch_numbers(), epoch)

        def make_batch(prepared: _core.PreparedBatch) -> Any:
            start = prepared.batch * batch_size
            return self._make_batch(prepared, input_ids[start : start + batch_size])

        return _EpochIterator(run, make_batch)

    @property
    def memory_bound(self) -> int:
        """Bytes that batches in preparation or ready, one in use, and the threads can take at most.

        Batches that the consumer keeps come on top.
        """
        nodes, edges = self._size_bound()
        row_bytes = sum(t.rows.shape[1] for t in (self._x, self._y) if t is not None)
        edge_bytes = 12 if self.sampler.edge_ids else 4
        graph_copies = len(self.sampler.fanouts) if self.sampler.form == "mfg" else 1
        slab = nodes * (row_bytes + 8 + 4 * graph_copies) + edges * edge_bytes
        slab += slab // 8 + (2 << 20)
        id_bytes = self.graph.indices.itemsize
        table = max(4 * self.graph.num_nodes, 8 * nodes * (id_bytes + 4))
        scratch = table + 3 * (nodes * (id_bytes + 4 * graph_copies) + edges * edge_bytes) // 2
        return int((self.num_threads + self.prefetch + 1) * slab + self.num_threads * scratch)

    def _size_bound(self) -> tuple[int, int]:
        """Return the most nodes and edges that a batch can have."""
        num_nodes, num_edges = self.graph.num_nodes, self.graph.num_edges
        nodes = frontier = min(self.batch_size, max(self.input_nodes.shape[0], 1))
        edges = 0
        for fanout in self.sampler.fanouts:
            drawn = num_edges if fanout < 0 else frontier * fanout
            if not self.sampler.replace:
                drawn = min(drawn, num_edges)
            edges += drawn
            found = min(drawn, num_nodes - nodes)
            nodes += found
            frontier = nodes if self.sampler.form == "mfg" else found
        return nodes, edges

    def _tensors(
        self, prepared: _core.PreparedBatch
    ) -> tuple[SampledBatch, Tensor | None, Tensor | None, StageTimes]:
        slab = torch.from_numpy(prepared.slab)
        sample = view_sample(slab, prepared, edge_ids=self.sampler.edge_ids)
        sections = iter(prepared.tables)
        x = y = None
        if self._x is not None:
            x = self._x.view(slab, next(sections), sample.num_nodes)
        if self._y is not None:
            num_labels = sample.batch_size if self.sampler.form == "mfg" else sample.num_nodes
            y = self._y.view(slab, next(sections), num_labels)
        times = StageTimes(
            sample_seconds=(prepared.sampled_ns - prepared.began_ns) / 1e9,
            gather_seconds=(prepared.ended_ns - prepared.sampled_ns) / 1e9,
        )
        return sample, x, y, times

    def _as_batch(self, prepared: _core.PreparedBatch, input_id: npt.NDArray[np.int64]) -> Batch:
        sample, x, y, times = self._tensors(prepared)
        batch = Batch(
            sample.n_id,
            sample.mfgs,
            sample.batch_size,
            sample.num_sampled_nodes,
            sample.num_sampled_edges,
            times=times,
            slab=torch.from_numpy(prepared.slab),
        )
        if x is not None:
            batch.x = x
        if y is not None:
            batch.y = y
        return batch

    def _as_data(self, prepared: _core.PreparedBatch, input_id: npt.NDArray[np.int64]) -> Any:
        sample, x, y, _ = self._tensors(prepared)
        whole = sample.mfgs[0]  # the outermost layer sees every edge
        data = _import_data_class()(
            x=x,
            y=y,
            edge_index=whole.edge_index,
            n_id=sample.n_id,
            input_id=torch.from_numpy(input_id),
            batch_size=sample.batch_size,
            num_sampled_nodes=sample.num_sampled_nodes,
            num_sampled_edges=sample.num_sampled_edges,
        )
        data.num_nodes = sample.num_nodes
        if whole.e_id is not None:
            data.e_id = whole.e_id
        return data


class _EpochIterator(Iterator[Any]):
    """One epoch of batches. Dropping it, or closing it, stops the threads."""

    def __init__(self, run: _core.Epoch, make_batch: Callable[[_core.PreparedBatch], Any]) -> None:
        self._run = run
        self._make_batch = make_batch
        _open_epochs.add(self)

    def __next__(self) -> Any:
        prepared = self._run.next()
        if prepared is None:
            self.close()
            raise StopIteration
        return self._make_batch(prepared)

    def close(self) -> None:
        """Stop the threads and wait for them; the epoch is over then."""
        self._run.close()
        _open_epochs.discard(self)


def _unpack(data: Any) -> tuple[Graph, Any, Any]:
    """Return graph, features and labels of what a loader is given."""
    if isinstance(data, tuple):
        if len(data) != 3 or not isinstance(data[0], Graph):
            kinds = ", ".join(type(part).__name__ for part in data)
            raise TypeError(f"data: expected (salient.Graph, x, y), got ({kinds})")
        return data
    edge_index = None if isinstance(data, Graph) else getattr(data, "edge_index", None)
    if edge_index is None:
        raise TypeError(
            "data: expected a torch_geometric Data with an edge_index, or (salient.Graph, x, y), "
            f"got {type(data).__name__}; for a bare graph, (graph, None, None)"
        )
    graph = Graph.from_edge_index(edge_index, data.num_nodes)
    return graph, getattr(data, "x", None), getattr(data, "y", None)


def _label_table(y: Any, num_nodes: int, input_nodes: npt.NDArray[np.int64]) -> NodeTable:
    """Return labels as a table; class labels become int64 and one-dimensional.

    A column of shape (num_nodes, 1) and floats that mark missing labels with NaN are how OGB
    stores classes. Other floats are targets of a regression and stay as they are, but a seed
    without a target is refused.
    """
    table = NodeTable.of(y, "y", num_nodes)
    single = table.row_shape in ((), (1,))
    if table.dtype.is_floating_point:
        values = (y if isinstance(y, Tensor) else torch.from_numpy(y)).detach()
        values = values.reshape(num_nodes, table.rows.shape[1] // table.dtype.itemsize)
        missing = values.isnan()
        unusable = missing[torch.from_numpy(input_nodes)].any(dim=1).nonzero()
        if unusable.numel():
            node = int(input_nodes[int(unusable[0])])
            raise ValueError(
                f"y: the label of node {node}, one of input_nodes, is NaN; leave unlabelled nodes "
                "out of input_nodes"
            )
        present = values[~missing]
        if single and bool(missing.any()) and bool((present == present.floor()).all()):
            return NodeTable.of(as_class_labels(values.double().numpy()), "y", num_nodes)
        return table
    if table.dtype not in _INTEGERS:
        raise TypeError(f"y: expected integers or floats, got {table.dtype}")
    if not single:
        return table
    labels = as_array(y, "y").reshape(num_nodes).astype(np.int64, copy=False)
    return NodeTable.of(labels, "y", num_nodes)


def _import_data_class() -> Any:
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise ImportError(
            "form='subgraph' yields torch_geometric.data.Data: install torch-geometric, or use "
            f"form='mfg' ({error})"
        ) from error
    return Data
