"""The command line: ``salient doctor | data | train``. May import every stage."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from salient.cli_data import data
from salient.cli_errors import or_complain
from salient.config import TrainConfig


class IntList(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Whole numbers separated by commas."""

    name = "k,k,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Return the numbers as a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 15,10,5", param, ctx)


@click.group()
@click.version_option(package_name="salient-bench")
def main() -> None:
    """Fast neighbour sampling and training of graph neural networks."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


main.add_command(data)


@main.command()
def doctor() -> None:
    """Say what works on this machine and what to do about what does not."""
    from salient.doctor import examine

    broken = False
    for finding in examine():
        click.echo(f"{finding.status:8}{finding.name:22}{finding.detail}")
        if finding.remedy:
            click.echo(f"{'':30}-> {finding.remedy}")
        broken |= finding.status == "broken"
    sys.exit(1 if broken else 0)


@main.command()
@click.option("--dataset", required=True, help="Name or path, as for `data prepare`.")
@click.option("--root", type=click.Path(path_type=Path), help="Folder of data sets.")
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
@click.option("--batch-size", default=TrainConfig.batch_size, show_default=True)
@click.option("--eval-batch-size", default=TrainConfig.eval_batch_size, show_default=True)
@click.option("--lr", default=TrainConfig.lr, show_default=True)
@click.option("--dropout", default=TrainConfig.dropout, show_default=True)
@click.option("--epochs", default=TrainConfig.epochs, show_default=True)
@click.option("--seed", default=TrainConfig.seed, show_default=True)
@click.option("--threads", type=int, help="Of batch preparation.  [default: one per core]")
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    default=Path("checkpoints/best.pt"),
    show_default=True,
    help="Where the best epoch's weights are kept.",
)
def train(
    dataset: str,
    root: Path | None,
    threads: int | None,
    device: str,
    checkpoint: Path,
    **settings: Any,
) -> None:
    """Train a model with sampled mini-batches, validate each epoch, test the best one."""
    from salient.datasets import load_dataset
    from salient.loader import NeighborLoader
    from salient.timing import EpochTimes
    from salient.trainer import fit

    loaded = or_complain(lambda: load_dataset(dataset, root))

    def report(times: EpochTimes, accuracy: float) -> None:
        click.echo(
            f"epoch {times.epoch}: {times.total_seconds:.2f} s, of which batch preparation "
            f"{times.batch_preparation.exposed:.2f} s exposed ({times.batch_preparation.work:.2f} "
            f"s work), transfer {times.transfer.exposed:.2f} s, training "
            f"{times.training.work:.2f} s; loss {times.loss:.4f}, validation accuracy "
            f"{accuracy:.4f}"
        )

    def run() -> Any:
        config = TrainConfig(**settings)

        def source(nodes: Any, fanouts: Any, batch_size: int, *, shuffle: bool) -> NeighborLoader:
            return NeighborLoader(
                (loaded.graph, loaded.x, loaded.y),
                fanouts,
                nodes,
                batch_size,
                shuffle,
                seed=config.seed,
                num_threads=threads,
            )

        return fit(loaded, source, config, device=device, checkpoint=checkpoint, on_epoch=report)

    result = or_complain(run)
    click.echo(
        f"best epoch {result.best_epoch}: validation accuracy "
        f"{result.valid_accuracy[result.best_epoch]:.4f}, test accuracy "
        f"{result.test_accuracy:.4f}; weights in {checkpoint}"
    )
