"""Emulated devices: the pipeline's timing against the closed form, and the user's own numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from salient.emulated import PRESETS, EmulatedDevice, StepCost, load_emulated
from salient.timing import EpochTimes
from salient.transfer import DevicePrefetcher, open_device
from transfer_devices import FakeBatch

BATCH_BYTES = 1000


class VirtualClock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = self.sleeps = 0

    def read(self) -> float:
        self.reads += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now += seconds


class SizedBatch(FakeBatch):
    """A batch of BATCH_BYTES."""

    wire_tensors = (torch.zeros(BATCH_BYTES, dtype=torch.uint8),)


class WorkingLoader:
    """Takes virtual time for each batch in the thread that asks, as slow host work does."""

    def __init__(self, clock: VirtualClock, seconds: float, batches: int) -> None:
        self.clock, self.seconds, self.batches = clock, seconds, batches

    def __iter__(self) -> Iterator[SizedBatch]:
        for number in range(self.batches):
            self.clock.now += self.seconds
            yield SizedBatch(number)


def make_device(copy: float, step: float, **options: object) -> EmulatedDevice:
    latency = copy / 4
    return EmulatedDevice(
        bandwidth=BATCH_BYTES / (copy - latency),
        latency=latency,
        step=StepCost(constant=step),
        **options,  # type: ignore[arg-type]
    )


def run_virtual(
    preparation: float, copy: float, step: float, *, depth: int, batches: int = 20
) -> tuple[EpochTimes, float, VirtualClock]:
    clock = VirtualClock()
    device = make_device(copy, step, clock=clock.read, sleep=clock.sleep)
    prefetcher = DevicePrefetcher(WorkingLoader(clock, preparation, batches), device, depth)
    began = clock.now
    for batch in prefetcher:
        device.step(batch)
    return prefetcher.times, clock.now - began, clock


COSTS = [(0.0, 3.0, 5.0), (0.0, 5.0, 3.0), (2.0, 3.0, 7.0), (2.0, 7.0, 3.0), (7.0, 3.0, 2.0)]


@pytest.mark.parametrize(("preparation", "copy", "step"), COSTS)
def test_without_overlap_an_epoch_takes_the_sum(
    preparation: float, copy: float, step: float
) -> None:
    times, host, _ = run_virtual(preparation, copy, step, depth=1)
    assert times.total_seconds == pytest.approx(20 * (preparation + copy + step))
    assert host == pytest.approx(times.total_seconds)
    assert times.batch_preparation.exposed == pytest.approx(20 * preparation)
    assert times.transfer.exposed == times.transfer.work == pytest.approx(20 * copy)
    assert times.training.exposed == times.training.work == pytest.approx(20 * step)


@pytest.mark.parametrize(("preparation", "copy", "step"), COSTS)
@pytest.mark.parametrize("depth", [2, 3])
def test_pipelined_an_epoch_takes_the_largest_stage_and_the_fill(
    depth: int, preparation: float, copy: float, step: float
) -> None:
    largest = max(preparation, copy, step)
    if (preparation + copy + step) / depth > largest:
        pytest.skip("so few batches under way cannot keep the largest stage busy")
    times, host, _ = run_virtual(preparation, copy, step, depth=depth)
    fill = preparation + copy + step - largest
    # With depth batches under way and in no other stage, the fill comes once; where a stage of
    # the cycle waits for a step's end, it may come twice.
    assert times.total_seconds == pytest.approx(20 * largest + fill)
    assert host == pytest.approx(times.total_seconds)
    assert times.transfer.work == pytest.approx(20 * copy)
    assert times.training.work == pytest.approx(20 * step)
    exposed = times.batch_preparation.exposed + times.transfer.exposed
    assert exposed == pytest.approx(times.total_seconds - 20 * step)


def test_waiting_is_sleeping_and_not_asking_for_the_time() -> None:
    _, _, clock = run_virtual(0.0, 3.0, 5.0, depth=2)
    assert clock.sleeps <= 21
    assert clock.reads <= 20 * 20


def test_in_real_time_the_pipeline_overlaps() -> None:
    """Within 40 % of the closed form, which is less than the sum; the best of three."""
    copy, step, batches = 0.010, 0.020, 10
    pipelined, serial = batches * step + copy, batches * (copy + step)
    ratios = []
    for _ in range(3):
        device = make_device(copy, step)
        clock = VirtualClock()  # costs nothing
        prefetcher = DevicePrefetcher(WorkingLoader(clock, 0.0, batches), device, depth=2)
        began = time.perf_counter()
        for batch in prefetcher:
            device.step(batch)
        wall = time.perf_counter() - began
        assert wall >= 0.999 * prefetcher.times.total_seconds >= 0.99 * pipelined
        ratios.append(wall / pipelined)
        if ratios[-1] < 1.4:
            break
    assert min(ratios) < 1.4 < serial / pipelined


def test_steps_cost_by_edge_and_node() -> None:
    cost = StepCost(constant=1.0, per_edge=0.5, per_node=0.25)
    assert cost.seconds(FakeBatch(0, num_edges=4, num_nodes=8)) == 5.0


def test_each_tensor_of_a_batch_has_the_latency() -> None:
    clock = VirtualClock()
    device = EmulatedDevice(1e6, 2.0, StepCost(), clock=clock.read, sleep=clock.sleep)
    _, began, ended = device.copy({"x": torch.zeros(250_000), "y": torch.zeros(500_000)})
    assert (began, ended) == (100.0, 100.0 + 2 * 2.0 + 3.0)


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_say_where_their_numbers_come_from(name: str) -> None:
    device = open_device(f"emulated:{name}")
    assert isinstance(device, EmulatedDevice)
    assert device.name == f"emulated:{name}"
    said = device.describe()
    assert "assumed" in said["source"]
    assert said["bandwidth_bytes_per_second"] > 1e9


def test_the_v100_reproduces_the_published_training_times() -> None:
    """0.441 s and 2.416 s per epoch, at the edges per batch measured for the two graphs."""
    cost = load_emulated("emulated:v100").cost
    assert 89 * cost.seconds(FakeBatch(0, num_edges=218_481)) == pytest.approx(0.441, rel=0.02)
    assert 193 * cost.seconds(FakeBatch(0, num_edges=782_000)) == pytest.approx(2.416, rel=0.02)


def test_a_preset_can_be_slowed_for_a_host_of_few_cores() -> None:
    whole, tenth = load_emulated("emulated:v100"), load_emulated("emulated:v100/10")
    assert tenth.name == "emulated:v100/10"
    assert tenth.bandwidth == pytest.approx(whole.bandwidth / 10)
    assert tenth.latency == pytest.approx(whole.latency * 10)
    batch = FakeBatch(0, num_edges=1000, num_nodes=100)
    assert tenth.cost.seconds(batch) == pytest.approx(10 * whole.cost.seconds(batch))
    assert tenth.source.startswith("10 times slower than")
    for wrong in ("v100/0", "v100/", "v100/x", "k80/10"):
        with pytest.raises(ValueError, match="is unknown"):
            load_emulated(f"emulated:{wrong}")


def test_own_numbers_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "node7.toml"
    path.write_text(
        'bandwidth = 25e9\nlatency = 0\nsource = "measured"\n[step]\nper_edge = 5e-9\n',
        encoding="utf-8",
    )
    device = load_emulated(f"emulated:{path}")
    assert device.name == "emulated:node7"
    assert (device.bandwidth, device.latency, device.source) == (25e9, 0, "measured")
    assert device.cost == StepCost(per_edge=5e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bandwidth = 1e9\nlatency = 0\n", "'step' is missing"),
        ("bandwidth = 0\nlatency = 0\n[step]\n", "bandwidth: is 0"),
        ("bandwidth = 1e9\nlatency = -1\n[step]\n", "latency: is -1"),
        ("bandwidth = 1e9\nlatency = 0\n[step]\nconstant = nan\n", "step.constant: is nan"),
        ('bandwidth = "fast"\nlatency = 0\n[step]\n', "bandwidth: expected a number"),
        ("bandwidth = 1e9\nlatency = 0\n[step]\nper_hop = 1\n", "per_hop"),
        ("bandwidth = 1e9\nlatency = 0\nclock = 1\n[step]\n", "clock"),
        ("bandwidth = ", "TOML|Invalid|value"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        load_emulated(f"emulated:{path}")
    assert "wrong.toml" in str(caught.value)
