"""Transfer to a device, pipelined with the computation on it.

One pipeline serves every device: a GPU, the CPU, an emulated device, and the recording device of
the tests. They differ in what :class:`Device` asks for. May import: batch, timing, torch;
transfer_cuda and emulated when a device of theirs is asked for.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from salient.batch import StageTimes
from salient.timing import EpochTimes

Event: TypeAlias = Any


class Device(Protocol):
    """Two streams, one that copies and one that computes, and events on them.

    A stream does its work in order and by itself. An event is a point in a stream's work.
    """

    name: str

    def mark(self) -> Event:
        """Return an event after all work launched on the compute stream so far."""
        ...

    def copy(self, batch: Any) -> tuple[Any, Event, Event]:
        """Issue the copy of a batch on the copy stream.

        Returns the batch as it will be on the device, and events before and after the copy. The
        caller keeps ``batch`` until the latter.
        """
        ...

    def let_steps_wait(self, event: Event) -> None:
        """Make the compute stream's later work wait for an event; the host does not wait."""
        ...

    def is_done(self, event: Event) -> bool:
        """Return whether a stream has come past the event."""
        ...

    def wait(self, event: Event) -> None:
        """Let the host wait until a stream has come past the event."""
        ...

    def seconds(self, start: Event, end: Event) -> float:
        """Return the device's time between two events that are done."""
        ...

    def use_loader(self, loader: Any) -> None:
        """Prepare for batches of this loader, for example by page-locking their memory."""
        ...


class CpuDevice:
    """The host itself: batches are passed through as they are, and work is done when it returns."""

    name = "cpu"

    def mark(self) -> float:
        """Return the time."""
        return time.perf_counter()

    def copy(self, batch: Any) -> tuple[Any, float, float]:
        """Return the batch itself."""
        now = time.perf_counter()
        return batch, now, now

    def let_steps_wait(self, event: float) -> None:
        """Do nothing: the event is past."""

    def is_done(self, event: float) -> bool:
        """Return True: the event is past."""
        return True

    def wait(self, event: float) -> None:
        """Do nothing: the event is past."""

    def seconds(self, start: float, end: float) -> float:
        """Return the time between."""
        return end - start

    def use_loader(self, loader: Any) -> None:
        """Do nothing."""


def open_device(device: Any) -> Device:
    """Return the device of this name.

    Parameters
    ----------
    device : str, torch.device or Device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"emulated:v100"``, ``"emulated:h200"`` and
        others of :func:`salient.emulated.load_emulated`; a Device is returned as it is.

    Raises
    ------
    ValueError
        There is no such device here; the message says what there is.
    """
    if not isinstance(device, (str, torch.device)):
        return device  # type: ignore[no-any-return]
    name = str(device)
    kind = name.partition(":")[0]
    if name == "cpu":
        return CpuDevice()
    if kind == "cuda":
        from salient.transfer_cuda import CudaDevice

        return CudaDevice(name)
    if kind == "emulated":
        from salient.emulated import load_emulated

        return load_emulated(name)
    raise ValueError(
        f"device: {name!r} is not supported; use cpu, cuda, emulated:v100, emulated:h200 or "
        "emulated:PATH of a .toml file"
    )


class DevicePrefetcher:
    """Yields a loader's batches on a device, and copies one while another is computed on.

    The copy of batch k + 1 is issued after step k has been launched, that is when the loop comes
    back for batch k + 1, and not before batch k is handed out: asking the loader for a batch that
    is not ready yet would keep the host from launching a step whose data is there. It overlaps
    with step k, which is still running then, because nothing in the loop waits for the device:
    the copy has a stream of its own, and step k + 1 waits for it on the device. So the loop body
    should not wait either. Sum losses on the device and read them once an epoch; where a result
    must be read in each step, call :meth:`preload` between the launch and the reading.

    The host waits in one case only: when ``depth`` batches are on the device or on their way and
    none of them has been dealt with. It then waits for the oldest one's step, with ``depth - 1``
    more queued behind it, so that the device does not run dry.

    A batch of ``form="mfg"`` is one copy of one block of memory, in which local ids are int32.
    The loader's block is held until the copy is done and then goes back to the loader's pool.
    Batches on the device may be kept as long as they are needed.

    Parameters
    ----------
    loader : iterable
        Yields :class:`salient.batch.Batch`, or anything that has ``to(device, non_blocking=...)``
        and ``pin_memory()``, such as PyG's ``Data``. Each iteration is an epoch.
    device : str, torch.device or Device
        ``"cpu"`` passes batches through. ``"cuda"`` or ``"cuda:1"``. ``"emulated:v100"``,
        ``"emulated:h200"``, ``"emulated:PATH.toml"``: see :mod:`salient.emulated`.
    depth : int
        Most batches held at a time, from the beginning of the copy to the end of the step. With 1
        nothing overlaps: a copy begins when the step before it has ended.

    Attributes
    ----------
    device : Device
    times : EpochTimes
        Where the time of the last epoch that ran to its end went, by the device's clock. The
        exposed times of batch preparation and transfer are those in which the compute stream had
        nothing to do.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind or out of its range, or the device is not there.
    """

    def __init__(self, loader: Iterable[Any], device: Any = "cuda", depth: int = 2) -> None:
        if isinstance(depth, bool) or not isinstance(depth, int):
            raise TypeError(f"depth: expected an int, got {depth!r}")
        if depth < 1:
            raise ValueError(f"depth: is {depth}, expected at least 1")
        self.loader = loader
        self.device = open_device(device)
        self.depth = depth
        self.times = EpochTimes(-1)
        self._epochs = 0
        # Weak: an epoch that the loop leaves early ends.
        self._running: Callable[[], _Epoch | None] = lambda: None
        self.device.use_loader(loader)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        if not isinstance(self.loader, Sized):
            raise TypeError(f"len: a {type(self.loader).__name__} does not tell its length")
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch; a running one ends."""
        running = self._running()
        if running is not None:
            running.close()
        epoch = _Epoch(self, self._epochs)
        self._running = weakref.ref(epoch)
        self._epochs += 1
        return epoch

    def preload(self) -> None:
        """Issue the next batch's copy now, instead of when the loop asks for the batch.

        For loops that wait for each step, such as by ``loss.item()``: call it when the step has
        been launched and before waiting. Without a running epoch it does nothing.
        """
        running = self._running()
        if running is not None:
            running.preload()


@dataclass
class _Held:
    """A batch from its copy to the end of its step, and the events on its way."""

    on_device: Any
    host: Any
    asked: Event
    fetched: Event
    copy_began: Event
    copied: Event
    ready: Event = None
    stepped: Event = None


class _Epoch(Iterator[Any]):
    """One epoch. Dropping it, or closing it, ends the loader's epoch."""

    def __init__(self, owner: DevicePrefetcher, number: int) -> None:
        self._owner = owner
        self._device = owner.device
        self._times = EpochTimes(number)
        self._exhausted = False
        self._next: _Held | None = None
        self._launched: deque[_Held] = deque()  # handed out, step perhaps not ended
        self._batches: Iterator[Any] | None = None
        self._began = self._last = self._device.mark()
        self._asked_first: Event | None = self._began
        self._batches = iter(owner.loader)

    def preload(self) -> None:
        """Fetch a batch and issue its copy, unless that has been done."""
        if self._next is not None or self._batches is None:
            return
        device = self._device
        # Starting the loader is part of fetching the first batch.
        asked = device.mark() if self._asked_first is None else self._asked_first
        self._asked_first = None
        if self._launched:
            self._launched[-1].stepped = self._last = asked
        self._retire(self._owner.depth - 1)
        try:
            host = next(self._batches)
        except StopIteration:
            self._batches = None
            self._exhausted = True
            return
        fetched = device.mark()
        on_device, copy_began, copied = device.copy(host)
        self._next = _Held(on_device, host, asked, fetched, copy_began, copied)

    def __next__(self) -> Any:
        self.preload()
        if self._next is None:
            if self._exhausted:
                self._finish()
            raise StopIteration
        held, self._next = self._next, None
        self._device.let_steps_wait(held.copied)
        held.ready = self._device.mark()
        self._launched.append(held)
        batch, held.on_device = held.on_device, None
        return batch

    def _retire(self, most: int) -> None:
        """Let go of batches whose step has ended; wait while there are more than ``most``."""
        device = self._device
        for held in self._launched:
            if held.host is not None and device.is_done(held.copied):
                self._count(held)
        while self._launched:
            oldest = self._launched[0]
            if not device.is_done(oldest.stepped):
                if len(self._launched) <= most:
                    break
                device.wait(oldest.stepped)
            self._book(self._launched.popleft())

    def _count(self, held: _Held) -> None:
        """Add up what the batch holds, and give its memory back to the loader."""
        times, batch = self._times, held.host
        prepared = getattr(batch, "times", None) or StageTimes()
        times.batch_preparation.work += prepared.sample_seconds + prepared.gather_seconds
        times.batches += 1
        times.nodes += getattr(batch, "num_nodes", None) or 0
        times.edges += getattr(batch, "num_edges", None) or 0
        times.num_bytes += wire_bytes(batch)
        held.host = None

    def _book(self, held: _Held) -> None:
        if held.host is not None:
            self._count(held)
        times, seconds = self._times, self._device.seconds
        times.batch_preparation.exposed += seconds(held.asked, held.fetched)
        times.transfer.work += seconds(held.copy_began, held.copied)
        times.transfer.exposed += seconds(held.fetched, held.ready)
        step = seconds(held.ready, held.stepped)
        times.training.work += step
        times.training.exposed += step

    def _finish(self) -> None:
        self._exhausted = False
        self._retire(0)
        self._times.total_seconds = self._device.seconds(self._began, self._last)
        self._owner.times = self._times
        self.close()

    def close(self) -> None:
        """End the epoch: wait for copies under way, whose memory goes back to the loader."""
        pending, self._next = self._next, None
        for held in [*self._launched, *([pending] if pending else [])]:
            if held.host is not None:
                self._device.wait(held.copied)
        self._launched.clear()
        batches, self._batches = self._batches, None
        close = getattr(batches, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        self.close()


def wire_tensors(batch: Any) -> list[torch.Tensor]:
    """Return the tensors that a copy of this batch to a device moves, one transfer each."""
    listed = getattr(batch, "wire_tensors", None)
    if listed is not None:
        return list(listed)
    content = batch.to_dict() if hasattr(batch, "to_dict") else batch
    if isinstance(content, torch.Tensor):
        return [content]
    if isinstance(content, dict):
        return [tensor for value in content.values() for tensor in wire_tensors(value)]
    if isinstance(content, (list, tuple)):
        return [tensor for value in content for tensor in wire_tensors(value)]
    return []


def wire_bytes(batch: Any) -> int:
    """Return the bytes that a copy of this batch to a device moves."""
    return sum(tensor.numel() * tensor.element_size() for tensor in wire_tensors(batch))
