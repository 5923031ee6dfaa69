"""``python -m benchmarks.design_study``: build, measure, write records.

May import: ``salient``, ``baselines``, this package, ``benchmarks.graphs``; click, numpy, torch.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt
import torch

from baselines import BaselineUnavailable, get_system
from benchmarks.design_study import EXPERIMENT, FLOOR_EXPERIMENT
from benchmarks.design_study.floor import count_workload, least_seconds
from benchmarks.design_study.programs import BuildError, build, run_json
from benchmarks.graphs import heavy_tailed_graph
from salient import __version__
from salient.graph import Graph
from salient.records import (
    DatasetInfo,
    Device,
    Record,
    Sample,
    System,
    Work,
    new_record_id,
    write_record,
)
from salient.run_record import RunClock

FANOUTS = (15, 10, 5)
CHOICES = ("table", "check", "drawing", "construction", "memory", "prefetch", "ids")
FORM_RULE = "each hop draws up to its fanout for every node seen so far"
NO_ABSEIL = "library not found: abseil; install it, for example with: apt-get install libabsl-dev"
log = logging.getLogger(__name__)


class Scale(NamedTuple):
    """Size of the graph and of a batch."""

    num_nodes: int
    num_edges: int
    batch_size: int


SCALES = {
    "small": Scale(20_000, 400_000, 128),
    "products": Scale(2_449_029, 123_718_280, 1024),
}


class Session:
    """One run of the study: the same graph, batches and surroundings in all its records."""

    def __init__(self, graph: Graph, scale: str, batch_size: int, rounds: int, seed: int) -> None:
        self.graph = graph
        self.clock = RunClock()
        self.seed = seed
        generator = np.random.default_rng(seed)
        self.batches: npt.NDArray[np.int64] = np.stack(
            [
                generator.choice(graph.num_nodes, batch_size, replace=False).astype(np.int64)
                for _ in range(rounds)
            ]
        )
        digest = hashlib.sha256(np.ascontiguousarray(graph.indptr).data)
        digest.update(np.ascontiguousarray(graph.indices).data)
        self.dataset = DatasetInfo(
            name=f"chung-lu:{scale}",
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
            num_features=0,
            num_classes=0,
            checksum=digest.hexdigest(),
            description="random graph with log-normal expected degrees, no features",
        )
        self.config: dict[str, Any] = {
            "fanouts": list(FANOUTS),
            "batch_size": batch_size,
            "rounds": rounds,
            "threads": 1,
        }

    def record(self, experiment: str, system: System, **fields: Any) -> Record:
        """Return a record of this session."""
        common: dict[str, Any] = {
            "record_id": new_record_id(),
            "experiment": experiment,
            "item": "figure2",
            "system": system,
            "dataset": self.dataset,
            "config": self.config,
            "seed": self.seed,
            "repeat": 0,
            "device": Device(requested="cpu", actual="cpu"),
            "environment": self.clock.environment,
            "status": "ok",
            "started_at": self.clock.started_at,
            "seconds": self.clock.seconds(),
        }
        return Record(**common | fields)


def batch_record(
    session: Session,
    system: System,
    seconds: list[float],
    nodes: list[int],
    edges: list[int],
) -> Record:
    """Return the record of a sampler's seconds per batch."""
    return session.record(
        EXPERIMENT,
        system,
        samples=[Sample(name="batch", unit="s", values=seconds)],
        work=Work(
            batches=len(seconds),
            nodes_per_batch=float(np.mean(nodes)),
            edges_per_batch=float(np.mean(edges)),
        ),
    )


def variant_record(session: Session, result: dict[str, Any]) -> Record:
    """Return the record of one variant, or of the shipping sampler, as the program printed it."""
    choices = {name: result[name] for name in CHOICES}
    if choices["table"] == "shipping":
        system = System(
            name="salient",
            label="SALIENT (shipping sampler)",
            version=__version__,
            form="mfg",
            fanout_rule=FORM_RULE,
        )
    else:
        system = System(
            name="salient:" + "+".join(value.replace(" ", "_") for value in choices.values()),
            label=", ".join(choices.values()),
            version=__version__,
            form="mfg",
            fanout_rule=FORM_RULE,
            settings=choices,
        )
    if not result["built"]:
        return session.record(EXPERIMENT, system, status="not_available", reason=NO_ABSEIL)
    seconds = [value / 1000 for value in result["milliseconds"]]
    return batch_record(session, system, seconds, result["nodes"], result["edges"])


class Pyg:
    """PyG's classic sampler on the batches of a session; a few before and a few after ours."""

    def __init__(self, session: Session) -> None:
        torch.set_num_threads(1)
        self.session = session
        self.seconds: list[float] = []
        self.sizes: list[tuple[int, int]] = []
        self.reason = ""
        try:
            self.system = get_system("pyg_classic")
        except BaselineUnavailable as error:
            self.reason = f"{error.reason}; {error.remedy}"
            log.warning("PyG's classic sampler is not available: %s", self.reason)
            return
        self._sample = self.system.sampler(session.graph, list(FANOUTS), seed=0)
        self._sample(session.batches[0])

    def measure(self, batches: npt.NDArray[np.int64]) -> None:
        """Sample each batch once."""
        if self.reason:
            return
        for seeds in batches:
            start = time.perf_counter()
            sizes = self._sample(seeds)
            self.seconds.append(time.perf_counter() - start)
            self.sizes.append(sizes)

    def record(self) -> Record:
        """Return what was measured, or why nothing was."""
        if self.reason:
            absent = System(name="pyg_classic", label="PyG (classic)", version="n/a", form="mfg")
            return self.session.record(
                EXPERIMENT, absent, status="not_available", reason=self.reason
            )
        nodes, edges = ([size[i] for size in self.sizes] for i in range(2))
        system = System(**self.system.describe())
        return batch_record(self.session, system, self.seconds, nodes, edges)


def floor_record(session: Session, program: Path) -> Record:
    """Measure what the machine's parts cost and return the least time for the first batch."""
    workload = count_workload(session.graph, FANOUTS, session.batches[0])
    results = run_json(program, 7, *workload.sizes)
    terms = least_seconds(workload, {one["name"]: one["values"] for one in results})
    return session.record(
        FLOOR_EXPERIMENT,
        System(name="floor", label="floor of the machine", version=__version__, form="mfg"),
        config=session.config | {"workload": dataclasses.asdict(workload)},
        samples=[
            Sample(name="batch", unit="s", values=[sum(terms.values())]),
            *(Sample(name=f"least: {name}", unit="s", values=[v]) for name, v in terms.items()),
            *(Sample(**one) for one in results),
        ],
    )


def run_study(session: Session, programs: Path, results: Path) -> int:
    """Measure everything once and write the records; return their number."""
    rounds = len(session.batches)
    pyg = Pyg(session)
    pyg.measure(session.batches[: (rounds + 1) // 2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "indptr.npy", session.graph.indptr)
        np.save(folder / "indices.npy", session.graph.indices)
        np.save(folder / "seeds.npy", session.batches.reshape(-1))
        variants = run_json(
            programs / "design_study",
            *(folder / f"{array}.npy" for array in ("indptr", "indices", "seeds")),
            rounds,
            session.batches.shape[1],
            *FANOUTS,
        )
    pyg.measure(session.batches[(rounds + 1) // 2 :])
    records = [pyg.record(), floor_record(session, programs / "floor")]
    records += [variant_record(session, result) for result in variants]
    for record in records:
        write_record(results, record)
    return len(records)


@click.command()
@click.option("--scale", type=click.Choice(list(SCALES)), default="products", show_default=True)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=7,
    show_default=True,
    help="Batches per variant; slow variants sample the first three only.",
)
@click.option("--seed", default=0, show_default=True, help="Of the graph and of the batches.")
@click.option(
    "--swiss/--no-swiss", default=True, show_default=True, help="Look for abseil's hash map."
)
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True
)
def main(scale: str, rounds: int, seed: int, swiss: bool, results: Path) -> None:
    """Time every variant of the sampler, PyG's and ours, and find the machine's floor."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log.info("building the programs, a minute or two the first time")
    try:
        programs = build(swiss=swiss)
    except BuildError as error:
        raise click.ClickException(str(error)) from error
    size = SCALES[scale]
    log.info("making a graph of %d nodes and %d edges", size.num_nodes, size.num_edges)
    graph = heavy_tailed_graph(size.num_nodes, size.num_edges, seed)
    session = Session(graph, scale, size.batch_size, rounds, seed)
    log.info("measuring")
    count = run_study(session, programs, results)
    log.info("%d records in %s", count, results)


if __name__ == "__main__":
    main()
