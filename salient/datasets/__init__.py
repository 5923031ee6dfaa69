"""Data sets: graph, features, labels and splits, by name. May import: graph, numpy, torch."""

from salient.datasets.dataset import Dataset
from salient.datasets.registry import load_dataset

__all__ = ["Dataset", "load_dataset"]
