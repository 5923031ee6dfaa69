"""The main job: every system trains the same model, and each stage of an epoch is timed.

``python -m benchmarks.epoch_breakdown --dataset pubmed`` serves Table 1 and Figure 4.
"""

from __future__ import annotations

import logging
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from baselines import SYSTEMS, BaselineUnavailable, get_system
from baselines.system import EpochLoader, System
from salient.cli import IntList
from salient.config import TrainConfig
from salient.datasets import Dataset, load_dataset
from salient.records import read_records, write_record
from salient.run_record import RunClock, training_record
from salient.trainer import fit, make_model, train_epoch

EXPERIMENT = "epoch_breakdown"

# The stock libraries' advice to use another setting or package: what is used here is said in the
# records, and why in baselines/README.md.
warnings.filterwarnings("ignore", ".*without a 'pyg-lib' installation is deprecated")
warnings.filterwarnings("ignore", "Dataloader CPU affinity opt is not enabled")

log = logging.getLogger(__name__)


class Source:
    """Batches of one system with a fixed number of workers; see salient.trainer.BatchSource."""

    def __init__(self, system: System, dataset: Dataset, workers: int, seed: int) -> None:
        self.system = system
        self.dataset = dataset
        self.workers = workers
        self.seed = seed
        self._open: list[EpochLoader] = []

    def __call__(
        self, nodes: Tensor, fanouts: tuple[int, ...], batch_size: int, *, shuffle: bool
    ) -> EpochLoader:
        """Return a loader over ``nodes``."""
        loader = self.system.loader(
            self.dataset,
            nodes,
            fanouts,
            batch_size,
            shuffle=shuffle,
            num_workers=self.workers,
            seed=self.seed,
        )
        self._open.append(loader)
        return loader

    def close(self) -> None:
        """Stop the workers of all loaders that were made."""
        for loader in self._open:
            loader.close()
        self._open.clear()


def choose_workers(
    system: System, dataset: Dataset, config: TrainConfig, candidates: tuple[int, ...], repeats: int
) -> tuple[int, dict[str, float]]:
    """Return the number of workers with which training epochs are fastest, and the seconds of each.

    Each candidate trains one epoch to warm up and then ``repeats`` more, of which the median
    counts. A single candidate is taken as it is.
    """
    if len(candidates) == 1:
        return candidates[0], {}
    seconds: dict[int, float] = {}
    for workers in candidates:
        source = Source(system, dataset, workers, config.seed)
        model = make_model(config, dataset)
        optimiser = torch.optim.Adam(model.parameters(), lr=config.lr)
        loader = source(dataset.split_idx["train"], config.fanouts, config.batch_size, shuffle=True)
        try:
            epochs = [
                train_epoch(model, optimiser, loader, epoch, torch.device("cpu"), progress=False)[0]
                for epoch in range(1 + repeats)
            ]
        finally:
            source.close()
        seconds[workers] = statistics.median(times.total_seconds for times in epochs[1:])
    best = min(seconds, key=lambda workers: seconds[workers])
    return best, {f"epoch with {workers} workers": value for workers, value in seconds.items()}


def find_done(
    results: Path, system: System, dataset: Dataset, config: TrainConfig, device: str
) -> dict[int, int]:
    """Return the seeds that have a good record for the same inputs, with their workers."""
    if not results.is_dir():
        return {}
    wanted = {key: value for key, value in config.as_dict().items() if key != "seed"}
    done = {}
    for record in read_records(results):
        if (
            record.experiment == EXPERIMENT
            and record.status == "ok"
            and record.system.name == system.name
            and record.system.version == system.version()
            and record.dataset.checksum == dataset.description["sha256"]
            and record.device.requested == device
            and {key: record.config.get(key) for key in wanted} == wanted
        ):
            done[record.seed] = int(str(record.config["workers"]))
    return done


def run_system(
    name: str,
    dataset: Dataset,
    config: TrainConfig,
    seeds: tuple[int, ...],
    candidates: tuple[int, ...],
    device: str,
    results: Path,
) -> bool:
    """Train one system once per seed and write the records; return whether all went well."""
    clock = RunClock()
    try:
        system = get_system(name)
    except BaselineUnavailable as error:
        log.warning("%s: n/a, %s", name, error.reason)
        write_record(
            results,
            training_record(
                experiment=EXPERIMENT,
                system={"name": name, "label": name, "version": "n/a", "form": ""},
                dataset=dataset,
                config=config,
                settings={},
                device=device,
                clock=clock,
                status="not_available",
                reason=f"{error.reason}; {error.remedy}",
            ),
        )
        return True
    done = find_done(results, system, dataset, config, device)
    missing = [seed for seed in seeds if seed not in done]
    if len(missing) < len(seeds):
        log.info("%s: %d of %d seeds are there already", system.label, len(done), len(seeds))
    if not missing:
        return True
    candidates = tuple(sorted({max(count, system.fewest_workers) for count in candidates}))
    if done:
        candidates = (next(iter(done.values())),)
    log.info("%s: choosing the number of workers among %s", system.label, list(candidates))
    workers, tried = choose_workers(system, dataset, config, candidates, repeats=1)
    whole = True
    for seed in missing:
        clock = RunClock()
        seeded = TrainConfig(**{**config.as_dict(), "seed": seed})
        source = Source(system, dataset, workers, seed)
        outcome: dict[str, Any] = {}
        began = time.perf_counter()
        try:
            outcome["result"] = fit(dataset, source, seeded, device=device)
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            log.exception("%s, seed %d failed", system.label, seed)
            outcome = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
            whole = False
        finally:
            source.close()
        path = write_record(
            results,
            training_record(
                experiment=EXPERIMENT,
                system=system.describe(),
                dataset=dataset,
                config=seeded,
                settings={"workers": workers},
                samples=tried,
                device=device,
                clock=clock,
                **outcome,
            ),
        )
        log.info("%s, seed %d: %.0f s, %s", system.label, seed, time.perf_counter() - began, path)
    return whole


@click.command()
@click.option("--dataset", required=True, help="Name of a data set or path of an .npz file.")
@click.option("--columns", type=IntList(), help="First and end feature column of an .npz to use.")
@click.option("--split", help="'random' for a fixed random 60/20/20 split of a Planetoid set.")
@click.option("--root", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option("--systems", default=",".join(SYSTEMS), show_default=True)
@click.option("--seeds", type=IntList(), default=(0, 1, 2), help="[default: 0,1,2]")
@click.option(
    "--workers",
    type=IntList(),
    default=(0, 1, 2),
    help="Numbers of workers to choose from, per system.  [default: 0,1,2]",
)
@click.option("--epochs", default=TrainConfig.epochs, show_default=True)
@click.option("--fanouts", type=IntList(), default=TrainConfig.fanouts, help="[default: 15,10,5]")
@click.option("--batch-size", default=TrainConfig.batch_size, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True
)
def main(
    dataset: str,
    columns: tuple[int, ...] | None,
    split: str | None,
    root: Path | None,
    systems: str,
    seeds: tuple[int, ...],
    workers: tuple[int, ...],
    epochs: int,
    fanouts: tuple[int, ...],
    batch_size: int,
    device: str,
    results: Path,
) -> None:
    """Train SAGE with each system and write one result record per system and seed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    options: dict[str, Any] = {}
    if columns is not None:
        options["columns"] = columns
    if split is not None:
        options["split"] = split
    loaded = load_dataset(dataset, root, **options)
    config = TrainConfig(epochs=epochs, fanouts=fanouts, batch_size=batch_size)
    outcomes = [
        run_system(name.strip(), loaded, config, seeds, workers, device, results)
        for name in systems.split(",")
    ]
    if not all(outcomes):
        raise SystemExit("some runs failed; their records and the messages above say why")


if __name__ == "__main__":
    main()
