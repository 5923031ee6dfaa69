"""Case 10 across processes: forks, Ctrl-C, exit during an epoch, and too little memory."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from graphs import G5_NUM_NODES, make_g5
from reference_sampler import digest
from salient.graph import Graph
from salient.loader import NeighborLoader

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    # Python warns that a fork of a process with threads may deadlock; that ours does not is tested.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

PATIENCE_SECONDS = 20


def make_loader(**options: Any) -> NeighborLoader:
    graph = Graph.from_edge_index(make_g5(), G5_NUM_NODES)
    x = torch.arange(G5_NUM_NODES * 4, dtype=torch.float32).view(G5_NUM_NODES, 4)
    settings = {"batch_size": 4, "shuffle": True, "num_threads": 2, "prefetch": 2, **options}
    return NeighborLoader((graph, x, torch.arange(G5_NUM_NODES)), [4, 4], **settings)


def in_child(work: Callable[[], str]) -> str:
    """Return what ``work`` gives in a forked child, or the error that it raises there."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(reader) as pipe:
        return pipe.read()


@pytest.fixture
def running() -> tuple[NeighborLoader, Any]:
    """A loader in the middle of an epoch, its threads waiting for room, after a threaded matmul."""
    torch.randn(700, 700) @ torch.randn(700, 700)
    loader = make_loader()
    iterator = iter(loader)
    next(iterator)
    time.sleep(0.1)
    return loader, iterator


# --- forks ----------------------------------------------------------------------------------------


def test_a_forked_child_loads_the_same_batches(running: tuple[NeighborLoader, Any]) -> None:
    loader, iterator = running
    loader.set_epoch(4)
    answer = in_child(lambda: digest(loader))
    loader.set_epoch(4)
    assert answer == digest(loader)
    assert len(list(iterator)) == 49  # the parent's epoch goes on


def test_a_forked_child_samples_the_same(running: tuple[NeighborLoader, Any]) -> None:
    sampler = running[0].sampler

    def sample() -> str:
        return digest(sampler.sample([number, 199]) for number in range(100))

    assert in_child(sample) == sample()


def test_an_epoch_of_the_parent_is_refused_in_the_child(
    running: tuple[NeighborLoader, Any],
) -> None:
    answer = in_child(lambda: str(next(running[1])))
    assert answer.startswith("RuntimeError")
    assert "fork" in answer
    assert len(list(running[1])) == 49


def test_a_child_may_close_an_epoch_of_the_parent(running: tuple[NeighborLoader, Any]) -> None:
    def close() -> str:
        running[1].close()
        return digest(make_loader())

    assert in_child(close) == digest(make_loader())
    assert len(list(running[1])) == 49


def test_a_child_may_drop_an_epoch_of_the_parent() -> None:
    """The threads that wait in the parent must not be waited for in the child."""
    iterators = [iter(make_loader())]
    next(iterators[0])
    time.sleep(0.1)

    def drop() -> str:
        iterators.clear()
        gc.collect()
        return "dropped"

    assert in_child(drop) == "dropped"
    assert len(list(iterators[0])) == 49


def test_batches_of_the_parent_live_on_in_the_child(running: tuple[NeighborLoader, Any]) -> None:
    kept = [next(running[1]) for _ in range(5)]
    expected = digest(kept)

    def use() -> str:
        answer = digest(kept)
        kept.clear()
        gc.collect()
        return answer

    assert in_child(use) == expected
    assert digest(kept) == expected


# --- other processes ------------------------------------------------------------------------------

PREAMBLE = """
import json, os, signal, sys, time
import numpy as np
from salient.graph import Graph
from salient.loader import NeighborLoader
from test_loader_lifecycle import slow_loader
from test_loader_processes import make_loader
"""


def start(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], patience: float) -> tuple[str, str]:
    try:
        return process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"the process did not end within {patience} s")


def test_ctrl_c_ends_a_wait_at_once() -> None:
    process = start(
        """
try:
    for _ in slow_loader():
        print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", finish(process, 5)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    # In batches, since a busy machine may take any time: the epoch is nowhere near its end.
    lines = list(iter(process.stdout.readline, ""))
    assert lines[-1] == "interrupted\n"
    assert len(lines) < 100  # of slow_loader's 200 batches
    assert finish(process, PATIENCE_SECONDS) == ("", "")
    assert process.returncode == 0


def test_a_process_ends_at_once_while_epochs_run() -> None:
    """As globals, in a suspended generator and in a cycle; also in a forked child."""
    process = start(
        """
loader, other = slow_loader(), make_loader()
running = [iter(loader), iter(other), iter(other)]
running.append(running)
def generate():
    yield from slow_loader()
generator = generate()
next(generator), next(running[1])
time.sleep(0.1)
child = os.fork()
if child:
    deadline = time.monotonic() + 10
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    if not ended:
        os.kill(child, signal.SIGKILL)
    print("child", "ended with" if ended else "hung", status, time.time(), flush=True)
"""
    )
    output, errors = finish(process, 60)
    ended = time.time()
    assert errors == ""
    assert process.returncode == 0
    assert output.startswith("child ended with 0 "), output
    assert ended - float(output.split()[-1]) < 5


SHORT_OF_MEMORY = """
import resource

leaves = np.arange(6000)
graph = Graph.from_edge_index(np.stack([leaves, np.full(6000, 6000)]))
x = np.zeros((6001, 16384), np.float32)
wide = NeighborLoader((graph, x, None), [-1], [0, 6000], batch_size=1, num_threads=1)
everyone = np.arange(6001)
deep = NeighborLoader(
    (Graph(np.arange(6002), np.zeros(6001, np.int32)), None, None),
    [1, 20_000], everyone, batch_size=6001, replace=True, num_threads=1,
)
list(NeighborLoader((graph, x[:, :4].copy(), None), [2], num_threads=1))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (250 << 20), resource.RLIM_INFINITY))

def attempt(loader):
    sizes = []
    try:
        for batch in loader:
            sizes.append(batch.num_nodes)
    except Exception as error:
        return sizes, type(error).__name__, str(error)
    return sizes, None, None

first = attempt(wide), attempt(deep)
again = attempt(wide)[0], next(iter(wide)).x.shape[0]
print(json.dumps([*first, again]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc/self/statm")
def test_too_little_memory_is_an_error_that_names_the_bytes() -> None:
    process = start(SHORT_OF_MEMORY)
    output, errors = finish(process, 60)
    assert process.returncode == 0, errors
    (wide_sizes, *wide), (deep_sizes, *deep), again = json.loads(output)
    assert (wide_sizes, deep_sizes) == ([1], [])
    assert again == [[1], 1]  # the loader lives
    for kind, words in (wide, deep):
        assert kind == "RuntimeError"
        numbers = [int(word) for word in words.replace(",", " ").split() if word.isdigit()]
        assert len(numbers) == 2, words
        needed, available = numbers
        assert available < needed, words
    # A slab is asked for whole; the sampler's arrays grow, and name the step that failed.
    assert int(wide[1].split()[3]) > 6001 * 4 * 16384
