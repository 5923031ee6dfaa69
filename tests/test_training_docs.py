"""The commands and the code in docs/training.md, and the SLURM script, do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("torch_geometric", reason="the models need torch-geometric")

from salient.cli import main
from salient.cli_train import train

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEXT = (DOCS / "training.md").read_text()
# A graph made on the spot stands for the one that would be fetched.
RUNNABLE = TEXT.replace("pubmed", "synthetic:tiny").replace("= 25", "= 3")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Of torch's own: on graphs so small, more only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", RUNNABLE, re.S)


def commands(program: str) -> list[list[str]]:
    lines = "\n".join(blocks("sh")).splitlines()
    return [shlex.split(line) for line in lines if line.startswith(program)]


def test_the_commands_for_one_process_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings,) = blocks("toml")
    monkeypatch.chdir(tmp_path)
    Path("settings.toml").write_text(settings)
    found = commands("salient train")
    assert len(found) == 3
    for arguments in found:
        done = CliRunner().invoke(main, arguments[1:])
        assert done.exit_code == 0, (arguments, done.output)
    assert Path("runs/second/log.csv").exists()
    named = set(re.findall(r"^\| `([\w.]+)`", TEXT, re.M))
    assert {path.name for path in Path("runs/first").iterdir()} == named


def test_the_commands_for_many_have_flags_that_exist() -> None:
    found = commands("torchrun")
    assert len(found) == 3
    for arguments in found:
        own = arguments[arguments.index("salient.train") + 1 :]
        train.make_context("train", own)  # raises for a flag that does not exist


def test_the_loop_runs() -> None:
    (code,) = blocks("python")
    scope: dict[str, object] = {}
    exec(compile(code, "training.md", "exec"), scope)
    assert all(p.grad is not None for p in scope["model"].parameters())  # type: ignore[attr-defined]


@pytest.mark.parametrize("resumed", [False, True])
def test_the_slurm_script_starts_torchrun_on_each_node(resumed: bool, tmp_path: Path) -> None:
    """With stand-ins for SLURM's programs and torchrun, which say how they were called."""
    for name, body in (
        ("scontrol", "echo node7; echo node8"),
        ("srun", 'echo "$1"; shift; exec "$@"'),
        ("torchrun", 'printf "%s\\n" "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    results = tmp_path / "my results"
    results.mkdir()
    if resumed:
        (results / "last.pt").touch()
    done = subprocess.run(
        ["bash", str(DOCS / "slurm_train.sh"), "--epochs", "7"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "CONFIG": "c.toml",
             "RESULTS": str(results), "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2",
             "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "11"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert said[0] == "--kill-on-bad-exit=1"
    assert said[said.index("--rdzv-endpoint") + 1] == "node7:29500"
    assert said[said.index("--nproc-per-node") + 1] == "4"
    context = train.make_context("train", said[said.index("salient.train") + 1 :])
    assert context.params["resume"] == (results / "last.pt" if resumed else None)
    assert (context.params["checkpoint"], context.params["epochs"]) == (results / "best.pt", 7)
