"""Bad arguments are refused when the loader is made, naming the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import G5_NUM_NODES, make_g4, make_g5
from salient.graph import Graph
from salient.loader import NeighborLoader

G5 = Graph.from_edge_index(make_g5(), G5_NUM_NODES)


def load(x: Any = None, y: Any = None, **options: Any) -> NeighborLoader:
    settings = {"num_neighbors": [4, 3], "batch_size": 32, "num_threads": 2, **options}
    return NeighborLoader((G5, x, y), settings.pop("num_neighbors"), **settings)


def mask_of(*nodes: int) -> np.ndarray:
    mask = np.zeros(G5_NUM_NODES, bool)
    mask[list(nodes)] = True
    return mask


X = torch.zeros(G5_NUM_NODES, 4)
BAD_OPTIONS = [
    ({"input_nodes": [3, 200]}, IndexError, r"input_nodes\[1\] is 200, outside \[0, 200\)"),
    ({"input_nodes": [-1]}, IndexError, r"input_nodes\[0\] is -1"),
    ({"input_nodes": [5, 3, 5]}, ValueError, "input_nodes: node 5.*positions 0 and 2"),
    ({"input_nodes": [1.0]}, TypeError, "input_nodes.*float64"),
    ({"input_nodes": [[1], [2]]}, ValueError, r"input_nodes.*\(2, 1\)"),
    ({"input_nodes": np.ones(199, bool)}, ValueError, "input_nodes.*199.*200"),
    ({"input_nodes": mask_of(3).astype(int)}, ValueError, "input_nodes.*repeated.*dtype bool"),
    ({"num_neighbors": []}, ValueError, "num_neighbors.*empty"),
    ({"num_neighbors": [3, -2]}, ValueError, r"num_neighbors\[1\].*-2"),
    ({"num_neighbors": [2.0]}, TypeError, r"num_neighbors\[0\].*2\.0"),
    ({"num_neighbors": "5,5"}, TypeError, "num_neighbors.*5,5"),
    ({"num_neighbors": {"a": [5]}}, TypeError, "num_neighbors.*'a'"),
    ({"batch_size": 0}, ValueError, "batch_size.*0"),
    ({"batch_size": -3}, ValueError, "batch_size.*-3"),
    ({"batch_size": 2.0}, TypeError, r"batch_size.*2\.0"),
    ({"batch_size": True}, TypeError, "batch_size.*True"),
    ({"batch_size": 2**70}, ValueError, f"batch_size.*{2**70}"),
    ({"num_threads": 0}, ValueError, "num_threads.*0"),
    ({"num_threads": 10**6}, ValueError, "num_threads.*1000000"),
    ({"num_threads": "2"}, TypeError, "num_threads.*'2'"),
    ({"prefetch": -1}, ValueError, "prefetch.*-1"),
    ({"prefetch": 1.5}, TypeError, r"prefetch.*1\.5"),
    ({"shuffle": 1}, TypeError, "shuffle.*1"),
    ({"drop_last": None}, TypeError, "drop_last.*None"),
    ({"replace": "no"}, TypeError, "replace.*no"),
    ({"edge_ids": 0}, TypeError, "edge_ids.*0"),
    ({"form": "pyg"}, ValueError, "form.*pyg"),
    ({"seed": -1}, ValueError, "seed.*-1"),
    ({"seed": None}, TypeError, "seed.*None"),
    ({"x": X[:-1]}, ValueError, "x.*199.*200"),
    ({"x": X.t()}, ValueError, "x.*4 rows.*200"),
    ({"x": torch.zeros(4, G5_NUM_NODES).t()}, ValueError, "x.*contiguous"),
    ({"x": X.tolist()}, TypeError, "x.*list"),
    ({"x": torch.tensor(1.0)}, ValueError, "x.*row"),
    ({"x": X.to("meta")}, TypeError, "x.*meta"),
    ({"x": X.numpy().astype("U4")}, TypeError, "x.*U4"),
    ({"x": X.numpy().astype(object)}, TypeError, "x.*object"),
    ({"x": X.numpy().astype(">f4")}, TypeError, "x.*>f4"),
    ({"y": X[:-1, 0]}, ValueError, "y.*199.*200"),
    ({"y": [1, 2]}, TypeError, "y.*list"),
    ({"y": X.to("meta")}, TypeError, "y.*meta"),
    ({"y": np.where(np.arange(200) < 1, np.nan, 0.0)}, ValueError, "y.*node 0.*NaN"),
]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    BAD_OPTIONS,
    ids=[f"{next(iter(o[0]))}-{i}" for i, o in enumerate(BAD_OPTIONS)],
)
def test_bad_input_is_refused_at_once_by_name(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        load(**options)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (None, TypeError, "data.*NoneType"),
        ((G5, X), TypeError, r"data.*\(Graph, Tensor\)"),
        ((torch.zeros(2, 1).long(), X, None), TypeError, "data.*Tensor, Tensor"),
        (Data(x=X), TypeError, "data.*edge_index"),
        (
            Data(edge_index=torch.tensor([[9], [0]]), num_nodes=7),
            IndexError,
            r"edge 0 is 9 -> 0.*7",
        ),
        (Data(edge_index=torch.zeros(2, 1), num_nodes=7), TypeError, "edge_index.*float32"),
    ],
)
def test_bad_data_is_refused_at_once(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        NeighborLoader(data, [2])


def test_a_bare_graph_keeps_its_edge_ids_or_is_refused() -> None:
    graph = Graph.from_edge_index(make_g4())
    try:
        loader = NeighborLoader(graph, [-1], [0], edge_ids=True)
    except TypeError as error:
        assert "Graph" in str(error)
        return
    assert next(iter(loader)).mfgs[0].e_id.tolist() == [1]


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, ValueError), (2**24, ValueError), (1.0, TypeError), ("1", TypeError)]
)
def test_a_bad_epoch_is_refused(epoch: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="epoch"):
        load().set_epoch(epoch)
