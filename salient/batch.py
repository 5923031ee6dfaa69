"""What a mini-batch is: message-flow graphs, node ids, features and labels.

Every system of the suite, ours and the baselines, hands batches of these classes to the
models, so that all of them train the same code. May import: torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class MFG:
    """Message-flow graph of one hop: a bipartite graph in CSC form, with local node ids.

    Destination ``v`` receives from the sources ``indices[indptr[v]:indptr[v + 1]]``. The
    destinations are the first ``num_dst`` of the sources.

    Parameters
    ----------
    indptr : Tensor of int32, shape (num_dst + 1,)
    indices : Tensor of int32, shape (num_edges,)
        Local ids of the sources, in [0, num_src).
    num_src, num_dst : int
    e_id : Tensor of int64, shape (num_edges,), optional
        Position of each edge in the user's own edge list.
    """

    indptr: Tensor
    indices: Tensor
    num_src: int
    num_dst: int
    e_id: Tensor | None = None

    @classmethod
    def from_edge_index(
        cls, edge_index: Tensor, num_src: int, num_dst: int, e_id: Tensor | None = None
    ) -> MFG:
        """Build the CSC form from edges (2, E), source over target, in any order."""
        src, dst = edge_index
        if dst.numel() > 1 and not bool((dst[1:] >= dst[:-1]).all()):
            dst, order = dst.sort(stable=True)
            src = src[order]
            e_id = None if e_id is None else e_id[order]
        indptr = torch.zeros(num_dst + 1, dtype=torch.int32, device=dst.device)
        torch.cumsum(torch.bincount(dst, minlength=num_dst), 0, out=indptr[1:])
        return cls(indptr, src.to(torch.int32), num_src, num_dst, e_id)

    @property
    def num_edges(self) -> int:
        """Number of sampled edges."""
        return self.indices.numel()

    @property
    def edge_index(self) -> Tensor:
        """Edges as int64, shape (2, num_edges), source over target, made at each access."""
        degrees = (self.indptr[1:] - self.indptr[:-1]).long()
        dst = torch.repeat_interleave(degrees, output_size=self.num_edges)
        return torch.stack([self.indices.long(), dst])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> MFG:
        """Return this graph with its tensors on ``device``."""
        return MFG(
            self.indptr.to(device, non_blocking=non_blocking),
            self.indices.to(device, non_blocking=non_blocking),
            self.num_src,
            self.num_dst,
            None if self.e_id is None else self.e_id.to(device, non_blocking=non_blocking),
        )


@dataclass(eq=False)
class SampledBatch:
    """The sampled neighbourhood of one mini-batch's seeds.

    Parameters
    ----------
    n_id : Tensor of int64, shape (num_nodes,)
        Global ids of all nodes of the batch, the seeds first and in their order.
    mfgs : list of MFG
        One per hop, outermost hop first: the order in which layers consume them. In the
        subgraph form they are prefixes of one shared edge list.
    batch_size : int
        Number of seeds.
    num_sampled_nodes : list of int, length hops + 1
        Seeds, then the nodes that each hop added, innermost first.
    num_sampled_edges : list of int, length hops
        Edges drawn in each hop, innermost first.
    """

    n_id: Tensor
    mfgs: list[MFG]
    batch_size: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]

    @property
    def num_nodes(self) -> int:
        """Number of nodes in the batch."""
        return self.n_id.numel()

    @property
    def num_edges(self) -> int:
        """Edges drawn for the batch, all hops together."""
        return sum(self.num_sampled_edges)


@dataclass
class StageTimes:
    """Seconds of work spent on one batch before it was handed over."""

    sample_seconds: float = 0.0
    gather_seconds: float = 0.0


@dataclass(eq=False)
class Batch(SampledBatch):
    """A prepared mini-batch: the sampled neighbourhood with its features and labels.

    Parameters
    ----------
    x : Tensor, shape (num_nodes, num_features)
        Feature rows of ``n_id``, in the dtype they are stored in.
    y : Tensor of int64, shape (batch_size,)
        Labels of the seeds.
    times : StageTimes
        What preparing this batch cost, wherever it was done.
    slab : Tensor of uint8, optional
        The one block of memory that the batch's tensors view; None if they lie apart.
    """

    x: Tensor = field(default_factory=lambda: torch.empty(0))
    y: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    times: StageTimes = field(default_factory=StageTimes)
    slab: Tensor | None = None

    @property
    def wire_tensors(self) -> list[Tensor]:
        """What a copy to a device moves: the slab, and each tensor that lies elsewhere."""
        tensors = [self.n_id, self.x, self.y]
        for mfg in self.mfgs:
            tensors += [mfg.indptr, mfg.indices]
            tensors += [] if mfg.e_id is None else [mfg.e_id]
        elsewhere = [tensor for tensor in tensors if not self._in_slab(tensor)]
        return elsewhere if self.slab is None else [self.slab, *elsewhere]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Return this batch with its tensors on ``device``; a slab moves in one copy."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return a copy of this batch in page-locked memory."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def _in_slab(self, tensor: Tensor) -> bool:
        # A tensor that the user has put in the place of another does not.
        return (
            self.slab is not None
            and tensor.untyped_storage().data_ptr() == self.slab.untyped_storage().data_ptr()
            and tensor.is_contiguous()
        )

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Batch:
        slab = None if self.slab is None else move(self.slab)

        def moved(tensor: Tensor) -> Tensor:
            if slab is None or not self._in_slab(tensor):
                return move(tensor)
            begin = tensor.storage_offset() * tensor.element_size()
            part = slab[begin : begin + tensor.numel() * tensor.element_size()]
            return part.view(tensor.dtype).view(tensor.shape)

        return Batch(
            n_id=moved(self.n_id),
            mfgs=[
                MFG(
                    moved(mfg.indptr),
                    moved(mfg.indices),
                    mfg.num_src,
                    mfg.num_dst,
                    None if mfg.e_id is None else moved(mfg.e_id),
                )
                for mfg in self.mfgs
            ],
            batch_size=self.batch_size,
            num_sampled_nodes=self.num_sampled_nodes,
            num_sampled_edges=self.num_sampled_edges,
            x=moved(self.x),
            y=moved(self.y),
            times=self.times,
            slab=slab,
        )
