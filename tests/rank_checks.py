"""Run by test_distributed.py under torchrun, on 4 ranks: each writes what it found as JSON."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from graphs import G5_NUM_NODES, make_g5
from salient.datasets import Dataset
from salient.datasets.dataset import describe
from salient.distributed import ALONE, World, data_parallel, joined_world, load_once_per_host
from salient.evaluation import evaluate
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.seed_plan import SeedPlan
from salient.seeding import seed_for_batch
from salient.trainer import train_epoch

CPU = torch.device("cpu")
GRAPH = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
BATCH_SIZE, EPOCHS = 16, 2
# Nine batches, of which the last has 5 seeds: on 2 and on 4 ranks, some have none in the last step.
SEEDS = np.random.default_rng(1).permutation(G5_NUM_NODES)[: 8 * BATCH_SIZE + 5]


class DoubleModel(nn.Module):
    """Two layers of mean aggregation with dropout, in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((6, 8), (8, 5)))
        self.double()

    def forward(self, x: Tensor, mfgs: list[Any]) -> Tensor:
        x = x.double()
        for layer, mfg in zip(self.layers, mfgs, strict=True):
            source, target = mfg.edge_index
            gathered = torch.zeros(mfg.num_dst, x.shape[1], dtype=x.dtype)
            gathered = gathered.index_add(0, target, x[source])
            x = layer(x[: mfg.num_dst] + gathered / 8)
            x = functional.dropout(x.tanh(), 0.3, self.training)
        return x


def load(rank: int = 0, world_size: int = 1, batch_size: int = BATCH_SIZE) -> NeighborLoader:
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.standard_normal((G5_NUM_NODES, 6)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 5, G5_NUM_NODES))
    return NeighborLoader(
        (GRAPH, x, y), [3, 2], SEEDS, batch_size, shuffle=True, seed=7, num_threads=1,
        rank=rank, world_size=world_size,
    )  # fmt: skip


def weights_of(model: nn.Module) -> list[float]:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def train_with_ranks(world: World) -> list[float]:
    """SGD with the product's own loop."""
    model = DoubleModel()
    parallel = data_parallel(model, world)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = load(world.rank, world.size)
    plan = SeedPlan(len(SEEDS), BATCH_SIZE, world.rank, world.size)
    for epoch in range(EPOCHS):
        train_epoch(
            parallel, optimiser, loader, epoch, CPU, seed=7, world=world, plan=plan, progress=False
        )
    return weights_of(model)


def train_by_hand(world_size: int) -> list[float]:
    """The same steps on one process in plain torch: mean losses of ``world_size`` batches."""
    model = DoubleModel()
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = load()
    for epoch in range(EPOCHS):
        batches = list(loader)
        for first in range(0, len(batches), world_size):
            group = batches[first : first + world_size]
            losses = []
            for number, batch in enumerate(group, start=first):
                seed_for_batch(7, epoch, number, CPU)
                scores = model(batch.x, batch.mfgs)
                losses.append(functional.cross_entropy(scores, batch.y, reduction="none"))
            optimiser.zero_grad()
            torch.cat(losses).mean().backward()
            optimiser.step()
    return weights_of(model)


def large_dataset() -> Dataset:
    """64 MiB of features, made in memory."""
    nodes = 32_768
    ring = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)])
    graph = Graph.from_edge_index(ring)
    x = torch.from_numpy(np.tile(np.arange(1024, dtype=np.float16), (nodes, 1)))
    y = torch.arange(nodes) % 4
    parts = torch.arange(nodes).split(nodes // 2)
    split = {"train": parts[0], "valid": parts[1], "test": torch.arange(0)}
    description = describe(
        graph, x, y, split, 4, source="test", licence="none", edges="ring", symmetrised=False,
        self_loops=0, features="ramp", split="halves", seed=None,
    )  # fmt: skip
    return Dataset("large", graph, x, y, split, 4, description)


def proportional_bytes() -> int:
    """Memory of this process, shared pages counted in parts."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def check_sharing(world: World) -> dict[str, Any]:
    before = proportional_bytes()
    world.barrier()
    dataset = load_once_per_host(world, large_dataset)
    total = int(dataset.x.double().sum())  # touches every page
    world.barrier()
    after = proportional_bytes()
    world.barrier()
    return {
        "growth": after - before,
        "set_bytes": dataset.x.numel() * 2 + dataset.graph.indices.nbytes,
        "sum": total,
        "left": [str(path) for path in Path(tempfile.gettempdir()).glob("salient-shared-*")],
    }


def check_training(world: World) -> dict[str, Any]:
    return {
        "trained": train_with_ranks(world),
        "by_hand": train_by_hand(world.size),
        "accuracy": evaluate(DoubleModel(), load(world.rank, world.size), CPU, world),
        "accuracy_alone": evaluate(DoubleModel(), load(), CPU, ALONE),
    }


def check_agreement(world: World) -> dict[str, Any]:
    normalised = nn.BatchNorm1d(3)
    normalised.running_mean += world.rank + 1
    world.share_buffers(normalised)
    try:
        world.require_agreement("settings", {"epochs": 3, "lr": 0.1 * (world.rank // 2)})
    except ValueError as error:
        return {"running_mean": normalised.running_mean.tolist(), "refusal": str(error)}
    raise AssertionError("ranks with different settings went on")


def main() -> None:
    with joined_world("cpu") as world:
        found: dict[str, Any] = {
            "4": check_training(world),
            "sharing": check_sharing(world),
            "agreement": check_agreement(world),
        }
        pair = dist.new_group([0, 1])
        if world.rank < 2:
            found["2"] = check_training(World(world.rank, 2, gradients=pair, control=pair))
        Path(f"{sys.argv[1]}.{world.rank}").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
