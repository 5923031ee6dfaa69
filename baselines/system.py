"""What a benchmarked system is: one interface over ours and the baselines.

May import: NumPy, torch, ``salient``. No baseline library is imported here.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from salient.batch import Batch
from salient.graph import Graph, require_node_ids
from salient.sampler import Form, require_fanouts, require_int

if TYPE_CHECKING:
    from salient import Dataset

SampleCounts = Callable[[NDArray[np.int64]], tuple[int, int]]
Converted = TypeVar("Converted")

# Of torch-sparse 0.6.18, for ``settings``: its version of Floyd's algorithm draws from one value
# too few. Of 4 neighbours at fanout 2, the pair of the last two never occurs.
TORCH_SPARSE_BIAS = (
    "draws without replacement are not uniform: a node's last neighbours come too rarely, at "
    "fanout 1 the last one never"
)


class System(ABC):
    """A way of making mini-batches.

    Attributes
    ----------
    name : str
        Key in records and on the command line.
    label : str
        Name in tables and figures.
    form : {"mfg", "subgraph"}
        "mfg": each hop expands all nodes seen so far. "subgraph": only the nodes that the
        last hop added.
    fewest_workers : int
        With which it can prepare batches; 0 means that the caller can.
    fanout_rule : str
        In words, how the fanouts act; ``fanouts[0]`` always is the hop at the seeds.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    form: ClassVar[Form]
    fewest_workers: ClassVar[int] = 0
    fanout_rule: ClassVar[str]

    @abstractmethod
    def version(self) -> str:
        """Return the versions of the packages that do the work."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return how the system was set up, JSON-serialisable: what a reader must know."""

    @abstractmethod
    def sampler(self, graph: Graph, fanouts: Sequence[int], *, seed: int) -> SampleCounts:
        """Return a function that samples one mini-batch, on one thread and without features.

        Parameters
        ----------
        graph : salient.Graph
        fanouts : sequence of int
            One per hop, the seeds' hop first; -1 takes all neighbours.
        seed : int
            Seeds the library's generator, which for some is torch's or NumPy's global one.

        Returns
        -------
        callable
            From seeds, int64 (num_seeds,), unique and in range, to (nodes, edges) sampled.
            Seeds are not checked: this is what the benchmark times.
        """

    @abstractmethod
    def _make_loader(
        self,
        dataset: Dataset,
        nodes: Tensor,
        fanouts: list[int],
        batch_size: int,
        *,
        shuffle: bool,
        num_workers: int,
        seed: int,
    ) -> EpochLoader:
        """Build the loader from checked arguments."""

    def loader(
        self,
        dataset: Dataset,
        nodes: Tensor,
        fanouts: Sequence[int],
        batch_size: int,
        *,
        shuffle: bool,
        num_workers: int,
        seed: int,
    ) -> EpochLoader:
        """Return a loader of prepared mini-batches over ``nodes``.

        The graph is converted to the library's structure here, once per graph and system.

        Parameters
        ----------
        dataset : salient.Dataset
        nodes : Tensor of int64, shape (num_seeds,), or bool, shape (num_nodes,)
            Unique ids of the seeds, or a mask.
        fanouts : sequence of int
            One per hop, the seeds' hop first; -1 takes all neighbours.
        batch_size : int
            Seeds per batch; the last batch may have fewer.
        shuffle : bool
            Draw a new order of the seeds for each epoch.
        num_workers : int
            Worker processes (threads for SALIENT); 0 prepares batches in the caller.
        seed : int
            Fixes the order of the seeds, and the neighbours as far as the library allows.

        Raises
        ------
        TypeError, ValueError, IndexError
            An argument is wrong; the message names it, its value and what was expected.
        """
        # The baselines read out of bounds on a wrong id, so it must not reach them.
        seeds = require_node_ids(nodes, dataset.graph.num_nodes, "nodes")
        if not seeds.size:
            return EpochLoader((), lambda item: item)  # torch refuses to shuffle nothing
        return self._make_loader(
            dataset,
            torch.from_numpy(seeds),
            require_fanouts(fanouts),
            require_int(batch_size, "batch_size", 1),
            shuffle=shuffle,
            num_workers=require_int(num_workers, "num_workers", 0),
            seed=seed,
        )

    def describe(self) -> dict[str, Any]:
        """Return name, versions, rule and settings for a result record."""
        return {
            "name": self.name,
            "label": self.label,
            "version": self.version(),
            "form": self.form,
            "fanout_rule": self.fanout_rule,
            "settings": self.settings(),
        }


def versions(*packages: str) -> str:
    """Return the installed versions of distributions as "name version", comma-separated."""
    return ", ".join(f"{package} {metadata.version(package)}" for package in packages)


class ConversionCache(Generic[Converted]):
    """A graph in a library's own structure, made at first use and kept while the graph lives."""

    def __init__(self, convert: Callable[[Graph], Converted]) -> None:
        self._convert = convert
        self._converted: weakref.WeakKeyDictionary[Graph, Converted] = weakref.WeakKeyDictionary()

    def __call__(self, graph: Graph) -> Converted:
        """Return ``graph`` in the library's structure."""
        if graph not in self._converted:
            self._converted[graph] = self._convert(graph)
        return self._converted[graph]


class _StockLoader(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


class EpochLoader:
    """A library's own loader, whose items are turned into batches as they are consumed.

    Parameters
    ----------
    stock : sized iterable
        Iterated once per epoch. Its workers must end when it and its iterator are dropped.
    to_batch : callable
        From an item of ``stock`` to a Batch; runs in the consumer, as a user's loop would.
    starting : callable, optional
        From the epoch's number to a context in which the stock iterator is created.
    """

    def __init__(
        self,
        stock: _StockLoader,
        to_batch: Callable[[Any], Batch],
        starting: Callable[[int], AbstractContextManager[None]] = lambda epoch: nullcontext(),
    ) -> None:
        # Weak: the epoch keeps the loader alive, so that one may iterate over a temporary.
        self._running: Callable[[], Generator[Batch, None, None] | None] = lambda: None
        self._stock: _StockLoader | None = stock
        self._length = len(stock)
        self._to_batch = to_batch
        self._starting = starting
        self._epoch = 0

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        """Start an epoch; a running one ends.

        Raises
        ------
        RuntimeError
            The loader has been closed.
        """
        if self._stock is None:
            raise RuntimeError("loader: closed; make a new one with System.loader")
        self._end_epoch()
        with self._starting(self._epoch):
            items = iter(self._stock)
        self._epoch += 1
        epoch = self._batches(items)
        self._running = weakref.ref(epoch)
        return epoch

    def _batches(self, items: Iterator[Any]) -> Generator[Batch, None, None]:
        for item in items:
            yield self._to_batch(item)

    def _end_epoch(self) -> None:
        running = self._running()
        if running is not None:
            running.close()

    def close(self) -> None:
        """Stop the workers; the loader cannot be iterated again."""
        self._end_epoch()
        # Workers that are kept between epochs end with this iterator. PyG's loaders refer to
        # themselves, and when the garbage collector gets to them torch waits 5 s per worker.
        if isinstance(self._stock, torch.utils.data.DataLoader):
            self._stock._iterator = None
        self._stock = None

    def __del__(self) -> None:
        self.close()
