"""The ladder: every way of preparing batches gives all of them, and records say emulated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from baselines import BaselineUnavailable, get_system
from benchmarks import ladder
from benchmarks.ladder_sources import PREPARATIONS, SAMPLERS, make_source
from salient.config import TrainConfig
from salient.datasets import Dataset, load_dataset
from salient.records import read_records

CONFIG = TrainConfig(fanouts=(4, 3), eval_fanouts=(4, 3), batch_size=128)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("synthetic:tiny")


def require(sampler: str) -> None:
    if sampler == "pyg":
        try:
            get_system("pyg_classic")
        except BaselineUnavailable as error:
            pytest.skip(f"PyG's classic sampler: {error.reason}")


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("preparation", PREPARATIONS)
def test_each_way_prepares_every_seed_once_in_new_orders(
    dataset: Dataset, sampler: str, preparation: str
) -> None:
    require(sampler)
    source = make_source(sampler, preparation, dataset, CONFIG, workers=2)
    orders = []
    try:
        for _ in range(2):
            seeds = []
            for batch in source:
                seeds.append(batch.n_id[: batch.batch_size].clone())
                assert torch.equal(batch.x, dataset.x[batch.n_id])
                assert torch.equal(batch.y, dataset.y[seeds[-1]])
                assert len(batch.mfgs) == 2
                assert batch.num_edges > batch.batch_size
                assert batch.times.sample_seconds > 0
            orders.append(torch.cat(seeds))
    finally:
        source.close()
    expected = dataset.split_idx["train"].sort().values
    assert all(torch.equal(order.sort().values, expected) for order in orders)
    assert not torch.equal(*orders)


def run(tmp_path: Path, *options: str) -> str:
    arguments = ["--dataset", "synthetic:tiny", "--batch-size", "128", "--fanouts", "4,3"]
    arguments += ["--repeats", "2", "--workers", "1", "--results", str(tmp_path), *options]
    outcome = CliRunner().invoke(ladder.main, arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_papers_ladder_says_emulated_everywhere(tmp_path: Path) -> None:
    require("pyg")
    output = run(tmp_path, "--device", "emulated:v100")
    rows = [line for line in output.splitlines() if line.startswith(("PyG", "+ "))]
    assert len(rows) == 4
    assert all("(emulated)" in row for row in rows)
    assert "no model is computed" in output
    assert "Preparation alone" in output
    records = read_records(tmp_path)
    assert len(records) == 4
    for record in records:
        assert record.device.emulated
        assert record.device.actual == record.device.requested == "emulated:v100"
        assert record.system.label.endswith("(emulated)")
        assert record.item == "table3"
        assert [stage.warm_up for stage in record.stages] == [True, False, False]
        assert "assumed" in str(record.config["emulated_device"])
    ways = {(r.config["sampler"], r.config["preparation"], r.config["transfer"]) for r in records}
    assert ways == {
        ("pyg", "processes", "blocking"),
        ("salient", "processes", "blocking"),
        ("salient", "threads", "blocking"),
        ("salient", "threads", "pipelined"),
    }
    assert [len(r.samples) for r in records if r.config["transfer"] == "pipelined"] == [1]


def test_on_a_real_device_the_model_is_trained_and_nothing_says_emulated(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    output = run(tmp_path, "--device", "cpu", "--rung", "salient/threads/pipelined")
    assert "emulated" not in output
    (record,) = read_records(tmp_path)
    assert not record.device.emulated
    assert record.device.actual == "cpu"
    assert all(stage.training.work_seconds for stage in record.stages)


def test_unknown_rungs_and_devices_are_refused(tmp_path: Path) -> None:
    for options, message in (
        (["--rung", "dgl/threads/blocking"], "pyg|salient / processes|threads"),
        (["--rung", "pyg/threads"], "'pyg/threads' is none"),
        (["--device", "emulated:k80"], "emulated:v100"),
    ):
        outcome = CliRunner().invoke(ladder.main, ["--dataset", "synthetic:tiny", *options])
        assert outcome.exit_code == 1
        assert message in outcome.output


def test_a_missing_baseline_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BaselineUnavailable("pyg_classic", "OSError: no kernels", "compile them")

    monkeypatch.setattr(ladder, "make_source", refuse)
    output = run(tmp_path, "--device", "emulated:h200", "--rung", "pyg/threads/blocking")
    assert "n/a: OSError: no kernels; compile them" in output
    (record,) = read_records(tmp_path)
    assert (record.status, record.device.actual) == ("not_available", "")
    assert "no kernels" in record.reason
