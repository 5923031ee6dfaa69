"""Logs of a run, one entry an epoch: CSV and TensorBoard. May import: checkpoint, torch."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Protocol

from salient.checkpoint import EpochReport


class EpochLog(Protocol):
    """Takes what each epoch brought."""

    def add(self, report: EpochReport) -> None:
        """Write one epoch, so that it is there whatever happens next."""
        ...

    def close(self) -> None:
        """Write no more."""
        ...


def columns_of(report: EpochReport) -> dict[str, float]:
    """Return the quantities that a log holds, by name; times are in seconds."""
    times = report.times
    return {
        "epoch": times.epoch,
        "lr": report.lr,
        "loss": times.loss,
        "train_accuracy": report.train_accuracy,
        "valid_accuracy": report.valid_accuracy,
        "seconds": times.total_seconds,
        "preparation_work": times.batch_preparation.work,
        "preparation_exposed": times.batch_preparation.exposed,
        "transfer_exposed": times.transfer.exposed,
        "training_exposed": times.training.exposed,
        "batches": times.batches,
        "nodes": times.nodes,
        "edges": times.edges,
    }


class CsvLog:
    """A table with one line an epoch.

    Parameters
    ----------
    path : Path
        Made anew, with its folder.
    finished : list of EpochReport
        Epochs of a run that is continued; they become the first lines.
    """

    def __init__(self, path: Path, finished: list[EpochReport]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer: csv.DictWriter[str] | None = None
        for report in finished:
            self.add(report)

    def add(self, report: EpochReport) -> None:
        """Write one line."""
        row = columns_of(report)
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, list(row), lineterminator="\n")
            self._writer.writeheader()
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoardLog:
    """Scalars in a folder that TensorBoard shows.

    Parameters
    ----------
    folder : Path
    finished : list of EpochReport
        Epochs of a run that is continued, which are in the folder already; entries after them, of
        epochs that are made again, are hidden.

    Raises
    ------
    ImportError
        TensorBoard is not installed.
    """

    def __init__(self, folder: Path, finished: list[EpochReport]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"--log-tensorboard needs TensorBoard: pip install tensorboard, or use --log-csv "
                f"({error})"
            ) from error
        self._writer = SummaryWriter(str(folder), purge_step=len(finished))

    def add(self, report: EpochReport) -> None:
        """Write the scalars of one epoch."""
        for name, value in columns_of(report).items():
            if name != "epoch":
                self._writer.add_scalar(name, value, report.times.epoch)
        self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        self._writer.close()
