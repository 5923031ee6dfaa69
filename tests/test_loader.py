"""The loader: what is in its batches, how it orders and cuts the seeds, and every bad input."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import G1_NUM_NODES, G5_NUM_NODES, edges_of, make_g1, make_g5
from reference_sampler import check_sample
from salient.batch import SampledBatch
from salient.graph import Graph
from salient.loader import NeighborLoader

G5 = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
ROW_SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (50,), (3, 5)]
DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def table(dtype: torch.dtype, row_shape: tuple[int, ...] = (7,)) -> torch.Tensor:
    """Rows of random bits that differ between nodes."""
    rows = torch.randint(0, 256, (G5_NUM_NODES, *row_shape), generator=torch.Generator())
    return (rows % 2 == 0) if dtype == torch.bool else rows.to(dtype)


def load(x: Any = None, y: Any = None, graph: Graph = G5, **options: Any) -> NeighborLoader:
    settings = {"num_neighbors": [4, 3], "batch_size": 32, "num_threads": 2, **options}
    return NeighborLoader((graph, x, y), settings.pop("num_neighbors"), **settings)


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("row_shape", ROW_SHAPES, ids=str)
def test_features_are_the_rows_of_the_nodes(dtype: torch.dtype, row_shape: tuple[int, ...]) -> None:
    x = table(dtype, row_shape)
    for batch in load(x, torch.arange(G5_NUM_NODES)):
        assert batch.x.dtype == dtype
        assert batch.x.shape == (batch.num_nodes, *row_shape)
        assert torch.equal(batch.x, x[batch.n_id])
        assert batch.y.tolist() == batch.n_id[: batch.batch_size].tolist()


@pytest.mark.parametrize("row_shape", ROW_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, np.bool_])
def test_memory_mapped_features_are_the_rows_of_the_nodes(
    tmp_path: Path, dtype: type, row_shape: tuple[int, ...]
) -> None:
    np.save(tmp_path / "x.npy", table(torch.int64, row_shape).numpy().astype(dtype))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    for batch in load(x):
        assert batch.x.numpy().dtype == dtype
        assert np.array_equal(batch.x.numpy(), x[batch.n_id.numpy()])


@pytest.mark.parametrize("row_shape", [(0,), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_features_may_have_no_columns(dtype: torch.dtype, row_shape: tuple[int, ...]) -> None:
    x = torch.empty(G5_NUM_NODES, *row_shape, dtype=dtype)
    for batch in load(x, torch.arange(G5_NUM_NODES)):
        assert batch.x.dtype == dtype
        assert batch.x.shape == (batch.num_nodes, *row_shape)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 63, 64, 65, 128, 200, 256, 400, 512, 4096, 10_000])
def test_rows_of_every_size_are_copied_whole(width: int) -> None:
    x = table(torch.uint8, (width,))
    for batch in load(x, num_neighbors=[8]):
        assert torch.equal(batch.x, x[batch.n_id])


def test_batches_stay_as_they_are_when_the_loader_is_gone() -> None:
    x, y = table(torch.float32), torch.arange(G5_NUM_NODES)
    loader = load(x, y, shuffle=True, prefetch=1, edge_ids=True)
    kept = [*loader, *loader, *loader]
    features = [batch.x for batch in kept[::2]]
    del loader, kept[::2]
    gc.collect()
    [*load(x + 1, y), *load(x + 2, y)]  # would write over memory that is thought to be free
    for batch in kept:
        assert torch.equal(batch.x, x[batch.n_id])
        assert torch.equal(batch.y, batch.n_id[: batch.batch_size])
        seeds = batch.n_id[: batch.batch_size].tolist()
        check_sample(batch, make_g5(), seeds, [4, 3], edge_ids=True)
    assert all(rows.shape[1] == 7 for rows in features)


def test_batches_may_be_written_to_without_harm() -> None:
    x = table(torch.float32)
    loader = load(x.clone(), torch.arange(G5_NUM_NODES))
    for batch in loader:
        batch.x += 1
        batch.y.zero_()
        batch.n_id.fill_(-1)
    assert all(torch.equal(batch.x, x[batch.n_id]) for batch in loader)


@pytest.mark.parametrize(("num_neighbors", "replace"), [([-1, 2], False), ([3, 3, 3], True)])
@pytest.mark.parametrize("edge_ids", [False, True])
def test_mfg_batches_are_right_samples(
    num_neighbors: list[int], replace: bool, edge_ids: bool
) -> None:
    loader = load(num_neighbors=num_neighbors, replace=replace, edge_ids=edge_ids, shuffle=True)
    for batch in loader:
        seeds = batch.n_id[: batch.batch_size].tolist()
        options = {"replace": replace, "edge_ids": edge_ids}
        check_sample(batch, make_g5(), seeds, num_neighbors, **options)


@pytest.mark.parametrize("edge_ids", [False, True])
def test_subgraph_batches_are_pyg_data(edge_ids: bool) -> None:
    x, y = table(torch.float16), torch.arange(G5_NUM_NODES) % 5
    data = Data(x=x, y=y, edge_index=torch.from_numpy(make_g5()))
    nodes = torch.randperm(G5_NUM_NODES)[:70]
    loader = NeighborLoader(
        data, [4, 3], nodes, batch_size=32, shuffle=True, form="subgraph", edge_ids=edge_ids
    )
    seen = []
    for batch in loader:
        assert isinstance(batch, Data)
        assert batch.validate()
        assert batch.num_nodes == batch.n_id.numel()
        seeds = batch.n_id[: batch.batch_size]
        assert torch.equal(nodes[batch.input_id], seeds)
        assert torch.equal(batch.x, x[batch.n_id])
        assert torch.equal(batch.y, y[batch.n_id])
        if edge_ids:
            expected = batch.n_id[batch.edge_index]
            assert torch.equal(torch.from_numpy(make_g5())[:, batch.e_id], expected)
        else:
            assert "e_id" not in batch
        assert batch.edge_index.shape[1] == sum(batch.num_sampled_edges)
        again = loader.sampler.sample(seeds, epoch=0, batch=len(seen))
        assert torch.equal(again.mfgs[0].edge_index, batch.edge_index)
        assert again.num_sampled_nodes == batch.num_sampled_nodes
        check_sample(again, make_g5(), seeds.tolist(), [4, 3], form="subgraph", edge_ids=edge_ids)
        seen.append(seeds)
    assert sorted(torch.cat(seen).tolist()) == sorted(nodes.tolist())


def test_data_without_features_and_labels_gives_batches_without() -> None:
    data = Data(edge_index=torch.from_numpy(make_g1()), num_nodes=G1_NUM_NODES)
    batch = next(iter(NeighborLoader(data, [-1], [4, 6, 0], batch_size=3)))
    assert isinstance(batch, SampledBatch)
    assert batch.x.numel() == batch.y.numel() == 0
    assert batch.n_id.tolist()[:3] == [4, 6, 0]


# --- order and cutting of the seeds ---------------------------------------------------------------


def seeds_of(loader: NeighborLoader) -> list[list[int]]:
    return [batch.n_id[: batch.batch_size].tolist() for batch in loader]


def epoch_of(loader: NeighborLoader) -> list[int]:
    return list(itertools.chain.from_iterable(seeds_of(loader)))


def mask_of(*nodes: int) -> np.ndarray:
    mask = np.zeros(G5_NUM_NODES, bool)
    mask[list(nodes)] = True
    return mask


@pytest.mark.parametrize(
    ("input_nodes", "expected"),
    [
        (None, list(range(G5_NUM_NODES))),
        ([9, 3, 7, 199], [9, 3, 7, 199]),
        (np.array([9, 3, 7], np.int32), [9, 3, 7]),
        (torch.tensor([9, 3, 7]), [9, 3, 7]),
        (mask_of(9, 3, 7), [3, 7, 9]),
        (torch.from_numpy(mask_of(9, 3, 7)), [3, 7, 9]),
    ],
)
def test_input_nodes_come_in_their_order(input_nodes: Any, expected: list[int]) -> None:
    assert epoch_of(load(input_nodes=input_nodes, batch_size=3)) == expected


@pytest.mark.parametrize(
    ("count", "batch_size", "drop_last", "sizes"),
    [
        (10, 4, False, [4, 4, 2]),
        (10, 4, True, [4, 4]),
        (8, 4, False, [4, 4]),
        (8, 4, True, [4, 4]),
        (3, 4, False, [3]),
        (3, 4, True, []),
        (3, 2**40, False, [3]),
        (1, 1, True, [1]),
        (0, 4, False, []),
        (0, 4, True, []),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_last_batch_is_what_is_left_or_dropped(
    count: int, batch_size: int, drop_last: bool, sizes: list[int], shuffle: bool
) -> None:
    nodes = np.arange(count) * 7
    loader = load(input_nodes=nodes, batch_size=batch_size, drop_last=drop_last, shuffle=shuffle)
    assert len(loader) == len(sizes)
    for _ in range(2):
        assert [len(seeds) for seeds in seeds_of(loader)] == sizes


def test_no_seeds_and_no_nodes_give_no_batch() -> None:
    for graph, nodes in [(G5, []), (G5, mask_of()), (Graph.from_edge_index(edges_of(), 0), None)]:
        loader = load(graph=graph, input_nodes=nodes)
        assert len(loader) == 0
        assert list(loader) == []


def test_shuffling_gives_each_epoch_another_order_of_all_seeds() -> None:
    nodes = np.random.default_rng(0).permutation(G5_NUM_NODES)[:150]
    loader = load(input_nodes=nodes, shuffle=True)
    epochs = [epoch_of(loader) for _ in range(4)]
    assert all(sorted(epoch) == sorted(nodes.tolist()) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs} | {tuple(nodes.tolist())}) == 5


def test_shuffling_drops_other_seeds_in_each_epoch() -> None:
    loader = load(input_nodes=np.arange(10), batch_size=9, shuffle=True, drop_last=True)
    assert len({frozenset(epoch_of(loader)) for _ in range(20)}) > 2


def test_an_iterator_goes_on_being_over() -> None:
    iterator = iter(load())
    assert len(list(iterator)) == 7
    assert list(iterator) == []
    assert next(iterator, None) is None


# --- labels (case 8) ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4, 1), (4,)])
def test_float_labels_with_gaps_become_classes(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    y = torch.tensor([torch.nan, 3, torch.nan, 1], dtype=dtype).view(shape)
    graph = Graph.from_edge_index(edges_of((0, 1), (2, 3)), 4)
    for given in (y, y.numpy()):
        batch = next(iter(load(None, given, graph, input_nodes=[1, 3], batch_size=2)))
        assert batch.y.dtype == torch.int64
        assert batch.y.tolist() == [3, 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("shape", [(G5_NUM_NODES, 1), (G5_NUM_NODES,)])
def test_integer_labels_become_one_dimensional_int64(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    y = (torch.arange(G5_NUM_NODES) % 100).to(dtype).view(shape)
    for batch in load(None, y):
        assert batch.y.dtype == torch.int64
        assert batch.y.tolist() == (batch.n_id[: batch.batch_size] % 100).tolist()


def test_regression_targets_stay_as_they_are() -> None:
    for y in (torch.rand(G5_NUM_NODES), torch.rand(G5_NUM_NODES, 3), table(torch.bfloat16, ())):
        for batch in load(None, y):
            assert torch.equal(batch.y, y[batch.n_id[: batch.batch_size]])


def test_a_seed_without_a_label_is_refused_by_name() -> None:
    y = torch.tensor([[torch.nan], [3], [torch.nan], [1]])
    graph = Graph.from_edge_index(edges_of((0, 1), (2, 3)), 4)
    for nodes in (None, [1, 0], [3, 1, 0, 2], np.array([True, False, True, False])):
        with pytest.raises(ValueError, match=r"y: .*node 0.*NaN"):
            load(None, y, graph, input_nodes=nodes)


def test_subgraph_batches_keep_the_shape_and_type_of_labels() -> None:
    """A PyG script indexes ``batch.y`` as it indexes ``data.y``."""
    labels = torch.arange(G5_NUM_NODES, dtype=torch.int32).view(-1, 1)
    graph = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
    loader = NeighborLoader((graph, None, labels), [3], [5, 7], batch_size=2, form="subgraph")
    (batch,) = loader
    assert batch.y.dtype == torch.int32
    assert torch.equal(batch.y, labels[batch.n_id])
