"""The command ``salient train``, also under torchrun. May import every stage up to the trainer."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from salient.cli_errors import or_complain
from salient.cli_types import IntList
from salient.config import RANK_TIMEOUT, SCHEDULES, TrainConfig, read_toml, write_toml

_PATH = click.Path(path_type=Path)
_INTERRUPTED = 130  # as shells have it: 128 plus the number of SIGINT
_HYPERPARAMETERS = {field.name for field in fields(TrainConfig)}
_NOT_IN_FILES = ("config", "resume")


@click.command()
@click.option("--config", type=_PATH, help="Settings from a TOML file; flags win over it.")
@click.option("--dataset", help="Name or path, as for `data prepare`.  [required]")
@click.option("--root", type=_PATH, help="Folder of data sets.")
@click.option("--model", default=TrainConfig.model, show_default=True)
@click.option("--hidden", default=TrainConfig.hidden, show_default=True)
@click.option(
    "--fanouts",
    type=IntList(),
    default=TrainConfig.fanouts,
    help="At the seeds first.  [default: 15,10,5]",
)
@click.option(
    "--eval-fanouts", type=IntList(), default=TrainConfig.eval_fanouts, help="[default: 20,20,20]"
)
@click.option("--batch-size", default=TrainConfig.batch_size, show_default=True, help="Per rank.")
@click.option("--eval-batch-size", default=TrainConfig.eval_batch_size, show_default=True)
@click.option("--lr", default=TrainConfig.lr, show_default=True)
@click.option("--dropout", default=TrainConfig.dropout, show_default=True)
@click.option("--epochs", default=TrainConfig.epochs, show_default=True)
@click.option("--seed", default=TrainConfig.seed, show_default=True)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default=TrainConfig.schedule,
    show_default=True,
    help="Of the learning rate.",
)
@click.option(
    "--patience",
    default=TrainConfig.patience,
    help="Stop after so many epochs without a better validation accuracy.  [default: never]",
)
@click.option(
    "--threads", type=int, help="Of batch preparation.  [default: one per core, shared by ranks]"
)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--rank-timeout",
    type=float,
    default=RANK_TIMEOUT,
    show_default=True,
    help="Seconds without a sign of life after which a rank is given up.",
)
@click.option(
    "--checkpoint",
    type=_PATH,
    default=Path("checkpoints/best.pt"),
    show_default=True,
    help="Where the best epoch's weights are kept; last.pt and run.toml come beside it.",
)
@click.option("--resume", type=_PATH, help="Continue the run whose last.pt this is.")
@click.option("--log-csv", type=_PATH, help="Table with a line per epoch.")
@click.option("--log-tensorboard", type=_PATH, help="Folder for TensorBoard.")
@click.pass_context
def train(context: click.Context, /, **given: Any) -> None:
    """Train a model with sampled mini-batches, validate each epoch, test the best one.

    Under torchrun, all its processes train together. Ctrl-C ends a run with exit status 130, and
    --resume continues it after the last finished epoch.
    """
    settings = or_complain(lambda: _settle(context, given))
    states = [] if settings["resume"] is None else [settings["resume"]]
    try:
        or_complain(lambda: _train(settings, states))
    except KeyboardInterrupt:
        kept = f"--resume {states[-1]} continues" if states else "no epoch was finished"
        if os.environ.get("RANK", "0") == "0":
            click.echo(f"interrupted; {kept}", err=True)
        sys.exit(_INTERRUPTED)


def _settle(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Return all settings: a flag that was given, else what the file says, else the default.

    Raises
    ------
    TypeError, ValueError
        A setting of the file is unknown, or of the wrong kind.
    """
    settings = dict(given)
    path = settings.pop("config")
    for name, value in ({} if path is None else read_toml(path)).items():
        if name not in settings or name in _NOT_IN_FILES:
            known = ", ".join(key for key in settings if key not in _NOT_IN_FILES)
            raise ValueError(f"{path}: there is no setting {name!r}, known are {known}")
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            settings[name] = value if name in _HYPERPARAMETERS else _as_option(path, name, value)
    if settings["dataset"] is None:
        raise ValueError("dataset: give --dataset, or `dataset = ` in the configuration file")
    return settings


def _as_option(path: Path, name: str, value: Any) -> Any:
    """Return a value of the file that is not checked by TrainConfig, as the flag would give it."""
    kinds: dict[str, Any] = {"threads": int, "rank_timeout": (int, float)}
    if isinstance(value, bool) or not isinstance(value, kinds.get(name, str)):
        raise TypeError(f"{path}: {name} is {value!r}, of the wrong kind; write it as the flag")
    return value if name in kinds or name in ("dataset", "device") else Path(value)


def _train(settings: dict[str, Any], states: list[Path]) -> None:
    """Train; put the path of the state at the end of ``states`` whenever it is saved."""
    from salient.checkpoint import EpochReport, load_state, state_path
    from salient.datasets import load_dataset
    from salient.distributed import joined_world, load_once_per_host, watched
    from salient.loader import NeighborLoader
    from salient.logs import CsvLog, EpochLog, TensorBoardLog
    from salient.trainer import fit

    config = TrainConfig(**{name: settings[name] for name in _HYPERPARAMETERS})
    checkpoint, resume = settings["checkpoint"], settings["resume"]
    with joined_world(settings["device"]) as world:
        dataset = load_once_per_host(
            world, lambda: load_dataset(settings["dataset"], settings["root"])
        )
        threads = settings["threads"]
        if threads is None:
            threads = max(len(os.sched_getaffinity(0)) // world.local_size, 1)

        def source(nodes: Any, fanouts: Any, batch_size: int, *, shuffle: bool) -> NeighborLoader:
            return NeighborLoader(
                (dataset.graph, dataset.x, dataset.y),
                fanouts,
                nodes,
                batch_size,
                shuffle,
                seed=config.seed,
                num_threads=threads,
                rank=world.rank,
                world_size=world.size,
            )

        logs: list[EpochLog] = []
        if world.is_main:
            _save_settings(checkpoint.with_name("run.toml"), settings)
            finished = [] if resume is None else load_state(resume).epochs
            if settings["log_csv"] is not None:
                logs.append(CsvLog(settings["log_csv"], finished))
            if settings["log_tensorboard"] is not None:
                logs.append(TensorBoardLog(settings["log_tensorboard"], finished))

        def report(epoch: EpochReport) -> None:
            states.append(state_path(checkpoint))
            for log in logs:
                log.add(epoch)
            if world.is_main:
                click.echo(_line_of(epoch))

        try:
            with watched(world, settings["rank_timeout"]):
                result = fit(
                    dataset,
                    source,
                    config,
                    device=settings["device"],
                    checkpoint=checkpoint,
                    resume=resume,
                    world=world,
                    on_epoch=report,
                )
        finally:
            for log in logs:
                log.close()
        if world.is_main:
            click.echo(
                f"best epoch {result.best_epoch}: validation accuracy "
                f"{result.valid_accuracy[result.best_epoch]:.4f}, test accuracy "
                f"{result.test_accuracy:.4f}; weights in {checkpoint}"
            )


def _save_settings(path: Path, settings: dict[str, Any]) -> None:
    plain = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in settings.items()
        if name not in _NOT_IN_FILES
    }
    write_toml(path, plain)


def _line_of(epoch: Any) -> str:
    times = epoch.times
    return (
        f"epoch {times.epoch}: {times.total_seconds:.2f} s, of which batch preparation "
        f"{times.batch_preparation.exposed:.2f} s exposed ({times.batch_preparation.work:.2f} "
        f"s work), transfer {times.transfer.exposed:.2f} s, training "
        f"{times.training.work:.2f} s; loss {times.loss:.4f}, validation accuracy "
        f"{epoch.valid_accuracy:.4f}"
    )
