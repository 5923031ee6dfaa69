"""Batches dealt out to ranks: each seed once, equally many steps, the same for any world size."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
import torch

from graphs import G5_NUM_NODES, make_g5
from reference_sampler import digest
from salient.graph import Graph
from salient.loader import NeighborLoader
from salient.seed_plan import SeedPlan

GRAPH = Graph.from_edge_index(make_g5(), G5_NUM_NODES)


def load(num_seeds: int = 101, **options: Any) -> NeighborLoader:
    x = torch.arange(G5_NUM_NODES * 3, dtype=torch.float16).view(G5_NUM_NODES, 3)
    settings = {"batch_size": 16, "shuffle": True, "seed": 5, "num_threads": 2, **options}
    nodes = np.arange(num_seeds)
    return NeighborLoader((GRAPH, x, torch.arange(G5_NUM_NODES)), [4, 3], nodes, **settings)


@pytest.mark.parametrize("world_size", [2, 3, 4, 7, 50])
@pytest.mark.parametrize("num_seeds", [0, 1, 16, 64, 101])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_together_get_the_batches_of_one_process(
    world_size: int, num_seeds: int, drop_last: bool
) -> None:
    expected = [digest([batch]) for batch in load(num_seeds, drop_last=drop_last)]
    ranks = [
        load(num_seeds, drop_last=drop_last, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    shares = [list(loader) for loader in ranks]
    assert {len(share) for share in shares} == {len(loader) for loader in ranks} == {len(shares[0])}
    dealt = [batch for step in zip(*shares, strict=True) for batch in step]
    for batch, of_one in zip_longest(dealt, expected):
        if of_one is None:
            assert batch.batch_size == batch.num_nodes == batch.num_edges == 0
            assert batch.x.shape == (0, 3) and batch.y.shape == (0,)
        else:
            assert digest([batch]) == of_one


@pytest.mark.parametrize("form", ["mfg", "subgraph"])
def test_a_rank_without_seeds_gets_a_batch_of_the_usual_kind(form: Any) -> None:
    if form == "subgraph":
        pytest.importorskip("torch_geometric")
    (batch,) = load(16, rank=1, world_size=2, form=form, edge_ids=True)
    assert batch.batch_size == 0
    assert batch.n_id.shape == (0,) and batch.n_id.dtype == torch.int64
    if form == "subgraph":
        assert batch.edge_index.shape == (2, 0) and batch.num_nodes == 0
        assert batch.input_id.shape == (0,)
    else:
        assert [(mfg.num_src, mfg.num_dst, mfg.num_edges) for mfg in batch.mfgs] == [(0, 0, 0)] * 2


def test_seeds_per_step_are_those_of_all_ranks() -> None:
    for world_size in (1, 2, 4):
        plans = [SeedPlan(101, 16, rank, world_size) for rank in range(world_size)]
        loaders = [load(rank=rank, world_size=world_size) for rank in range(world_size)]
        for step, batches in enumerate(zip(*loaders, strict=True)):
            seeds = sum(batch.batch_size for batch in batches)
            assert {plan.seeds_in_step(step) for plan in plans} == {seeds}
        with pytest.raises(IndexError, match=r"step: is \d+, but the epoch has \d+ steps"):
            plans[0].seeds_in_step(plans[0].num_steps)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rank": 2, "world_size": 2}, ValueError, "rank: is 2, expected less than world_size"),
        ({"rank": -1}, ValueError, "rank: is -1"),
        ({"world_size": 0}, ValueError, "world_size: is 0"),
        ({"world_size": 2.0}, TypeError, "world_size: .*2.0"),
    ],
)
def test_wrong_places_among_the_ranks_are_refused(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        load(**options)
