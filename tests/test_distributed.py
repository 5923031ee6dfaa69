"""Several processes train together: as one would, on one copy of the data, or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("torch_geometric", reason="the models need torch-geometric")

from test_training import source_of

import salient
from salient.checkpoint import load_state
from salient.distributed import ALONE, watched
from salient.heartbeat import Heartbeat
from salient.trainer import fit

ROOT = Path(__file__).resolve().parent.parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TINY = ["-m", "salient.train", "--dataset", "synthetic:tiny", "--fanouts", "5,5", "--eval-fanouts",
        "5,5", "--hidden", "16", "--batch-size", "64", "--threads", "1"]  # fmt: skip
FAILURE_SECONDS = 60


def environment(temporary: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}


def start(command: list[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(command: list[str], cwd: Path, patience: float = 240) -> tuple[int, str]:
    process = start(command, cwd)
    try:
        output, _ = process.communicate(timeout=patience)
    finally:
        process.kill()
    return process.returncode, output


def on_this_host(ranks: int) -> list[str]:
    return [*TORCHRUN, "--standalone", "--nproc-per-node", str(ranks)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of four ranks found; two of them also form a world of their own."""
    folder = tmp_path_factory.mktemp("ranks")
    script = str(ROOT / "tests" / "rank_checks.py")
    status, output = run([*on_this_host(4), script, str(folder / "out")], folder)
    assert status == 0, output
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(4)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_steps_of_many_ranks_are_those_of_one_process(
    found: list[dict[str, Any]], ranks: int
) -> None:
    """Weights after two epochs of SGD in float64, dropout and ranks without seeds included."""
    trained = [torch.tensor(of_rank[str(ranks)]["trained"]).double() for of_rank in found[:ranks]]
    assert trained[0].unique().numel() > 50
    for of_rank, weights in zip(found[:ranks], trained, strict=True):
        by_hand = torch.tensor(of_rank[str(ranks)]["by_hand"]).double()
        torch.testing.assert_close(weights, by_hand, rtol=0, atol=1e-12)
        assert torch.equal(weights, trained[0])


@pytest.mark.parametrize("ranks", [2, 4])
def test_evaluation_counts_each_node_once(found: list[dict[str, Any]], ranks: int) -> None:
    accuracies = {
        of_rank[str(ranks)][key]
        for of_rank in found[:ranks]
        for key in ("accuracy", "accuracy_alone")
    }
    assert len(accuracies) == 1


def test_the_ranks_of_a_host_share_one_copy_of_the_data(found: list[dict[str, Any]]) -> None:
    sharing = [of_rank["sharing"] for of_rank in found]
    assert len({of_rank["sum"] for of_rank in sharing}) == 1
    size = sharing[0]["set_bytes"]
    assert size > 60e6
    # A copy for each would be four times the size, and one kept in memory beside the file twice.
    assert 0.9 * size < sum(of_rank["growth"] for of_rank in sharing) < 1.6 * size
    assert not any(of_rank["left"] for of_rank in sharing)


def test_ranks_take_over_rank_0s_buffers_and_refuse_other_settings(
    found: list[dict[str, Any]],
) -> None:
    for of_rank in found:
        assert of_rank["agreement"]["running_mean"] == [1.0] * 3
        refusal = of_rank["agreement"]["refusal"]
        assert re.match(r"settings: lr is 0\.0 on rank 0 .*, but 0\.1 on rank 2 .*", refusal)
        assert "start all hosts with the same settings" in refusal


# --- the command, on two machines -----------------------------------------------------------------

NAMESPACES = """
set -e
ip link set lo up
unshare --net sleep 600 & other=$!
trap 'kill $other 2>/dev/null' EXIT
for _ in $(seq 100); do
  [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break; sleep 0.05
done
ip link add left type veth peer name right netns $other
ip addr add 10.77.0.1/24 dev left && ip link set left up
nsenter -t $other -n sh -c \
  'ip link set lo up && ip addr add 10.77.0.2/24 dev right && ip link set right up'
"""
IN_NAMESPACE = ["unshare", "--map-root-user", "--net", "sh", "-c"]


def reason_against_namespaces() -> str:
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    probe = subprocess.run(
        [*IN_NAMESPACE, NAMESPACES], capture_output=True, text=True, timeout=30, check=False
    )
    return "" if probe.returncode == 0 else f"not permitted here: {probe.stderr.strip()[:200]}"


def on_two_hosts(number: int, address: str, port: int) -> list[str]:
    return [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number),
            "--master-addr", address, "--master-port", str(port)]  # fmt: skip


class Command(NamedTuple):
    output: str
    folder: Path
    reason_for_one_host: str


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command on two ranks: on two hosts (network namespaces with a cable), or on one."""
    folder = tmp_path_factory.mktemp("command")
    arguments = [*TINY, "--epochs", "2", "--checkpoint", "run/best.pt", "--log-csv", "run/log.csv"]
    reason = reason_against_namespaces()
    if reason:
        status, output = run([*on_this_host(2), *arguments], folder)
    else:
        left, right = (
            shlex.join([*on_two_hosts(n, "10.77.0.1", 29511), *arguments]) for n in (0, 1)
        )
        script = f"""{NAMESPACES}
GLOO_SOCKET_IFNAME=right nsenter -t $other -n {right} & second=$!
GLOO_SOCKET_IFNAME=left {left}
wait $second
"""
        status, output = run([*IN_NAMESPACE, script], folder)
    assert status == 0, output
    return Command(output, folder, reason)


def test_two_machines_train_together(command: Command) -> None:
    """That the fixture went well on two hosts is the test; nothing else connects the two."""
    if command.reason_for_one_host:
        pytest.skip(f"network namespaces: {command.reason_for_one_host}")
    assert "10.77.0.1" not in command.output  # no complaint


def test_only_rank_0_speaks_and_writes(command: Command) -> None:
    assert len(re.findall(r"^epoch \d:", command.output, re.M)) == 2
    assert "it/s" not in command.output  # no terminal, no progress bar
    run_folder = command.folder / "run"
    assert sorted(path.name for path in run_folder.iterdir()) == [
        "best.pt", "last.pt", "log.csv", "run.toml"
    ]  # fmt: skip
    names, *rows = (run_folder / "log.csv").read_text().splitlines()
    assert len(rows) == 2
    for row in rows:  # 600 training nodes, of both ranks together
        assert dict(zip(names.split(","), row.split(","), strict=True))["batches"] == "10"


def test_one_process_continues_what_two_ranks_began(command: Command, tmp_path: Path) -> None:
    """Checkpoints do not depend on the number of ranks."""
    state = load_state(command.folder / "run" / "last.pt")
    dataset = salient.load_dataset("synthetic:tiny")
    config = dataclasses.replace(state.config, epochs=3)
    result = fit(
        dataset, source_of(dataset, seed=0), config, resume=command.folder / "run" / "last.pt"
    )
    assert [times.batches for times in result.epochs] == [10, 10, 10]


# --- failures -------------------------------------------------------------------------------------


def test_a_rank_that_fails_alone_ends_the_job_with_its_reason(tmp_path: Path) -> None:
    """Only rank 0 writes the log, so only rank 0 meets the wrong path; rank 1 waits for it."""
    began = time.monotonic()
    status, output = run(
        [*on_this_host(2), *TINY, "--log-csv", "/proc/none/log.csv"], tmp_path, 4 * FAILURE_SECONDS
    )
    assert status != 0
    assert time.monotonic() - began < FAILURE_SECONDS
    assert "FileNotFoundError" in output and "/proc/none" in output
    summary = output[output.index("Root Cause") :]
    assert "rank      : 0" in summary and "/proc/none" in summary


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def child_of(process: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (ranks,) = [c for c in children if b"salient.train" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return int(ranks)


def test_a_rank_without_signs_of_life_is_given_up_and_a_slow_one_is_not() -> None:
    """Both ranks are in this process; rank 1 beats for twice the patience, then no more."""
    store, lost, patience = dist.HashStore(), queue.Queue[str](), 1.5
    other = Heartbeat(store, 1, 2, patience, lost.put)
    heartbeat = Heartbeat(store, 0, 2, patience, lost.put)
    other.start()
    heartbeat.start()
    with pytest.raises(queue.Empty):
        lost.get(timeout=2 * patience)
    other.stop()
    reason = lost.get(timeout=FAILURE_SECONDS)
    assert f"no sign of life from rank 1 on {socket.gethostname()} for 1.5 s" in reason
    heartbeat.stop()
    with pytest.raises(ValueError, match="rank_timeout: is 0"), watched(ALONE, 0):
        pass


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    port = free_port()
    arguments = [*TINY, "--epochs", "100000"]
    processes = [start([*on_two_hosts(n, "127.0.0.1", port), *arguments], tmp_path) for n in (0, 1)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the ranks in /proc")
def test_a_killed_rank_ends_the_job_on_all_hosts(launchers: list[subprocess.Popen[str]]) -> None:
    """Two launchers, as on two hosts: one of them sees only that its rank lost the other."""
    assert launchers[0].stdout is not None
    for line in launchers[0].stdout:
        if line.startswith("epoch 1:"):
            break
    os.kill(child_of(launchers[1]), signal.SIGKILL)
    began = time.monotonic()
    outputs = [process.communicate(timeout=4 * FAILURE_SECONDS)[0] for process in launchers]
    assert time.monotonic() - began < FAILURE_SECONDS
    assert all(process.returncode != 0 for process in launchers)
    assert "SIGKILL" in outputs[1]
    assert "rank 0 of 2" in outputs[0] and "lost another rank" in outputs[0]
    assert "--resume" in outputs[0]
