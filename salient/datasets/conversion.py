"""Edge lists to CSC form in bounded memory. May import: sink, graph, numpy, the core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from salient import _core
from salient.datasets.sink import ArraySink, MemorySink
from salient.graph import Graph

# Edges read at a time: enough for every thread, and few enough to stay in the last cache.
_CHUNK_EDGES = 1 << 21
# Bytes of scratch for an edge: its source, and the low bits of its target.
_SCRATCH_BYTES = {np.dtype(np.int32): 6, np.dtype(np.int64): 10}

IdChunk = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class EdgeList(Protocol):
    """Edges that can be read again and again, each time in the same order.

    Attributes
    ----------
    num_edges : int
        About how many there are; only speed depends on it.
    """

    @property
    def num_edges(self) -> int: ...  # noqa: D102

    def chunks(self) -> Iterator[IdChunk]:
        """Yield source and target ids, integers of shape (n,), some million at a time."""
        ...


class ArrayEdges:
    """An edge list in an array, which may be mapped from a file; it is not copied.

    Parameters
    ----------
    edge_index : array of integers, shape (2, num_edges)
        Source over target.
    where : str
        What the messages call it.

    Raises
    ------
    ValueError
        Another shape or dtype.
    """

    def __init__(self, edge_index: npt.NDArray[Any], where: str = "edge_index") -> None:
        if edge_index.dtype.kind not in "iu" or edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise ValueError(
                f"{where}: expected integers of shape (2, num_edges), got {edge_index.dtype} of "
                f"shape {edge_index.shape}"
            )
        self._edge_index = edge_index

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return int(self._edge_index.shape[1])

    def chunks(self) -> Iterator[IdChunk]:
        """Yield views of source and target ids."""
        for start in range(0, self.num_edges, _CHUNK_EDGES):
            source, target = self._edge_index[:, start : start + _CHUNK_EDGES]
            yield source, target


@dataclass(frozen=True)
class Conversion:
    """What became of an edge list.

    Parameters
    ----------
    num_edges : int
        Directed edges of the graph.
    num_input_edges : int
        Edges of the list.
    self_loops : int
        Of the graph's edges.
    duplicates_dropped : int
        Among the list's edges and, if symmetrised, their reverses.
    symmetrised : bool
    """

    num_edges: int
    num_input_edges: int
    self_loops: int
    duplicates_dropped: int
    symmetrised: bool

    def words(self) -> str:
        """Return what was done, as descriptions of data sets say it."""
        dropped = f"{self.duplicates_dropped:,} duplicates dropped"
        if self.symmetrised:
            return f"{self.num_input_edges:,} edges, reversed edges added, {dropped}"
        return f"{self.num_input_edges:,} edges" + (
            f", {dropped}" if self.duplicates_dropped else ""
        )


def convert_edges(
    edges: EdgeList,
    num_nodes: int,
    sink: ArraySink,
    *,
    symmetrise: bool = False,
    drop_duplicates: bool = False,
    num_threads: int | None = None,
    memory_limit: int | None = None,
    where: str = "edge_index",
) -> Conversion:
    """Write an edge list in CSC form to a sink, as its arrays "indptr" and "indices".

    The list is read once to count and then at least once more; in-edges are grouped by target in
    ranges of targets, each of which fits in cache. Extra memory is bounded: where the scratch
    cannot hold all edges, the list is read several times. The result depends on neither the
    threads nor the memory.

    Parameters
    ----------
    edges : EdgeList
        Edges are kept as they are, in their order, unless an option says otherwise.
    num_nodes : int
    sink : ArraySink
        Gets ``indptr`` int64 (num_nodes + 1) and ``indices`` int32, or int64 from 2**31 nodes.
    symmetrise : bool
        Add every reversed edge and drop duplicates. A self-loop is its own reverse and stays,
        once.
    drop_duplicates : bool
        Keep one of parallel edges. Here as with ``symmetrise`` the sources of a node ascend.
    num_threads : int, optional
        By default one for each core.
    memory_limit : int, optional
        Bytes of scratch, by default 1.5 times what the input's edges take as ``indices``.
    where : str
        What the messages call the edge list.

    Raises
    ------
    ValueError
        Ids of a wrong dtype or outside [0, num_nodes); the message names the first such edge.
        The list changed between two readings.
    """
    dtype = np.dtype(np.int32 if num_nodes < 2**31 else np.int64)
    if memory_limit is None:
        memory_limit = _SCRATCH_BYTES[dtype] * edges.num_edges
    converter = _core.CscConverter(
        num_nodes,
        edges.num_edges,
        symmetrise,
        drop_duplicates,
        num_threads or 0,
        max(memory_limit, 1),
    )
    num_input_edges = 0
    try:
        for source, target in edges.chunks():
            converter.count(*_as_ids(source, target, where))
            num_input_edges += len(source)
        indptr = sink.create("indptr", (num_nodes + 1,), np.int64)
        indices = sink.create("indices", (converter.num_collected,), dtype)
        while converter.begin_pass():
            for source, target in edges.chunks():
                converter.collect(*_as_ids(source, target, where))
            converter.end_pass(indptr, indices)
    except (IndexError, RuntimeError) as error:
        raise ValueError(f"{where}: {error}") from error
    num_edges = converter.finish(indptr)
    if num_edges < len(indices):
        del indices
        sink.truncate("indices", num_edges)
    return Conversion(
        num_edges,
        num_input_edges,
        converter.self_loops,
        converter.num_collected - num_edges,
        symmetrise,
    )


def graph_from_edges(
    edge_index: npt.NDArray[Any],
    num_nodes: int,
    *,
    symmetrise: bool = False,
    drop_duplicates: bool = False,
    where: str = "edge_index",
) -> tuple[Graph, Conversion]:
    """Return the graph of an edge list in memory; see :func:`convert_edges`."""
    sink = MemorySink()
    conversion = convert_edges(
        ArrayEdges(edge_index, where),
        num_nodes,
        sink,
        symmetrise=symmetrise,
        drop_duplicates=drop_duplicates,
        where=where,
    )
    return Graph(sink.arrays["indptr"], sink.arrays["indices"], validate=False), conversion


def _as_ids(source: npt.NDArray[Any], target: npt.NDArray[Any], where: str) -> IdChunk:
    """Return both arrays in a form that the core takes, copied only where they are not."""
    for ids in (source, target):
        if ids.dtype.kind not in "iu" or ids.dtype == np.uint64:
            raise ValueError(f"{where}: expected integer ids, got {ids.dtype}")
    narrow = source.dtype == target.dtype == np.int32
    dtype = np.int32 if narrow else np.int64
    return (
        np.require(source, dtype, ["C", "A"]),
        np.require(target, dtype, ["C", "A"]),
    )
