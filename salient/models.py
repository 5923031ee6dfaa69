"""The paper's models, on torch_geometric's convolutions. May import: batch, torch, torch_geometric.

A model is called as ``model(x, mfgs)`` with the features of all nodes of a batch and its
message-flow graphs, outermost hop first, one per layer. It returns one row per seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from salient.batch import MFG

# torch says so once per process, of a format that the models use on purpose.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)


def adjacency(mfg: MFG) -> Tensor:
    """Return an MFG as a sparse CSR matrix of ones, shape (num_dst, num_src).

    Convolutions that only sum or average run on it as a sparse product, about three times faster
    on a CPU than by gathering and scattering along ``edge_index``, backward pass included. Indices
    are widened to int64, for which torch's CPU product is over twice as fast as for int32.
    """
    return torch.sparse_csr_tensor(
        mfg.indptr.long(),
        mfg.indices.long(),
        torch.ones(mfg.num_edges, device=mfg.indices.device),
        size=(mfg.num_dst, mfg.num_src),
        check_invariants=False,
    )


def _sage_conv(in_channels: int, out_channels: int) -> Any:
    try:
        from torch_geometric.nn import SAGEConv
    except ImportError as error:
        raise ImportError(
            f"the models need torch-geometric: pip install 'salient-bench[pyg]' ({error})"
        ) from error
    return SAGEConv(in_channels, out_channels, aggr="mean", bias=False)


class Dropout(nn.Module):
    """Dropout that is cheap on a CPU.

    torch draws a CPU mask one number per element on one thread, which took 40 % of a training
    step of SAGE. Here a 64-bit number of the same generator serves four elements, so ``p`` is
    rounded to a multiple of 2**-16; the kept elements are scaled by the rounded value. Other
    devices use torch's own.

    Parameters
    ----------
    p : float
        Share of elements set to zero in training, in [0, 1).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` with elements dropped in training mode, else ``x`` itself."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return functional.dropout(x, self.p)
        dropped = round(self.p * 2**16)
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * kept.to(x.dtype).mul_(2**16 / (2**16 - dropped))


class SAGE(nn.Module):
    """GraphSAGE with mean aggregation (Hamilton et al., 2017), as the paper configures it.

    Parameters
    ----------
    in_channels, hidden_channels, out_channels : int
        Features, width of the inner layers, classes.
    num_layers : int
    dropout : float
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.convs = nn.ModuleList(_sage_conv(a, b) for a, b in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mfgs: Sequence[MFG]) -> Tensor:
        """Return class scores of the seeds, shape (batch_size, out_channels).

        Parameters
        ----------
        x : Tensor of the model's dtype, shape (num_nodes, in_channels)
        mfgs : sequence of MFG
            One per layer, outermost hop first.

        Raises
        ------
        ValueError
            Not one MFG per layer.
        """
        if len(mfgs) != len(self.convs):
            raise ValueError(
                f"mfgs: got {len(mfgs)} hops for a model of {len(self.convs)} layers; sample with "
                "one fanout per layer"
            )
        for layer, (conv, mfg) in enumerate(zip(self.convs, mfgs, strict=True)):
            x = conv((x, x[: mfg.num_dst]), adjacency(mfg))
            if layer + 1 < len(self.convs):
                x = self.dropout(torch.relu(x))
        return x


MODELS: dict[str, type[nn.Module]] = {"SAGE": SAGE}
