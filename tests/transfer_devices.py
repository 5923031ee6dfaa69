"""A device that writes down what the pipeline asks of it, and small batches for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class FakeBatch:
    """A batch with a number, as far as the pipeline looks at it."""

    def __init__(self, number: int, num_edges: int = 0, num_nodes: int = 0) -> None:
        self.number = number
        self.num_edges = num_edges
        self.num_nodes = num_nodes


class FakeLoader:
    """Yields new batches that it does not keep; each iteration is an epoch."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.closed = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[FakeBatch]:
        try:
            for number in range(self.length):
                yield FakeBatch(number)
        finally:
            self.closed += 1


class FakeEvent:
    def __init__(self, stream: str, number: int) -> None:
        self.stream = stream
        self.number = number


class RecordingDevice:
    """Logs copies, steps and waits. Its streams do nothing until told, or until waited for.

    Events count the work launched on their stream before them; ``copies_done`` and ``steps_done``
    say how much of it the device has done.
    """

    name = "recording"

    def __init__(self, *, keeps_pace: bool) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.keeps_pace = keeps_pace
        self.copies = self.steps = 0
        self.copies_done = self.steps_done = 0

    def mark(self) -> FakeEvent:
        return FakeEvent("steps", self.steps)

    def copy(self, batch: FakeBatch) -> tuple[FakeBatch, FakeEvent, FakeEvent]:
        self.log.append(("copy", batch.number))
        before = FakeEvent("copies", self.copies)
        self.copies += 1
        return FakeBatch(batch.number), before, FakeEvent("copies", self.copies)

    def step(self, batch: FakeBatch) -> None:
        self.log.append(("step", batch.number))
        self.steps += 1

    def let_steps_wait(self, event: FakeEvent) -> None:
        self.log.append(("let steps wait", event.number - 1))

    def is_done(self, event: FakeEvent) -> bool:
        done = self.copies_done if event.stream == "copies" else self.steps_done
        return self.keeps_pace or event.number <= done

    def wait(self, event: FakeEvent) -> None:
        self.log.append(("wait", event.stream, event.number))
        if event.stream == "steps":
            self.steps_done = max(self.steps_done, event.number)
        # A step has its copy before it.
        self.copies_done = max(self.copies_done, event.number)

    def seconds(self, start: FakeEvent, end: FakeEvent) -> float:
        return 0.0

    def use_loader(self, loader: Any) -> None:
        self.log.append(("use loader",))

    def logged(self, *kinds: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.log if entry[0] in kinds]
