"""Synthetic twins: what a model learns from neighbours, and from a node alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from salient.datasets import Dataset, load_dataset
from salient.loader import NeighborLoader
from salient.models import SAGE


class Mlp(nn.Module):
    """Two layers on a node's own features."""

    def __init__(self, dataset: Dataset, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(dataset.num_features, hidden)
        self.last = nn.Linear(hidden, dataset.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.dropout(self.first(x).relu(), training=self.training)
        scores: Tensor = self.last(hidden)
        return scores


def mlp_accuracy(dataset: Dataset, epochs: int) -> float:
    torch.manual_seed(0)
    model = Mlp(dataset, 128)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    train, test = dataset.split_idx["train"], dataset.split_idx["test"]
    best = 0.0
    for _ in range(epochs):
        model.train()
        for ids in train[torch.randperm(len(train))].split(512):
            optimiser.zero_grad()
            functional.cross_entropy(model(dataset.x[ids].float()), dataset.y[ids]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(dataset.x[test].float()).argmax(1) == dataset.y[test]
        best = max(best, float(right.float().mean()))
    return best


def sage_accuracies(dataset: Dataset, epochs: int, batch_size: int) -> dict[int, float]:
    """Return the accuracy on test nodes by fanout of inference, the same in both hops."""
    torch.manual_seed(0)
    model = SAGE(dataset.num_features, 128, dataset.num_classes, num_layers=2)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = (dataset.graph, dataset.x, dataset.y)
    model.train()
    loader = NeighborLoader(
        data, [15, 10], dataset.split_idx["train"], batch_size=batch_size, shuffle=True
    )
    for _ in range(epochs):
        for batch in loader:
            optimiser.zero_grad()
            functional.cross_entropy(model(batch.x.float(), batch.mfgs), batch.y).backward()
            optimiser.step()
    model.eval()
    test = dataset.split_idx["test"][:2000]
    accuracy = {}
    for fanout in (20, 5, 1):
        right = 0
        with torch.no_grad():
            for batch in NeighborLoader(data, [fanout, fanout], test, batch_size=1024):
                right += int((model(batch.x.float(), batch.mfgs).argmax(1) == batch.y).sum())
        accuracy[fanout] = right / len(test)
    return accuracy


@pytest.fixture
def one_torch_thread() -> Iterator[None]:
    """Threads that wait for each other take forever on a loaded machine; these models are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize(
    ("name", "epochs", "batch_size", "low", "high"),
    [
        ("synthetic:tiny", 30, 64, 0.8, 0.98),
        ("synthetic:small", 6, 512, 0.85, 0.97),
        ("synthetic:arxiv@0.1", 6, 512, 0.55, 0.85),
        ("synthetic:products@0.02", 6, 256, 0.4, 0.8),
    ],
)
def test_neighbours_tell_more_than_own_features(
    name: str, epochs: int, batch_size: int, low: float, high: float
) -> None:
    dataset = load_dataset(name)
    own, sage = mlp_accuracy(dataset, 2 * epochs), sage_accuracies(dataset, epochs, batch_size)
    assert low < sage[20] < high
    assert sage[20] > own + 0.15
    assert sage[20] - 0.01 > sage[5] > sage[1] + 0.1
