"""Contestants measured turn by turn, and what becomes of the measurements.

Rounds are interleaved: each takes every contestant once, on the same input, so that a slow moment
of the machine meets all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines import BaselineUnavailable, get_system
from salient import records
from salient.graph import Graph
from salient.run_record import RunClock


@dataclass
class Contestant:
    """What is measured, and what came out: seconds, nodes and edges, batch by batch."""

    name: str
    run: Callable[[npt.NDArray[np.int64]], tuple[int, int]]
    seconds: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)

    def measure(self, seeds: npt.NDArray[np.int64]) -> None:
        """Run once and keep what it took."""
        began = time.perf_counter()
        nodes, edges = self.run(seeds)
        self.seconds.append(time.perf_counter() - began)
        self.nodes.append(nodes)
        self.edges.append(edges)

    @property
    def median(self) -> float:
        """Median seconds per batch."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile of the seconds."""
        low, high = np.quantile(self.seconds, [0.25, 0.75])
        return float(low), float(high)


def interleave(
    contestants: Sequence[Contestant], batches: Sequence[npt.NDArray[np.int64]], warm_up: int = 2
) -> None:
    """Measure all contestants on all batches, turn by turn; the first batches are not kept."""
    for number, seeds in enumerate(batches):
        for contestant in contestants:
            contestant.measure(seeds)
        if number + 1 == warm_up:
            for contestant in contestants:
                contestant.seconds.clear()
                contestant.nodes.clear()
                contestant.edges.clear()


def sampling_contestants(
    graph: Graph, fanouts: Sequence[int], systems: Sequence[str]
) -> tuple[list[Contestant], dict[str, str]]:
    """Return a contestant for each system that works here, and why the others do not."""
    contestants, missing = [], {}
    for name in systems:
        try:
            system = get_system(name)
        except BaselineUnavailable as error:
            missing[name] = f"{error.reason}; {error.remedy}"
            continue
        contestants.append(Contestant(name, system.sampler(graph, fanouts, seed=0)))
    return contestants, missing


def describe_system(name: str) -> records.System:
    """Return what a record says of a system, also of one that does not work here."""
    try:
        return records.System(**get_system(name).describe())
    except BaselineUnavailable:
        return records.System(name=name, label=name, version="n/a", form="")


def write_contest(
    results: Path,
    experiment: str,
    contestants: Sequence[Contestant],
    missing: Mapping[str, str],
    *,
    systems: Mapping[str, records.System],
    dataset: records.DatasetInfo,
    config: dict[str, Any],
    clock: RunClock,
) -> None:
    """Write one record per contestant, and one with the reason for each that is missing.

    Parameters
    ----------
    systems : mapping
        What the records say of each contestant, by name.
    """
    measured = {c.name: c for c in contestants}
    for name in [*measured, *missing]:
        contestant = measured.get(name)
        record = records.Record(
            record_id=records.new_record_id(),
            experiment=experiment,
            system=systems[name],
            dataset=dataset,
            config=config,
            seed=0,
            repeat=0,
            device=records.Device(requested="cpu", actual="cpu" if contestant else ""),
            work=None
            if contestant is None
            else records.Work(
                batches=len(contestant.seconds),
                nodes_per_batch=statistics.mean(contestant.nodes),
                edges_per_batch=statistics.mean(contestant.edges),
            ),
            samples=[]
            if contestant is None
            else [records.Sample(name="batch", unit="s", values=contestant.seconds)],
            environment=clock.environment,
            status="ok" if contestant else "not_available",
            reason=missing.get(name, ""),
            started_at=clock.started_at,
            seconds=clock.seconds(),
        )
        records.write_record(results, record)


def graph_info(graph: Graph, name: str) -> records.DatasetInfo:
    """Return what a record says of a graph that was made on the spot."""
    return records.DatasetInfo(
        name=name,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_features=0,
        num_classes=0,
        checksum="made on the spot, see benchmarks/graphs.py",
        description="heavy-tailed random graph",
    )
