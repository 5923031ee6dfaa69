"""A CUDA device for the transfer pipeline, and page-locked memory for its copies.

May import: loader, transfer, torch.

A copy runs beside the host and the kernels only from page-locked memory. The slabs of our own
loader are page-locked where they lie, by the threads that prepare batches and once per slab, since
slabs are used again. Anything else is copied to page-locked memory of torch's first, which costs
the loop a copy in memory; the first time, a warning says so.
"""

from __future__ import annotations

import ctypes
import warnings
from pathlib import Path
from typing import Any

import torch

from salient.loader import NeighborLoader
from salient.transfer import wire_bytes, wire_tensors


class CudaDevice:
    """One GPU: batches are copied on a stream of its own; see :class:`salient.transfer.Device`.

    Steps run on the stream that is current where the loop asks for batches.

    Parameters
    ----------
    name : str
        ``"cuda"`` for the current device, or ``"cuda:1"``.

    Raises
    ------
    ValueError
        There is no such device.
    """

    def __init__(self, name: str) -> None:
        if not torch.cuda.is_available():
            raise ValueError(
                f"device: {name!r} asked for, but torch sees no CUDA device; use cpu, or "
                "emulated:v100 to measure host work"
            )
        index = torch.device(name).index
        self.device = torch.device("cuda", torch.cuda.current_device() if index is None else index)
        if self.device.index >= torch.cuda.device_count():
            raise ValueError(
                f"device: {name!r} asked for, but torch sees {torch.cuda.device_count()} CUDA "
                "device(s)"
            )
        self.name = str(self.device)
        self._copies = torch.cuda.Stream(self.device)
        self._page_lock_error = 0
        self._loader: NeighborLoader | None = None
        self._warned = False

    def use_loader(self, loader: Any) -> None:
        """Have the slabs of our own loader page-locked from now on."""
        if not isinstance(loader, NeighborLoader):
            return
        self._loader = loader
        library = _runtime_library()
        if library is not None:
            loader.core.page_lock(
                _address(library.cudaSetDevice),
                _address(library.cudaHostRegister),
                _address(library.cudaHostUnregister),
                self.device.index,
            )

    def mark(self) -> torch.cuda.Event:
        """Return an event after all work launched on the current stream so far."""
        return self._record(torch.cuda.current_stream(self.device))

    def copy(self, batch: Any) -> tuple[Any, torch.cuda.Event, torch.cuda.Event]:
        """Issue the copy of a batch on the copy stream.

        The memory on the device belongs to the copy stream, where it is taken from and goes back
        to; the steps' stream is recorded as its user, so that it does not go back too early.
        """
        source = self._page_locked(batch)
        steps = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._copies):
            began = self._record(self._copies)
            moved = source.to(self.device, non_blocking=True)
            ended = self._record(self._copies)
        for tensor in wire_tensors(moved):
            tensor.record_stream(steps)
        return moved, began, ended

    def let_steps_wait(self, event: torch.cuda.Event) -> None:
        """Make the current stream's later work wait for an event; the host does not wait."""
        torch.cuda.current_stream(self.device).wait_event(event)

    def is_done(self, event: torch.cuda.Event) -> bool:
        """Return whether the stream has come past the event."""
        return bool(event.query())

    def wait(self, event: torch.cuda.Event) -> None:
        """Let the host sleep until the stream has come past the event."""
        event.synchronize()

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return the GPU's time between two events that are done."""
        return float(start.elapsed_time(end)) / 1e3

    def _record(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        # Blocking: a host that waits must leave its core to the threads that prepare batches.
        event = torch.cuda.Event(enable_timing=True, blocking=True)
        event.record(stream)
        return event

    def _page_locked(self, batch: Any) -> Any:
        """Return the batch, or a copy of it in page-locked memory."""
        loose = sum(t.nbytes for t in wire_tensors(batch) if not t.is_pinned())
        if loose == 0:
            return batch
        if loose > wire_bytes(batch) // 2 and not self._warned:
            self._warned = True
            warnings.warn(
                f"batches are not in page-locked memory{self._reason()}: the loop copies each "
                "there before its transfer, which takes time of its own",
                stacklevel=5,
            )
        return batch.pin_memory()

    def _reason(self) -> str:
        if self._loader is None:
            return " (those of salient.NeighborLoader are)"
        error = self._loader.core.page_lock_error
        if error:
            return f" (cudaHostRegister failed with error {error})"
        return " (the CUDA runtime library was not found in this process)"


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _runtime_library() -> ctypes.CDLL | None:
    """Return the CUDA runtime that torch has loaded, or None if it is not a library of its own."""
    torch.cuda.init()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) == 6 else ""
        if Path(path).name.startswith("libcudart"):
            return ctypes.CDLL(path)
    return None
