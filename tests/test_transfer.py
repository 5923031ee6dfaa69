"""The transfer pipeline: order, host synchronisation, what is held, and what batches become."""

from __future__ import annotations

import ctypes
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import salient
from salient.batch import MFG, Batch
from salient.transfer import DevicePrefetcher, open_device, wire_bytes, wire_tensors
from transfer_devices import FakeBatch, FakeLoader, RecordingDevice


def run(device: RecordingDevice, depth: int, batches: int = 6) -> list[int]:
    seen = []
    for batch in DevicePrefetcher(FakeLoader(batches), device, depth):
        device.step(batch)
        seen.append(batch.number)
    return seen


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("keeps_pace", [True, False])
def test_a_copy_is_issued_after_the_step_before_it_was_launched(
    depth: int, keeps_pace: bool
) -> None:
    device = RecordingDevice(keeps_pace=keeps_pace)
    assert run(device, depth) == list(range(6))
    order = [(kind, number) for number in range(6) for kind in ("copy", "step")]
    assert device.logged("copy", "step") == order


def test_a_step_waits_on_the_device_for_its_own_copy() -> None:
    device = RecordingDevice(keeps_pace=True)
    run(device, 2)
    order = [(kind, number) for number in range(6) for kind in ("copy", "let steps wait", "step")]
    assert device.logged("copy", "let steps wait", "step") == order


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_host_never_waits_for_a_device_that_keeps_pace(depth: int) -> None:
    device = RecordingDevice(keeps_pace=True)
    run(device, depth)
    assert device.logged("wait") == []


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_host_waits_only_when_depth_batches_are_unfinished(depth: int) -> None:
    device = RecordingDevice(keeps_pace=False)
    copied = done = 0
    for launched, batch in enumerate(DevicePrefetcher(FakeLoader(6), device, depth)):
        for kind, *what in device.log:
            if kind == "wait":
                # The oldest step, with depth - 1 behind it: the device has work meanwhile.
                assert what == ["steps", launched - depth + 1]
                done = what[1]
            elif kind == "copy":
                copied += 1
                assert copied - done <= depth
        device.log.clear()
        device.step(batch)
        device.log.clear()
    assert done == 6 - depth  # so there were waits to look at


def test_a_slot_is_let_go_when_its_copy_is_done_and_not_before() -> None:
    device = RecordingDevice(keeps_pace=False)
    slots: list[weakref.ref[FakeBatch]] = []

    def loader() -> Any:
        for number in range(3):
            batch = FakeBatch(number)
            slots.append(weakref.ref(batch))
            yield batch
            del batch

    epoch = iter(DevicePrefetcher(loader(), device, depth=8))
    device.step(next(epoch))
    device.step(next(epoch))
    assert slots[0]() is not None
    assert slots[1]() is not None
    device.copies_done = 1  # the first copy, though not its step
    device.step(next(epoch))
    assert slots[0]() is None
    assert slots[1]() is not None


def test_leaving_early_waits_for_the_copies_whose_slots_go_back() -> None:
    device = RecordingDevice(keeps_pace=False)
    loader = FakeLoader(9)
    for batch in DevicePrefetcher(loader, device, depth=4):
        device.step(batch)
        if batch.number == 2:
            break
    gc.collect()
    assert device.logged("wait") == [("wait", "copies", number) for number in (1, 2, 3)]
    assert loader.closed == 1


def test_preload_issues_the_copy_before_the_loop_comes_back() -> None:
    device = RecordingDevice(keeps_pace=True)
    batches = DevicePrefetcher(FakeLoader(3), device)
    for batch in batches:
        device.step(batch)
        batches.preload()
        batches.preload()  # once is enough
        device.log.append(("read", batch.number))
    assert device.logged("copy", "step", "read") == [
        ("copy", 0),
        *(("step", 0), ("copy", 1), ("read", 0)),
        *(("step", 1), ("copy", 2), ("read", 1)),
        *(("step", 2), ("read", 2)),
    ]
    batches.preload()  # without an epoch
    assert len(device.logged("copy")) == 3


def test_a_new_epoch_ends_the_running_one() -> None:
    loader = FakeLoader(4)
    batches = DevicePrefetcher(loader, RecordingDevice(keeps_pace=True))
    first = iter(batches)
    next(first)
    assert [batch.number for batch in batches] == [0, 1, 2, 3]
    assert list(first) == []
    assert loader.closed == 2
    assert batches.times.batches == 4


def test_an_error_of_the_loader_reaches_the_loop() -> None:
    def loader() -> Any:
        yield FakeBatch(0)
        raise RuntimeError("no memory for batch 1")

    seen = []
    with pytest.raises(RuntimeError, match="batch 1"):
        for batch in DevicePrefetcher(loader(), RecordingDevice(keeps_pace=True)):
            seen.append(batch.number)  # noqa: PERF401 - the loop is what is tested
    assert seen == [0]


def test_an_error_on_starting_the_loader_reaches_the_loop() -> None:
    class Broken:
        def __iter__(self) -> Any:
            raise OSError("no such folder")

    batches = DevicePrefetcher(Broken(), RecordingDevice(keeps_pace=True))
    with pytest.raises(OSError, match="no such folder"):
        iter(batches)
    gc.collect()  # an error in a finaliser would be a warning, and so a failure


def random_graph(num_nodes: int, num_edges: int) -> salient.Graph:
    ends = np.random.default_rng(3).integers(num_nodes, size=(2, num_edges))
    return salient.Graph.from_edge_index(ends, num_nodes)


def make_loader(**options: Any) -> salient.NeighborLoader:
    graph = random_graph(200, 1500)
    x = torch.arange(200 * 5).reshape(200, 5).to(torch.float16)
    y = torch.arange(200) % 7
    return salient.NeighborLoader((graph, x, y), [4, 3], batch_size=32, num_threads=2, **options)


def tensors_of(batch: Batch) -> list[torch.Tensor]:
    tensors = [batch.n_id, batch.x, batch.y]
    for mfg in batch.mfgs:
        tensors += [mfg.indptr, mfg.indices]
        tensors += [] if mfg.e_id is None else [mfg.e_id]
    return tensors


class Passing:
    """Keeps what a loader yields."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.items: list[Any] = []

    def __iter__(self) -> Any:
        for item in self.loader:
            self.items.append(item)
            yield item


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_on_the_cpu_batches_pass_through_as_they_are(device: Any) -> None:
    source = Passing(make_loader())
    batches = DevicePrefetcher(source, device)
    seen = list(batches)
    assert len(seen) == 7
    assert all(a is b for a, b in zip(seen, source.items, strict=True))
    times = batches.times
    assert (times.epoch, times.batches) == (0, 7)
    assert times.nodes == sum(batch.num_nodes for batch in seen)
    assert times.edges == sum(batch.num_edges for batch in seen)
    assert times.num_bytes == sum(batch.slab.numel() for batch in seen)
    stages = (times.batch_preparation, times.transfer, times.training)
    assert sum(stage.exposed for stage in stages) == pytest.approx(times.total_seconds)
    assert times.batch_preparation.work > 0


@pytest.mark.parametrize("edge_ids", [False, True])
def test_a_batch_is_one_block_and_moves_as_one(edge_ids: bool) -> None:
    for batch in make_loader(edge_ids=edge_ids):
        assert [tensor.data_ptr() for tensor in wire_tensors(batch)] == [batch.slab.data_ptr()]
        whole = sum(t.numel() * t.element_size() for t in tensors_of(batch))
        assert whole <= wire_bytes(batch) < whole + 64 * len(tensors_of(batch))
        copied = batch._moved(torch.clone)
        storage = copied.slab.untyped_storage().data_ptr()
        assert storage != batch.slab.untyped_storage().data_ptr()
        for new, old in zip(tensors_of(copied), tensors_of(batch), strict=True):
            assert new.untyped_storage().data_ptr() == storage
            assert new.dtype == old.dtype
            assert torch.equal(new, old)
        assert all(mfg.indices.dtype == torch.int32 for mfg in copied.mfgs)
        assert copied.num_sampled_edges == batch.num_sampled_edges


def test_a_tensor_that_the_user_replaced_moves_too() -> None:
    batch = next(iter(make_loader()))
    batch.x = batch.x.float() + 1
    batch.n_id = batch.n_id[::2]
    assert [t.shape for t in wire_tensors(batch)] == [
        t.shape for t in (batch.slab, batch.n_id, batch.x)
    ]
    copied = batch._moved(torch.clone)
    assert torch.equal(copied.x, batch.x)
    assert torch.equal(copied.n_id, batch.n_id)
    assert torch.equal(copied.y, batch.y)


def test_tensors_of_other_batches_are_found() -> None:
    graph = MFG(torch.zeros(3, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), 5, 2)
    batch = Batch(torch.arange(5), [graph], 2, [2, 3], [4], torch.ones(5, 3), torch.zeros(2))
    assert wire_bytes(batch) == 5 * 8 + 3 * 4 + 4 * 4 + 15 * 4 + 2 * 4
    assert wire_bytes({"x": torch.ones(2, 2), "more": [torch.ones(3), 7]}) == 28


def test_pyg_data_passes_through() -> None:
    pytest.importorskip("torch_geometric")
    graph = random_graph(50, 300)
    data = (graph, torch.ones(50, 3), None)
    loader = salient.NeighborLoader(data, [2, 2], batch_size=20, form="subgraph")
    batches = DevicePrefetcher(loader, "cpu")
    items = list(batches)
    assert batches.times.nodes == sum(item.num_nodes for item in items) > 0
    assert batches.times.num_bytes == sum(wire_bytes(item) for item in items) > 0


def test_leaving_early_stops_the_loaders_threads() -> None:
    tasks = Path("/proc/self/task")
    for number in range(20):
        for _ in DevicePrefetcher(make_loader(), "cpu"):
            break
        if number == 0:  # torch may have started threads of its own by now
            before = len(list(tasks.iterdir()))
    assert len(list(tasks.iterdir())) <= before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"depth": 0}, ValueError, "depth: is 0"),
        ({"depth": 1.5}, TypeError, "depth: expected an int, got 1.5"),
        ({"device": "tpu"}, ValueError, "'tpu' is not supported; use cpu, cuda, emulated:v100"),
        ({"device": "emulated:k80"}, ValueError, "emulated:k80"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        DevicePrefetcher([], **({"device": "cpu"} | arguments))


def test_cuda_without_a_gpu_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="no CUDA device"):
        open_device("cuda")


def test_length_is_the_loaders() -> None:
    assert len(DevicePrefetcher(FakeLoader(5), "cpu")) == 5
    with pytest.raises(TypeError, match="generator"):
        len(DevicePrefetcher((n for n in range(3)), "cpu"))


def test_batches_of_any_kind_pass_through() -> None:
    batches = DevicePrefetcher([{"x": torch.from_numpy(np.ones(4))}], "cpu")
    assert len(list(batches)) == 1
    assert batches.times.num_bytes == 32


def test_slabs_are_page_locked_by_the_functions_given() -> None:
    calls: list[tuple[str, int]] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    def use_device(device: int) -> int:
        calls.append(("device", device))
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    def lock(memory: int, num_bytes: int, flags: int) -> int:
        calls.append(("lock", memory))
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def unlock(memory: int) -> int:
        calls.append(("unlock", memory))
        return 0

    functions = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (use_device, lock, unlock)]
    loader = make_loader()
    loader.core.page_lock(*functions, 5)
    slabs = {batch.slab.data_ptr() for _ in range(3) for batch in loader}
    locked = [memory for kind, memory in calls if kind == "lock"]
    assert slabs <= set(locked)
    assert {device for kind, device in calls if kind == "device"} == {5}
    assert loader.core.page_lock_error == 0
    del loader
    gc.collect()
    assert sorted(memory for kind, memory in calls if kind == "unlock") == sorted(locked)
    with pytest.raises(ValueError, match="address is 0"):
        make_loader().core.page_lock(1, 0, 1, 0)
