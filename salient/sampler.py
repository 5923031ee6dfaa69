"""The neighbour sampler, one batch at a time. May import: graph, batch, numpy, torch, the core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from salient import _core
from salient.batch import MFG, SampledBatch
from salient.graph import Graph, as_array, require_id_array, require_node_ids

Form = Literal["mfg", "subgraph"]
FORMS = ("mfg", "subgraph")

# The widths of the random generator's counter.
MAX_EPOCH = 2**24 - 1
MAX_BATCH = 2**32 - 1
MAX_FANOUT = 2**24 - 1


def require_int(value: Any, name: str, least: int, largest: int | None = None) -> int:
    """Return ``value`` as an int within its bounds.

    Raises
    ------
    TypeError
        Not an integer.
    ValueError
        Outside the bounds.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    if value < least or (largest is not None and value > largest):
        bounds = f"at least {least}" if largest is None else f"in [{least}, {largest}]"
        raise ValueError(f"{name}: is {value}, expected {bounds}")
    return int(value)


def require_bool(value: Any, name: str) -> bool:
    """Return ``value`` if it is a bool, else raise TypeError."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def require_fanouts(fanouts: Any, name: str = "fanouts") -> list[int]:
    """Return fanouts as a list of ints, each -1 or more, at least one.

    Raises
    ------
    TypeError
        Not a sequence of integers.
    ValueError
        Empty, or an entry below -1.
    """
    is_array = isinstance(fanouts, (np.ndarray, torch.Tensor))
    entries = as_array(fanouts, name).tolist() if is_array else fanouts
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        raise TypeError(
            f"{name}: expected a list of ints, one per hop, hop at the seeds first; got {fanouts!r}"
        )
    if len(entries) == 0:
        raise ValueError(f"{name}: is empty, expected one entry per hop")
    return [require_int(k, f"{name}[{hop}]", -1, MAX_FANOUT) for hop, k in enumerate(entries)]


def require_form(form: Any) -> bool:
    """Return whether ``form`` is the subgraph form; ValueError if it is neither."""
    if form not in FORMS:
        raise ValueError(f"form: is {form!r}, expected 'mfg' or 'subgraph'")
    return bool(form == "subgraph")


def view_section(slab: Tensor, section: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """Return a piece of a slab, given by offset and size in bytes, as a flat tensor."""
    offset, size = section
    return slab[offset : offset + size].view(dtype)


def view_sample(slab: Tensor, prepared: _core.PreparedBatch, *, edge_ids: bool) -> SampledBatch:
    """Return the sampled neighbourhood in a slab as tensors that view it.

    Parameters
    ----------
    slab : Tensor of uint8
        The slab's bytes, on any device.
    prepared : _core.PreparedBatch
        Where things lie in it.
    edge_ids : bool
        Whether the slab has edge ids.
    """
    nodes = prepared.nodes_after_hop
    mfgs = []
    for num_dst, num_edges, indptr, indices, e_id in prepared.graphs:
        mfgs.append(
            MFG(
                view_section(slab, indptr, torch.int32),
                view_section(slab, indices, torch.int32),
                prepared.nodes_after_hop[-1],
                num_dst,
                view_section(slab, e_id, torch.int64) if edge_ids else None,
            )
        )
        assert mfgs[-1].num_edges == num_edges
    if len(mfgs) == len(prepared.edges_in_hop):
        for hop, mfg in enumerate(mfgs):
            mfg.num_src = nodes[hop + 1]
    else:
        mfgs = [_prefix(mfgs[0], prepared, hop) for hop in range(len(prepared.edges_in_hop))]
    return SampledBatch(
        n_id=view_section(slab, prepared.node_ids, torch.int64),
        mfgs=mfgs[::-1],
        batch_size=nodes[0],
        num_sampled_nodes=[nodes[0], *(b - a for a, b in pairwise(nodes))],
        num_sampled_edges=list(prepared.edges_in_hop),
    )


def _prefix(whole: MFG, prepared: _core.PreparedBatch, hop: int) -> MFG:
    """Return the edges of hops 0 to ``hop`` of a subgraph: what one layer may use.

    In the subgraph form each node is expanded once, so all layers share its sampled edges.
    """
    num_dst = prepared.nodes_after_hop[hop]
    num_edges = sum(prepared.edges_in_hop[: hop + 1])
    return MFG(
        whole.indptr[: num_dst + 1],
        whole.indices[:num_edges],
        prepared.nodes_after_hop[hop + 1],
        num_dst,
        None if whole.e_id is None else whole.e_id[:num_edges],
    )


class NeighborSampler:
    """Samples the multi-hop neighbourhood of seed nodes, a fixed number of in-edges per node.

    A sample is a pure function of graph, seeds, configuration, epoch and batch number: the same on
    any machine and in any thread or process. One sampler may be used from several threads.

    Parameters
    ----------
    graph : Graph
    fanouts : list of int
        In-edges kept per node and hop, ``fanouts[0]`` at the seeds, as in PyG. -1 keeps all. (DGL
        reads its list the other way round.)
    replace : bool
        Draw with replacement; a node with any in-edge then gets exactly ``fanout`` of them.
    seed : int
        In [0, 2**64).
    form : {"mfg", "subgraph"}
        ``"mfg"``: each hop expands every node seen so far, as in the paper and in DGL.
        ``"subgraph"``: each hop expands only the nodes that the last one found, as in PyG's
        ``NeighborLoader``.
    edge_ids : bool
        Report which edges were drawn, as positions in the user's edge list.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind or out of its range.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int],
        replace: bool = False,
        seed: int = 0,
        form: Form = "mfg",
        edge_ids: bool = False,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph: expected salient.Graph, got {type(graph).__name__}")
        self.graph = graph
        self.fanouts = require_fanouts(fanouts)
        self.replace = require_bool(replace, "replace")
        self.seed = require_int(seed, "seed", 0, 2**64 - 1)
        self.edge_ids = require_bool(edge_ids, "edge_ids")
        self.form = form
        self._subgraph = require_form(form)
        self._start_core()

    def _start_core(self) -> None:
        self._core = _core.Sampler(
            self.graph._core, self.fanouts, self.replace, self.edge_ids, self._subgraph, self.seed
        )
        self._pid = os.getpid()

    @property
    def core(self) -> _core.Sampler:
        """The compiled sampler of this process: a fork may have copied its locks while held."""
        if self._pid != os.getpid():
            self._start_core()
        return self._core

    def sample(self, seeds: Any, epoch: int = 0, batch: int = 0) -> SampledBatch:
        """Sample the neighbourhood of one mini-batch.

        Parameters
        ----------
        seeds : tensor, array or list of integers, shape (batch_size,), or boolean mask
            Unique node ids.
        epoch, batch : int
            Choose the random stream, in [0, 2**24) and [0, 2**32).

        Raises
        ------
        TypeError, ValueError, IndexError
            Seeds are not integers, not one-dimensional, repeated, or outside the graph; the
            message names the first that is wrong.
        """
        if getattr(seeds, "dtype", None) in (torch.bool, np.bool_):
            ids = require_node_ids(seeds, self.graph.num_nodes, "seeds")
        else:
            ids = require_id_array(seeds, "seeds")  # the core checks range and repeats
        prepared = self.core.sample(
            ids,
            require_int(epoch, "epoch", 0, MAX_EPOCH),
            require_int(batch, "batch", 0, MAX_BATCH),
        )
        slab = torch.from_numpy(prepared.slab)
        return view_sample(slab, prepared, edge_ids=self.edge_ids)
