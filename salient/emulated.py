"""Emulated devices: copies and steps take stated times, on two time lines that overlap.

For measuring host work where there is no GPU. May import: batch, transfer, standard library, tomli.

A copy takes the latency and its bytes over the bandwidth; a step takes a stated time, and nothing
is computed. Each stream is a time line: its next piece of work begins when it has been issued, the
piece before it is over, and what it was told to wait for has happened. Waiting for the device is
sleeping, so host work such as batch preparation is real and has the processor for itself. What is
measured this way says "emulated" wherever it appears.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from salient.transfer import wire_bytes, wire_tensors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _require_seconds(value: Any, name: str, unit: str = "seconds") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: expected a number of {unit}, got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: is {value}, expected {unit}, finite and not negative")
    return float(value)


@dataclass(frozen=True)
class StepCost:
    """Seconds that the step on one batch takes: forward, backward and optimiser.

    Parameters
    ----------
    constant, per_edge, per_node : float
        Their sum, times one, the batch's sampled edges and its nodes; finite, not negative.
    """

    constant: float = 0.0
    per_edge: float = 0.0
    per_node: float = 0.0

    def __post_init__(self) -> None:
        for part in fields(self):
            _require_seconds(getattr(self, part.name), f"step.{part.name}")

    def seconds(self, batch: Any) -> float:
        """Return the seconds for a batch."""
        return float(
            self.constant + self.per_edge * batch.num_edges + self.per_node * batch.num_nodes
        )


class EmulatedDevice:
    """A device whose copies and steps take stated times; see :class:`salient.transfer.Device`.

    Batches "on" it are the host's own objects: nothing is copied, and a loop that runs a model on
    them runs it on the CPU. Loops that emulate the step call :meth:`step` in its place.

    Parameters
    ----------
    bandwidth : float
        Bytes per second from host to device, above 0.
    latency : float
        Seconds per copy, whatever its size; a batch that is not one block takes several copies.
    step : StepCost
    name : str
        Behind "emulated:".
    source : str
        Where the numbers come from.
    clock, sleep : callable
        Replaced in tests.

    Raises
    ------
    TypeError, ValueError
        A number is not one, or out of its range.
    """

    def __init__(
        self,
        bandwidth: float,
        latency: float,
        step: StepCost,
        name: str = "own numbers",
        source: str = "stated by the user",
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _require_seconds(latency, "latency")
        if not isinstance(step, StepCost):
            raise TypeError(f"step: expected StepCost, got {step!r}")
        if _require_seconds(bandwidth, "bandwidth", "bytes per second") == 0:
            raise ValueError("bandwidth: is 0, expected bytes per second above 0")
        self.name = f"emulated:{name}"
        self.bandwidth = bandwidth
        self.latency = latency
        self.cost = step
        self.source = source
        self._clock = clock
        self._sleep = sleep
        self._copies_end = self._steps_end = -math.inf

    def describe(self) -> dict[str, Any]:
        """Return name, numbers and their source for a result record."""
        return {
            "name": self.name,
            "bandwidth_bytes_per_second": self.bandwidth,
            "latency_seconds": self.latency,
            "step_constant_seconds": self.cost.constant,
            "step_seconds_per_edge": self.cost.per_edge,
            "step_seconds_per_node": self.cost.per_node,
            "source": self.source,
            "model": "not computed: a step takes its stated time",
        }

    def step(self, batch: Any) -> None:
        """Launch the step on a batch: the compute stream is busy for its stated time."""
        self._steps_end = self.mark() + self.cost.seconds(batch)

    def mark(self) -> float:
        """Return when the compute stream will have done what was launched on it."""
        return max(self._clock(), self._steps_end)

    def copy(self, batch: Any) -> tuple[Any, float, float]:
        """Issue a copy; returns the batch, and when the copy begins and ends."""
        began = max(self._clock(), self._copies_end)
        seconds = len(wire_tensors(batch)) * self.latency + wire_bytes(batch) / self.bandwidth
        self._copies_end = began + seconds
        return batch, began, self._copies_end

    def let_steps_wait(self, event: float) -> None:
        """Make later steps begin at this time or after it."""
        self._steps_end = max(self._steps_end, event)

    def is_done(self, event: float) -> bool:
        """Return whether this time has come."""
        return self._clock() >= event

    def wait(self, event: float) -> None:
        """Sleep until this time."""
        while (left := event - self._clock()) > 0:
            self._sleep(left)

    def seconds(self, start: float, end: float) -> float:
        """Return the time between."""
        return end - start

    def use_loader(self, loader: Any) -> None:
        """Do nothing: no memory has to be page-locked."""


# The V100's step times are a line through two points: 4.96 ms for ogbn-arxiv and 12.52 ms for
# ogbn-products, which are the training columns of the authors' artifact (README; V100 32 GB, SAGE
# 256 wide, fanouts 15-10-5, batches of 1,024: 0.441 s over 89 batches, 2.416 s over 193), at the
# edges per batch measured with this sampler: 218,000 on ogbn-arxiv's graph, symmetrised, and
# 782,000 on a made graph of the size of ogbn-products.
PRESETS: dict[str, dict[str, Any]] = {
    "v100": {
        "bandwidth": 12e9,
        "latency": 10e-6,
        "step": StepCost(constant=2.0e-3, per_edge=13.4e-9),
        "source": (
            "bandwidth and latency: assumed, usual for page-locked copies over PCIe 3.0 x16; step: "
            "line through ogbn-arxiv and ogbn-products in the SALIENT artifact's README (V100 "
            "32 GB, SAGE), edges per batch measured here"
        ),
    },
    "h200": {
        "bandwidth": 50e9,
        "latency": 10e-6,
        "step": StepCost(constant=1.0e-3, per_edge=2.5e-9),
        "source": (
            "bandwidth and latency: assumed, usual for page-locked copies over PCIe 5.0 x16; step: "
            "assumed, the V100's time per edge divided by 5.3, the ratio of memory bandwidths (4.8 "
            "to 0.9 TB/s), and half its constant"
        ),
    },
}


def load_emulated(name: str) -> EmulatedDevice:
    """Return the emulated device of this name.

    Parameters
    ----------
    name : str
        ``"emulated:v100"`` or ``"emulated:h200"``; with ``"/10"`` behind it, a device of a tenth
        of the speed, for a host with a tenth of the cores: the paper's had 20 for each V100, and
        on two cores batch preparation hides all that a whole V100 does. Or
        ``"emulated:PATH.toml"``, a file with the user's own numbers::

            bandwidth = 25e9      # bytes per second
            latency = 10e-6       # seconds per copy
            source = "measured with nvbandwidth on our node"
            [step]                # seconds; what is left out is 0
            constant = 2e-3
            per_edge = 5e-9
            per_node = 0.0

    Raises
    ------
    ValueError
        No such preset, or the file has other keys or wrong values.
    OSError
        The file cannot be read.
    """
    choice = name.removeprefix("emulated:")
    preset, _, divisor = choice.partition("/")
    if preset in PRESETS and choice == preset:
        return EmulatedDevice(**PRESETS[preset], name=preset)
    if preset in PRESETS and divisor.isdecimal() and int(divisor) > 0:
        return _slowed(preset, int(divisor))
    if not choice.endswith(".toml"):
        raise ValueError(
            f"device: {name!r} is unknown; use emulated:{', emulated:'.join(PRESETS)}, with "
            "a divisor of their speed such as emulated:v100/10, or "
            "emulated:PATH of a .toml file with your own numbers"
        )
    path = Path(choice)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        unknown = set(content) - {"bandwidth", "latency", "source", "step"}
        if unknown:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        return EmulatedDevice(
            bandwidth=content["bandwidth"],
            latency=content["latency"],
            step=StepCost(**content["step"]),
            name=path.stem,
            source=str(content.get("source", f"stated by the user in {path.name}")),
        )
    except KeyError as error:
        raise ValueError(
            f"{path}: {error} is missing; see salient.emulated.load_emulated"
        ) from error
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: {error}; expected bandwidth, latency, optionally "
            "source, and a table [step] with constant, per_edge, per_node"
        ) from error


def _slowed(preset: str, divisor: int) -> EmulatedDevice:
    numbers = PRESETS[preset]
    step: StepCost = numbers["step"]
    return EmulatedDevice(
        bandwidth=numbers["bandwidth"] / divisor,
        latency=numbers["latency"] * divisor,
        step=StepCost(step.constant * divisor, step.per_edge * divisor, step.per_node * divisor),
        name=f"{preset}/{divisor}",
        source=f"{divisor} times slower than: {numbers['source']}",
    )
