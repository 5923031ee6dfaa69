"""The share of overlap is read off a profiler's trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.overlap_trace import device_intervals, main, merge, overlap


def test_overlap_is_that_of_the_unions() -> None:
    copies = [(0.0, 4.0), (3.0, 5.0), (10.0, 12.0)]
    kernels = [(4.0, 6.0), (4.5, 11.0), (20.0, 30.0)]
    assert merge(copies) == [(0.0, 5.0), (10.0, 12.0)]
    assert overlap(copies, kernels) == 2.0
    assert overlap(kernels, copies) == 2.0
    assert overlap(copies, []) == 0.0


def test_overlap_equals_counting_on_a_grid() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        kinds = []
        grids = []
        for _ in range(2):
            begins = rng.integers(0, 90, 12)
            ends = begins + rng.integers(1, 10, 12)
            kinds.append([(float(b), float(e)) for b, e in zip(begins, ends, strict=True)])
            grid = np.zeros(100, bool)
            for begin, end in zip(begins, ends, strict=True):
                grid[begin:end] = True
            grids.append(grid)
        assert overlap(*kinds) == (grids[0] & grids[1]).sum()


def test_copies_to_the_device_and_kernels_are_told_apart() -> None:
    events = [
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": 1, "dur": 2},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "ts": 5, "dur": 2},
        {"cat": "kernel", "name": "gemm", "ts": 2.5, "dur": 4},
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 9},
        {"cat": "kernel", "name": "no duration", "ts": 0},
    ]
    assert device_intervals({"traceEvents": events}) == ([(1.0, 3.0)], [(2.5, 6.5)])


def test_without_a_gpu_a_trace_is_written_and_no_share_claimed(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    out = tmp_path / "deep" / "trace.json"
    arguments = ["--dataset", "synthetic:tiny", "--device", "cpu", "--batches", "2"]
    outcome = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    assert "no overlap to measure" in outcome.output
    names = [event.get("name") for event in json.loads(out.read_text())["traceEvents"]]
    assert "step" in names
