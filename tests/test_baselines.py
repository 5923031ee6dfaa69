"""Contract of the systems in ``baselines``: the same work, right batches, honest absence.

A baseline that is not installed skips its tests; with SALIENT_REQUIRE_BASELINES=1 it fails them.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass

import numpy as np
import psutil
import pytest
import torch

import baselines
from baselines.system import System
from graphs import G1_NUM_NODES, G5_NUM_NODES, make_g1, make_g2, make_g3, make_g4, make_g5
from salient.graph import Graph

G1 = make_g1()


@dataclass
class Data:
    """As much of a dataset as a system looks at."""

    graph: Graph
    x: torch.Tensor
    y: torch.Tensor


def make_data(edges: np.ndarray, num_nodes: int, num_features: int = 1) -> Data:
    """Features of node i: i, i + 0.5, ...; label: 10 i + 3."""
    ids = torch.arange(num_nodes)
    x = ids[:, None] + 0.5 * torch.arange(num_features)
    return Data(Graph.from_edge_index(edges, num_nodes), x.to(torch.float16), 10 * ids + 3)


def heavy_tailed_edges(num_nodes: int, seed: int = 0) -> np.ndarray:
    """Edges whose in-degrees follow a power law; parallel edges and self-loops occur."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum((rng.pareto(1.2, num_nodes) * 3).astype(np.int64), num_nodes // 4)
    targets = np.repeat(np.arange(num_nodes), degrees)
    # Squared, so that popular sources are met again, as in real graphs.
    sources = (rng.random(targets.size) ** 2 * num_nodes).astype(np.int64)
    order = rng.permutation(targets.size)
    return np.stack([sources[order], targets[order]])


def reference_counts(
    edges: np.ndarray, seeds: np.ndarray, fanouts: list[int], form: str, rng: np.random.Generator
) -> tuple[int, int]:
    """Nodes and edges of one sample, by sets and ``rng.choice``."""
    known = frontier = set(seeds.tolist())
    num_edges = 0
    for fanout in fanouts:
        found = set()
        for node in known if form == "mfg" else frontier:
            sources = edges[0][edges[1] == node]
            if len(sources) > fanout:
                sources = rng.choice(sources, fanout, replace=False)
            num_edges += len(sources)
            found |= set(sources.tolist())
        frontier = found - known
        known = known | found
    return len(known), num_edges


def sage_like(batch) -> np.ndarray:
    """Per layer h'(v) = h(v) + mean of h over the in-edges of v, down to the seeds."""
    h = batch.x[:, 0].double().numpy()
    for mfg in batch.mfgs:
        assert len(h) >= mfg.num_src
        indptr, indices = mfg.indptr.numpy(), mfg.indices.numpy()
        means = [
            h[indices[start:end]].mean() if end > start else 0.0
            for start, end in itertools.pairwise(indptr)
        ]
        h = h[: mfg.num_dst] + np.array(means)
    return h


@pytest.fixture(
    params=[
        *(pytest.param(n, marks=pytest.mark.baseline(n)) for n in ("pyg_classic", "pyg", "dgl")),
        "salient",
    ]
)
def system(request) -> System:
    try:
        return baselines.get_system(request.param)
    except baselines.BaselineUnavailable as error:
        if request.param == "salient" or os.environ.get("SALIENT_REQUIRE_BASELINES") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(params=[0, 2])
def num_workers(request) -> int:
    return request.param


def load(system, data, nodes, fanouts, batch_size, *, shuffle=False, num_workers=0, seed=0):
    nodes = torch.as_tensor(nodes, dtype=torch.int64)
    return system.loader(
        data, nodes, fanouts, batch_size, shuffle=shuffle, num_workers=num_workers, seed=seed
    )


def seed_order(loader) -> list[int]:
    return [node for batch in loader for node in batch.n_id[: batch.batch_size].tolist()]


def test_full_fanout_equals_full_graph(system, num_workers):
    loader = load(
        system, make_data(G1, G1_NUM_NODES), [4, 6, 0], [-1, -1], 3, num_workers=num_workers
    )
    (batch,) = loader
    assert batch.n_id[:3].tolist() == [4, 6, 0]
    assert sorted(batch.n_id.tolist()) == [0, 1, 2, 3, 4, 5, 6]
    assert sage_like(batch).tolist() == [14, 6, 4.3125]
    assert batch.num_sampled_edges == ([5, 7] if system.form == "mfg" else [5, 2])
    assert batch.num_sampled_nodes == [3, 3, 1]
    assert [(mfg.num_src, mfg.num_dst) for mfg in batch.mfgs] == [(7, 6), (6, 3)]
    assert [mfg.num_edges for mfg in batch.mfgs] == [7, 5]
    loader.close()


def test_equal_work_on_hub(system):
    sample = system.sampler(Graph.from_edge_index(make_g3()), [1, 1], seed=0)
    drawn = {sample(np.array([0])) for _ in range(1000)}
    assert drawn == ({(2, 2), (3, 2)} if system.form == "mfg" else {(2, 1)})


def test_first_fanout_is_for_the_seeds(system):
    edges = make_g5()
    (batch,) = load(system, make_data(edges, G5_NUM_NODES), [17], [3, 1], 1)
    assert batch.num_sampled_edges[0] == 3
    new = batch.num_sampled_nodes[1]
    assert batch.num_sampled_edges[1] == (1 + new if system.form == "mfg" else new)
    sources = set(edges[0][edges[1] == 17].tolist())
    sample = system.sampler(Graph.from_edge_index(edges), [8, 0], seed=0)
    assert sample(np.array([17])) == (len(sources | {17}), 8)


@pytest.mark.parametrize("edges, num_nodes", [(heavy_tailed_edges(300), 300), (make_g4(), 5)])
def test_batches_hold_edges_features_and_labels_of_the_graph(system, num_workers, edges, num_nodes):
    data = make_data(edges, num_nodes, num_features=3)
    fanouts = [3, 2]
    graph_edges = set(zip(*edges.tolist(), strict=True))
    degrees = np.bincount(edges[1], minlength=num_nodes)
    batch_size = max(num_nodes // 3, 2)
    loader = load(system, data, np.arange(num_nodes), fanouts, batch_size, num_workers=num_workers)
    for batch in loader:
        n_id = batch.n_id
        assert n_id.dtype == torch.int64 and len(set(n_id.tolist())) == batch.num_nodes
        assert batch.x.dtype == torch.float16 and torch.equal(batch.x, data.x[n_id])
        assert batch.y.dtype == torch.int64
        assert torch.equal(batch.y, data.y[n_id[: batch.batch_size]])
        assert batch.num_nodes == sum(batch.num_sampled_nodes) == batch.mfgs[0].num_src
        assert batch.times.sample_seconds > 0 and batch.times.gather_seconds > 0
        for mfg in batch.mfgs:
            assert mfg.indptr.dtype == mfg.indices.dtype == torch.int32
            drawn = n_id[mfg.edge_index].tolist()
            assert set(zip(*drawn, strict=True)) <= graph_edges
        innermost = batch.mfgs[-1]
        seeds = n_id[: batch.batch_size].numpy()
        expected = np.minimum(degrees[seeds], fanouts[0])
        assert np.diff(innermost.indptr.numpy()).tolist() == expected.tolist()
    loader.close()


def test_each_epoch_has_every_seed_once_in_a_new_order(system, num_workers):
    data = make_data(heavy_tailed_edges(300), 300)
    nodes = np.random.default_rng(1).permutation(300)[:101]

    def make(seed):
        return load(
            system, data, nodes, [2, 2], 10, shuffle=True, num_workers=num_workers, seed=seed
        )

    loader = make(0)
    assert len(loader) == 11
    first, second = seed_order(loader), seed_order(loader)
    assert sorted(first) == sorted(second) == sorted(nodes.tolist())
    assert first != second
    loader.close()
    again, other = make(0), make(1)
    assert seed_order(again) == first
    assert seed_order(other) != first
    again.close()
    other.close()


def test_same_work_as_the_reference_of_its_form(system):
    edges = heavy_tailed_edges(1500, seed=3)
    rng = np.random.default_rng(5)
    batches = [rng.choice(1500, 64, replace=False) for _ in range(20)]
    sample = system.sampler(Graph.from_edge_index(edges, 1500), [5, 4, 3], seed=0)
    counts = np.mean([sample(seeds) for seeds in batches], axis=0)
    by_form = {
        form: np.mean(
            [reference_counts(edges, seeds, [5, 4, 3], form, rng) for seeds in batches], axis=0
        )
        for form in ("mfg", "subgraph")
    }
    assert by_form["mfg"][1] > 1.2 * by_form["subgraph"][1], "the test cannot tell forms apart"
    np.testing.assert_allclose(counts, by_form[system.form], rtol=0.05)


@pytest.mark.parametrize(
    "edges, num_nodes, seeds, fanouts",
    [(make_g2(), 5, [1, 2], [2, 2]), (G1, G1_NUM_NODES, [0, 4], [0])],
)
def test_nothing_to_sample_gives_the_seeds_alone(system, edges, num_nodes, seeds, fanouts):
    (batch,) = load(system, make_data(edges, num_nodes), seeds, fanouts, 4)
    assert batch.n_id.tolist() == seeds
    assert batch.num_edges == 0
    assert [tuple(mfg.edge_index.shape) for mfg in batch.mfgs] == [(2, 0)] * len(fanouts)
    assert sage_like(batch).tolist() == seeds


def test_no_seeds_give_no_batches(system, num_workers):
    loader = load(
        system, make_data(G1, G1_NUM_NODES), [], [2], 4, shuffle=True, num_workers=num_workers
    )
    assert len(loader) == 0
    assert list(loader) == []
    loader.close()


@pytest.mark.parametrize(
    "change, error, word",
    [
        ({"nodes": [7]}, IndexError, "7"),
        ({"nodes": [-1]}, IndexError, "-1"),
        ({"nodes": [0.5]}, TypeError, "float"),
        ({"nodes": [1, 1]}, ValueError, "repeated"),
        ({"fanouts": []}, ValueError, "fanouts"),
        ({"fanouts": [2, -2]}, ValueError, "-2"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"num_workers": -1}, ValueError, "num_workers"),
    ],
)
def test_wrong_arguments_are_refused_by_value(system, change, error, word):
    arguments = {"nodes": [0], "fanouts": [2], "batch_size": 2, "num_workers": 0} | change
    arguments["nodes"] = torch.tensor(arguments["nodes"])
    with pytest.raises(error, match=word):
        system.loader(make_data(G1, G1_NUM_NODES), **arguments, shuffle=False, seed=0)


def test_leaving_early_then_closing_ends_the_workers(system):
    data = make_data(heavy_tailed_edges(300), 300)
    process = psutil.Process()
    before = set(process.children(recursive=True))
    loader = load(system, data, np.arange(300), [2, 2], 10, shuffle=True, num_workers=2)
    for _ in range(3):
        for _ in loader:
            break
    assert sorted(seed_order(loader)) == list(range(300))
    running = iter(loader)
    next(running)
    loader.close()
    deadline = time.monotonic() + 10
    while set(process.children(recursive=True)) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(process.children(recursive=True)) - before
    with pytest.raises(RuntimeError, match="closed"):
        iter(loader)


def test_description_is_json_and_names_the_rule(system):
    described = json.loads(json.dumps(system.describe()))
    assert described["name"] == system.name
    assert described["version"] and described["fanout_rule"] and described["settings"]
    assert described["form"] in ("mfg", "subgraph")
