"""The paper's Table 3: from stock PyG to SALIENT, one remedy at a time.

``python -m benchmarks.ladder --dataset synthetic:small --device emulated:v100``

Rungs: PyG's classic sampler in worker processes; our sampler in their place; our threads in shared
memory; transfers pipelined with steps. ``--rung sampler/preparation/transfer`` measures any of the
eight combinations. May import: baselines, salient, the ladder's sources and report.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import torch
from torch.nn import functional

from baselines import BaselineUnavailable
from benchmarks.ladder_report import DEPTHS, Rung, make_record, paper_rungs, report
from benchmarks.ladder_sources import Source, make_source
from salient import records
from salient.batch import Batch
from salient.cli import IntList
from salient.config import TrainConfig
from salient.datasets import Dataset, load_dataset
from salient.emulated import EmulatedDevice
from salient.models import MODELS
from salient.run_record import WARM_UP_EPOCHS, RunClock
from salient.trainer import make_model
from salient.transfer import Device, DevicePrefetcher, open_device

# Where the paper's settings differ from those of SAGE, which TrainConfig has.
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "GIN": {"fanouts": (20, 20, 20), "batch_size": 512},
    "SAGERI": {"fanouts": (12, 12, 12), "hidden": 1024},
}

warnings.filterwarnings("ignore", ".*without a 'pyg-lib' installation is deprecated")

log = logging.getLogger(__name__)


def make_step(device: Device, dataset: Dataset, config: TrainConfig) -> Callable[[Batch], None]:
    """Return what a step is: the stated time on an emulated device, else training a model."""
    if isinstance(device, EmulatedDevice):
        return device.step
    model = make_model(config, dataset).to(device.name).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr)

    def step(batch: Batch) -> None:
        optimiser.zero_grad(set_to_none=True)
        functional.cross_entropy(model(batch.x.float(), batch.mfgs), batch.y).backward()
        optimiser.step()

    return step


def measure(
    rungs: Sequence[Rung],
    device: Device,
    dataset: Dataset,
    config: TrainConfig,
    workers: int,
    repeats: int,
) -> list[float]:
    """Measure all rungs in turns; return the seconds of preparation alone, turn by turn.

    Each turn runs one epoch of each rung, so that a slow moment of the machine meets all, and then
    drains the last rung's batches with nothing else going on. The first turn is warm-up; its
    preparation is not returned.
    """
    sources: dict[tuple[str, str], Source] = {}
    alone: list[float] = []
    step = make_step(device, dataset, config)
    try:
        for rung in rungs:
            way = (rung.sampler, rung.preparation)
            try:
                if way not in sources:
                    sources[way] = make_source(*way, dataset, config, workers)
            except BaselineUnavailable as error:
                rung.missing = f"{error.reason}; {error.remedy}"
        available = [rung for rung in rungs if not rung.missing]
        prefetchers = [
            DevicePrefetcher(sources[rung.sampler, rung.preparation], device, DEPTHS[rung.transfer])
            for rung in available
        ]
        for turn in range(WARM_UP_EPOCHS + repeats):
            for rung, prefetcher in zip(available, prefetchers, strict=True):
                for batch in prefetcher:
                    step(batch)
                rung.epochs.append(prefetcher.times)
                log.info("%s, turn %d: %.3f s", rung.label, turn, rung.epochs[-1].total_seconds)
            if not available:
                break
            began = time.perf_counter()
            for _ in sources[available[-1].sampler, available[-1].preparation]:
                pass
            alone += [time.perf_counter() - began] if turn >= WARM_UP_EPOCHS else []
    finally:
        for source in sources.values():
            source.close()
    return alone


@click.command()
@click.option("--dataset", required=True, help="Name of a data set.")
@click.option("--root", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option(
    "--device",
    default="emulated:v100",
    show_default=True,
    help="cuda, cpu, emulated:v100, emulated:h200 or emulated:PATH.toml.",
)
@click.option(
    "--rung",
    "chosen",
    multiple=True,
    help="sampler/preparation/transfer, such as pyg/processes/pipelined; may be repeated.  "
    "[default: the paper's four]",
)
@click.option("--workers", type=click.IntRange(1), help="[default: one per usable core]")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--model",
    "models",
    type=click.Choice([*MODELS, "all"]),
    default=["SAGE"],
    multiple=True,
    help="May be repeated.  [default: SAGE]",
)
@click.option("--fanouts", type=IntList(), help="[default: the paper's for the model]")
@click.option("--batch-size", type=int, help="[default: the paper's for the model]")
@click.option("--hidden", type=int, help="[default: the paper's for the model]")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True
)
def main(
    dataset: str,
    root: Path | None,
    device: str,
    chosen: tuple[str, ...],
    workers: int | None,
    repeats: int,
    models: Sequence[str],
    results: Path,
    **settings: Any,
) -> None:
    """Measure the ladder and write one result record per rung and model."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if "all" in models:
        models = list(MODELS)
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        configs = [_config(model, given) for model in models]
        ladders = [[Rung.parse(text) for text in chosen] or paper_rungs() for _ in models]
        opened = open_device(device)
        loaded = load_dataset(dataset, root)
    except (OSError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    workers = workers or len(os.sched_getaffinity(0))
    for rungs, config in zip(ladders, configs, strict=True):
        clock = RunClock()
        alone = measure(rungs, opened, loaded, config, workers, repeats)
        for rung in rungs:
            record = make_record(
                rung,
                device=opened,
                requested=device,
                dataset=loaded,
                config=config,
                workers=workers,
                alone=alone if rung is rungs[-1] else (),
                clock=clock,
            )
            log.info("written: %s", records.write_record(results, record))
        click.echo(report(rungs, opened, loaded, config, workers, alone))


def _config(model: str, given: dict[str, Any]) -> TrainConfig:
    settings = PAPER_SETTINGS.get(model, {}) | given
    hops = settings.get("fanouts", TrainConfig.fanouts)
    return TrainConfig(model=model, eval_fanouts=hops, **settings)


if __name__ == "__main__":
    main()
