"""Runs people trust: continued bit for bit, scheduled, stopped, logged, interrupted, leak-free."""

from __future__ import annotations

import csv
import dataclasses
import gc
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("torch_geometric", reason="the models need torch-geometric")

from test_training import SMALL, source_of, tiny

from salient.checkpoint import EpochReport
from salient.cli import main
from salient.config import TrainConfig
from salient.schedule import PLATEAU_EPOCHS, learning_rate, should_stop
from salient.trainer import FitResult, fit

TINY = ["--dataset", "synthetic:tiny", "--hidden", "16", "--fanouts", "5,5", "--eval-fanouts",
        "5,5", "--batch-size", "128", "--threads", "1"]  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Of torch's own: on graphs so small, more only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(
    config: TrainConfig, on_epoch: Callable[[EpochReport], Any] | None = None, **options: Any
) -> FitResult:
    dataset = tiny()
    source = source_of(dataset, seed=config.seed, num_threads=1)
    return fit(dataset, source, config, progress=False, on_epoch=on_epoch, **options)


def config_of(**changes: Any) -> TrainConfig:
    return dataclasses.replace(SMALL, batch_size=128, **changes)


# --- continuing -----------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def assert_same_bits(one: Any, other: Any, place: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), place
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for key in one:
            if key != "times":
                assert_same_bits(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_bits(a, b, f"{place}[{number}]")
    else:
        assert one == other, place


@pytest.mark.parametrize("schedule", ["none", "plateau"])
def test_four_epochs_are_two_and_two_more(schedule: str, tmp_path: Path) -> None:
    config = config_of(epochs=4, schedule=schedule)
    straight = run(config, checkpoint=tmp_path / "straight" / "best.pt")
    run(dataclasses.replace(config, epochs=2), checkpoint=tmp_path / "half" / "best.pt")
    torch.manual_seed(99)  # what the process drew meanwhile must not matter
    resumed = run(
        config, checkpoint=tmp_path / "other" / "best.pt", resume=tmp_path / "half" / "last.pt"
    )
    for name in ("last.pt", "best.pt"):
        assert_same_bits(load(tmp_path / "straight" / name), load(tmp_path / "other" / name))
    assert resumed.valid_accuracy == straight.valid_accuracy
    assert resumed.test_accuracy == straight.test_accuracy
    assert [t.loss for t in resumed.epochs] == [t.loss for t in straight.epochs]


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """The interrupt comes in the middle of an epoch, which is then trained from its start."""
    config = config_of(epochs=4, schedule="cosine", patience=3)
    dataset = tiny()

    def interrupted_source(nodes: Any, *arguments: Any, shuffle: bool) -> Any:
        loader = source_of(dataset, seed=config.seed)(nodes, *arguments, shuffle=shuffle)
        if not shuffle:
            return loader

        class Interrupted:
            epoch = 0

            def __iter__(self) -> Any:
                for number, batch in enumerate(loader):
                    if (self.epoch, number) == (2, 3):
                        raise KeyboardInterrupt
                    yield batch
                self.epoch += 1

        return Interrupted()

    with pytest.raises(KeyboardInterrupt):
        fit(dataset, interrupted_source, config, checkpoint=tmp_path / "best.pt", progress=False)
    assert load(tmp_path / "last.pt")["best_epoch"] <= 1
    assert len(load(tmp_path / "last.pt")["epochs"]) == 2
    resumed = run(config, checkpoint=tmp_path / "best.pt", resume=tmp_path / "last.pt")
    straight = run(config, checkpoint=tmp_path / "straight" / "best.pt")
    assert_same_bits(load(tmp_path / "straight" / "last.pt"), load(tmp_path / "last.pt"))
    assert resumed.valid_accuracy == straight.valid_accuracy


def test_a_finished_run_can_be_continued_with_nothing_left_to_do(tmp_path: Path) -> None:
    first = run(config_of(epochs=1), checkpoint=tmp_path / "best.pt")
    again = run(config_of(epochs=1), resume=tmp_path / "last.pt")
    assert again.test_accuracy == first.test_accuracy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": 0.5}, "lr is 0.5, but the run was started with 0.01"),
        ({"seed": 3}, "seed is 3"),
        ({"schedule": "plateau"}, "schedule is 'plateau'"),
    ],
)
def test_other_settings_do_not_continue_a_run(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    run(config_of(epochs=1), checkpoint=tmp_path / "best.pt")
    with pytest.raises(ValueError, match=words):
        run(config_of(epochs=1, **changes), resume=tmp_path / "last.pt")


def test_what_is_no_state_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "best.pt"
    config = config_of(epochs=1, schedule="cosine")
    run(config, checkpoint=path)
    with pytest.raises(FileNotFoundError, match=r"gone\.pt: there is no such file"):
        run(config, resume=tmp_path / "gone.pt")
    with pytest.raises(ValueError, match=r"best\.pt: is not the state of a run.*last\.pt"):
        run(config, resume=path)
    with pytest.raises(ValueError, match=r"epochs is 2, .*on which the cosine schedule depends"):
        run(dataclasses.replace(config, epochs=2), resume=tmp_path / "last.pt")
    state = load(tmp_path / "last.pt")
    torch.save({**state, "dataset_sha256": "0"}, path)
    with pytest.raises(ValueError, match="another data set"):
        run(config, resume=path)
    torch.save({**state, "version": 99}, path)
    with pytest.raises(ValueError, match="version 99, this code reads 1"):
        run(config, resume=path)
    path.write_bytes((tmp_path / "last.pt").read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"best\.pt: cannot be read as the state"):
        run(config, resume=path)


# --- schedule and stopping ------------------------------------------------------------------------


def test_the_cosine_is_torchs_own() -> None:
    config = config_of(epochs=7, schedule="cosine")
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.lr)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.epochs)
    for epoch in range(config.epochs):
        assert math.isclose(learning_rate(config, epoch, []), optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()


def test_the_plateau_is_torchs_own() -> None:
    config = config_of(epochs=40, schedule="plateau")
    accuracies = [0.1, 0.5, *[0.5] * 12, 0.6, *[0.4, 0.6, 0.2] * 6, 0.7]
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.lr)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, mode="max", factor=0.5, patience=PLATEAU_EPOCHS - 1, threshold=0
    )
    rates = []
    for epoch, accuracy in enumerate(accuracies):
        rates.append(learning_rate(config, epoch, accuracies))  # knows the past only
        assert math.isclose(rates[-1], optimiser.param_groups[0]["lr"]), epoch
        theirs.step(accuracy)
    assert len(set(rates)) > 3


def test_a_run_follows_its_schedule_and_says_so(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    run(config_of(epochs=3, schedule="cosine"), on_epoch=reports.append)
    assert [r.lr for r in reports] == [0.01, pytest.approx(0.0075), pytest.approx(0.0025)]
    flat = run(config_of(epochs=3))
    assert [r.times.loss for r in reports][2] != flat.epochs[2].loss


def test_training_stops_when_validation_brings_nothing_more() -> None:
    config = config_of(patience=2)
    assert not should_stop(config, [0.1, 0.2, 0.2])
    assert should_stop(config, [0.1, 0.2, 0.2, 0.1])
    assert not should_stop(config, [0.1, 0.2, 0.2, 0.3])
    assert not should_stop(config_of(), [0.5] * 100)
    still = run(config_of(epochs=50, lr=0.0, patience=2))  # no learning, no better accuracy
    waited = len(still.valid_accuracy) - 1 - still.best_epoch
    assert waited == 2 and len(still.epochs) < 50


# --- the command ----------------------------------------------------------------------------------


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["train", *arguments])


def test_flags_win_over_the_file_and_both_are_kept_with_the_result(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'dataset = "synthetic:tiny"\nhidden = 16\nfanouts = [5, 5]\neval_fanouts = [5, 5]\n'
        f'batch_size = 128\nepochs = 9\nlr = 0.02\ncheckpoint = "{tmp_path}/a/best.pt"\n'
    )
    done = invoke("--config", str(file), "--epochs", "2")
    assert done.exit_code == 0, done.output
    config = load(tmp_path / "a" / "best.pt")["config"]
    expected = {"hidden": 16, "fanouts": [5, 5], "epochs": 2, "lr": 0.02, "dropout": 0.5}
    assert {key: config[key] for key in expected} == expected
    # The settings kept beside the result make the same run again.
    again = invoke("--config", str(tmp_path / "a" / "run.toml"), "--checkpoint",
                   str(tmp_path / "b" / "best.pt"))  # fmt: skip
    assert again.exit_code == 0, again.output
    assert_same_bits(load(tmp_path / "a" / "last.pt"), load(tmp_path / "b" / "last.pt"))
    # `--resume` with the same file and more epochs.
    more = invoke("--config", str(tmp_path / "b" / "run.toml"), "--epochs", "3", "--resume",
                  str(tmp_path / "b" / "last.pt"))  # fmt: skip
    assert more.exit_code == 0, more.output
    assert re.findall(r"^epoch (\d):", more.output, re.M) == ["2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epoch = 3", "settings.toml: there is no setting 'epoch', known are dataset"),
        ("resume = 'x'", "no setting 'resume'"),
        ("[model]\nhidden = 3", "has a section [model]"),
        ("epochs = ", "is not TOML"),
        ("epochs = 2.5", "epochs: expected an int, got 2.5"),
        ("fanouts = 5", "fanouts"),
        ("threads = '2'", "threads is '2', of the wrong kind"),
        ("schedule = 'linear'", "schedule: 'linear' is unknown, expected one of none, cosine"),
        ("model = 3", "model: expected a name, got 3"),
        ("epochs = 1", "dataset: give --dataset"),
    ],
)
def test_mistakes_in_the_file_get_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    dataset = [] if "dataset:" in words else ["--dataset", "synthetic:tiny"]
    done = invoke("--config", str(file), *dataset, "--checkpoint", str(tmp_path / "best.pt"))
    assert done.exit_code == 1
    assert words in done.output.replace("\n", " ")
    assert "Traceback" not in done.output


def test_the_csv_log_has_each_epoch_once(tmp_path: Path) -> None:
    log, files = tmp_path / "log" / "run.csv", ["--checkpoint", str(tmp_path / "best.pt")]
    arguments = [*TINY, *files, "--log-csv", str(log)]
    assert invoke(*arguments, "--epochs", "2").exit_code == 0
    done = invoke(*arguments, "--epochs", "3", "--resume", str(tmp_path / "last.pt"))
    assert done.exit_code == 0, done.output
    with log.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    said = dict(re.findall(r"^epoch (\d): .*loss ([\d.]+)", done.output, re.M))
    assert said["2"] == f"{float(rows[2]['loss']):.4f}"
    assert all(0 <= float(row["valid_accuracy"]) <= 1 for row in rows)


def test_tensorboard_logs_or_says_how_to_get_it(tmp_path: Path) -> None:
    arguments = [*TINY, "--checkpoint", str(tmp_path / "best.pt"), "--epochs", "1",
                 "--log-tensorboard", str(tmp_path / "board")]  # fmt: skip
    done = invoke(*arguments)
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        assert done.exit_code == 1
        assert "pip install tensorboard" in done.output
    else:
        assert done.exit_code == 0, done.output
        assert list((tmp_path / "board").glob("events*"))


def test_ctrl_c_keeps_the_run_and_exits_with_130(tmp_path: Path) -> None:
    """A real process and signal; what it says to do next is then done."""
    command = [sys.executable, "-m", "salient.train", *TINY, "--epochs", "1000"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch 2:"):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors and "it/s" not in errors  # no terminal, no progress bar
    assert "interrupted; --resume checkpoints/last.pt continues" in errors
    assert not list((tmp_path / "checkpoints").glob("*.partial"))
    finished = len(load(tmp_path / "checkpoints" / "last.pt")["epochs"])
    assert finished >= 3
    done = invoke(
        *TINY, "--epochs", str(finished + 1), "--resume", str(tmp_path / "checkpoints" / "last.pt"),
        "--checkpoint", str(tmp_path / "best.pt"),
    )  # fmt: skip
    assert re.findall(r"^epoch (\d+):", done.output, re.M) == [str(finished)], done.output


# --- long runs ------------------------------------------------------------------------------------


def held() -> tuple[int, int]:
    """Threads and descriptors of this process."""
    threads, descriptors = (
        len(list(Path(f"/proc/self/{part}").iterdir())) for part in ("task", "fd")
    )
    return threads, descriptors


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks into /proc")
def test_200_epochs_leave_memory_threads_and_descriptors_where_they_were(tmp_path: Path) -> None:
    memory: list[int] = []
    config = dataclasses.replace(SMALL, hidden=8, batch_size=300, eval_fanouts=(2, 2), epochs=200)
    run(dataclasses.replace(config, epochs=2))  # whatever is made once and kept
    gc.collect()
    before = held()
    run(config, lambda report: memory.append(resident_bytes()), checkpoint=tmp_path / "best.pt")
    gc.collect()
    deadline = time.monotonic() + 5  # a joined thread may stay listed for an instant
    while held() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() == before
    # A batch takes about 100 kB: one of each epoch that stayed would be 15 MB.
    assert memory[-1] - memory[49] < 4e6
