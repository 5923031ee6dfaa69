"""Models, trainer and command line: right on small graphs, repeatable, clear when misused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

pytest.importorskip("torch_geometric", reason="the models need torch-geometric")

import salient
from graphs import make_g1
from salient.batch import MFG
from salient.cli import main
from salient.config import TrainConfig
from salient.models import SAGE, Dropout, adjacency
from salient.trainer import evaluate, fit, make_model

ROOT = Path(__file__).resolve().parent.parent


def tiny() -> salient.Dataset:
    return salient.load_dataset("synthetic:tiny")


def source_of(dataset: salient.Dataset, **options: Any) -> Any:
    def source(nodes: Tensor, fanouts: Any, batch_size: int, *, shuffle: bool) -> Any:
        return salient.NeighborLoader(
            (dataset.graph, dataset.x, dataset.y), fanouts, nodes, batch_size, shuffle, **options
        )

    return source


SMALL = TrainConfig(
    hidden=32, fanouts=(5, 5), eval_fanouts=(10, 10), batch_size=64, lr=0.01, epochs=3
)


@pytest.mark.parametrize("form", ["mfg", "subgraph"])
def test_sage_on_sampled_graphs_equals_dense_algebra(form: Any) -> None:
    """With all in-edges kept, sampling is exact: W_l mean_in(h) + W_r h, layer by layer."""
    graph = salient.Graph.from_edge_index(make_g1(), 7)
    x = torch.randn(7, 3)
    model = SAGE(3, 4, 2, num_layers=2).eval()
    seeds = [4, 6, 0]
    batch = salient.NeighborSampler(graph, [-1, -1], form=form).sample(seeds)
    sampled = model(x[batch.n_id], batch.mfgs)

    matrix = np.zeros((7, 7))
    for source, target in make_g1().T:
        matrix[target, source] += 1
    mean = torch.from_numpy(matrix / np.maximum(matrix.sum(1, keepdims=True), 1)).float()
    h = x
    for number, conv in enumerate(model.convs):
        h = mean @ h @ conv.lin_l.weight.T + h @ conv.lin_r.weight.T
        h = h.relu() if number == 0 else h
    torch.testing.assert_close(sampled, h[seeds])


def test_sage_gradients_follow_both_aggregation_paths_alike() -> None:
    """The sparse product and PyG's gather and scatter along edge_index are the same function."""
    graph = salient.Graph.from_edge_index(make_g1(), 7)
    (mfg,) = salient.NeighborSampler(graph, [-1]).sample([0, 1, 4]).mfgs
    model = SAGE(5, 8, 3, num_layers=1)
    x = torch.randn(mfg.num_src, 5, requires_grad=True)
    gradients = []
    for edges in (adjacency(mfg), mfg.edge_index):
        out = model.convs[0]((x, x[: mfg.num_dst]), edges)
        gradients.append(torch.autograd.grad(out.square().sum(), [x, *model.parameters()]))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_models_refuse_another_number_of_hops() -> None:
    graph = salient.Graph.from_edge_index(make_g1(), 7)
    batch = salient.NeighborSampler(graph, [2]).sample([0])
    with pytest.raises(ValueError, match="1 hops for a model of 2 layers"):
        SAGE(3, 4, 2, num_layers=2)(torch.randn(batch.num_nodes, 3), batch.mfgs)


def test_mfg_from_edges_in_any_order() -> None:
    edges = torch.tensor([[3, 0, 1, 2], [1, 0, 1, 0]])
    mfg = MFG.from_edge_index(edges, num_src=4, num_dst=3, e_id=torch.arange(4))
    assert mfg.indptr.tolist() == [0, 2, 4, 4]
    assert mfg.indices.tolist() == [0, 2, 3, 1]
    assert mfg.e_id is not None and mfg.e_id.tolist() == [1, 3, 0, 2]
    assert {tuple(e) for e in mfg.edge_index.T.tolist()} == {tuple(e) for e in edges.T.tolist()}


def test_dropout_keeps_the_share_the_mean_and_the_seed() -> None:
    """10^6 elements: the share dropped is within 6 standard deviations (p < 2e-9)."""
    dropout, x = Dropout(0.3), torch.ones(1000, 1001)
    torch.manual_seed(1)
    first = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(x))
    assert not torch.equal(first, dropout(x))
    share = float((first == 0).double().mean())
    assert abs(share - 0.3) < 6 * (0.3 * 0.7 / x.numel()) ** 0.5
    kept = first[first != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.7), rtol=1e-4, atol=0)
    # Neighbours in one 64-bit word are independent: both dropped in 9 % of pairs.
    pairs = (first.flatten()[:1_000_000].view(-1, 2) == 0).all(1).double().mean()
    assert abs(float(pairs) - 0.09) < 6 * (0.09 * 0.91 / 500_000) ** 0.5
    assert torch.equal(dropout.eval()(x), x)


def test_training_learns_and_repeats_exactly_for_any_number_of_threads() -> None:
    dataset = tiny()
    runs = [fit(dataset, source_of(dataset, num_threads=n), SMALL, progress=False) for n in (1, 3)]
    assert runs[0].valid_accuracy == runs[1].valid_accuracy
    assert [e.loss for e in runs[0].epochs] == [e.loss for e in runs[1].epochs]
    assert runs[0].test_accuracy == runs[1].test_accuracy
    assert runs[0].test_accuracy > 2 / dataset.num_classes
    assert runs[0].epochs[-1].loss < runs[0].epochs[0].loss
    other = fit(
        dataset, source_of(dataset), TrainConfig(**{**SMALL.as_dict(), "seed": 7}), progress=False
    )
    assert [e.loss for e in other.epochs] != [e.loss for e in runs[0].epochs]


def test_epoch_times_add_up_and_count_the_work() -> None:
    dataset = tiny()
    times = fit(dataset, source_of(dataset), SMALL, progress=False).epochs[0]
    seeds = len(dataset.split_idx["train"])
    assert times.batches == -(-seeds // SMALL.batch_size)
    exposed = times.batch_preparation.exposed + times.transfer.exposed + times.training.exposed
    assert 0 < exposed <= times.total_seconds
    assert times.nodes > seeds and times.edges > 0
    assert times.num_bytes > times.nodes * dataset.num_features * 2


def test_the_checkpoint_holds_the_weights_of_the_best_epoch(tmp_path: Path) -> None:
    dataset = tiny()
    path = tmp_path / "deep" / "best.pt"
    result = fit(dataset, source_of(dataset), SMALL, checkpoint=path, progress=False)
    kept = torch.load(path, weights_only=True)
    assert kept["epoch"] == result.best_epoch
    assert kept["valid_accuracy"] == max(result.valid_accuracy)
    assert TrainConfig(**kept["config"]) == SMALL
    model = make_model(SMALL, dataset)
    model.load_state_dict(kept["weights"])
    test = source_of(dataset)(
        dataset.split_idx["test"], SMALL.eval_fanouts, SMALL.eval_batch_size, shuffle=False
    )
    test.set_epoch(0)
    assert evaluate(model, test, torch.device("cpu")) == result.test_accuracy
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["best.pt", "last.pt"]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"epochs": 0}, ValueError, "epochs: is 0"),
        ({"lr": "fast"}, TypeError, "lr: .*'fast'"),
        ({"lr": float("nan")}, ValueError, "lr: is nan"),
        ({"dropout": 1.0}, ValueError, "dropout: is 1"),
        ({"fanouts": (5,)}, ValueError, "eval_fanouts: has 3 hops"),
        ({"fanouts": (5, 5, -2)}, ValueError, r"fanouts\[2\]: is -2"),
        ({"batch_size": 2.5}, TypeError, "batch_size: .*2.5"),
        ({"seed": -1}, ValueError, "seed: is -1"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        TrainConfig(**settings)


def test_unknown_models_and_devices_are_refused_by_name() -> None:
    dataset = tiny()
    with pytest.raises(ValueError, match="'Sage' is unknown, expected one of SAGE"):
        make_model(TrainConfig(model="Sage"), dataset)
    with pytest.raises(ValueError, match="'tpu9'"):
        fit(dataset, source_of(dataset), SMALL, device="tpu9")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no CUDA device"):
            fit(dataset, source_of(dataset), SMALL, device="cuda")


def test_the_command_line_trains_and_says_what_it_found(tmp_path: Path) -> None:
    checkpoint = tmp_path / "best.pt"
    done = CliRunner().invoke(
        main,
        ["train", "--dataset", "synthetic:tiny", "--epochs", "2", "--hidden", "16", "--fanouts",
         "5,5", "--eval-fanouts", "5,5", "--batch-size", "128", "--checkpoint", str(checkpoint)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert len(re.findall(r"^epoch \d: .* s, of which batch preparation", done.output, re.M)) == 2
    assert re.search(r"test accuracy 0\.\d{4}", done.output)
    assert checkpoint.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "synthetic:smal"], "synthetic:small"),
        (["--dataset", "nowhere.npz"], "nowhere.npz"),
        (["--dataset", "synthetic:tiny", "--fanouts", "5,x"], "5,x"),
        (["--dataset", "synthetic:tiny", "--epochs", "0"], "epochs: is 0"),
        (["--dataset", "synthetic:tiny", "--threads", "0"], "num_threads: is 0"),
        (["--dataset", "synthetic:tiny", "--device", "cuda:99"], "cuda"),
    ],
)
def test_mistakes_on_the_command_line_get_one_line(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    checkpoint = ["--checkpoint", str(tmp_path / "best.pt")]
    done = CliRunner().invoke(main, ["train", *arguments, *checkpoint])
    assert done.exit_code in (1, 2)
    assert "Error" in done.output and words in done.output
    assert "Traceback" not in done.output


def run_module(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True, timeout=240
    )


def test_doctor_names_each_part_and_ends_well() -> None:
    done = run_module("salient", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("python", "torch", "core", "threads", "gpu", "baseline pyg_classic",
                 "baseline pyg", "baseline dgl", "baseline salient"):  # fmt: skip
        assert re.search(rf"^(ok|missing) +{part} ", done.stdout, re.M), (part, done.stdout)
    for line in done.stdout.splitlines():  # what is missing has a remedy below it
        if line.startswith("missing"):
            assert "->" in done.stdout.split(line)[1].splitlines()[1]


def test_doctor_works_away_from_the_checkout(tmp_path: Path) -> None:
    done = run_module("salient", "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^(missing|ok) +baseline", done.stdout, re.M)


def test_the_main_job_writes_records_once_and_reports_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import baselines
    from benchmarks.epoch_breakdown import main as main_job

    monkeypatch.setitem(
        baselines._REGISTRY, "dgl", ("baselines.no_such_module", "Nothing", "install it")
    )
    monkeypatch.delitem(baselines._working, "dgl", raising=False)
    arguments = ["--dataset", "synthetic:tiny", "--systems", "salient,dgl", "--seeds", "0,1",
                 "--workers", "1", "--epochs", "2", "--fanouts", "5,5,5", "--batch-size", "128",
                 "--results", str(tmp_path)]  # fmt: skip
    done = CliRunner().invoke(main_job, arguments)
    assert done.exit_code == 0, done.output
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*.jsonl")]
    assert sorted((r["system"]["name"], r["status"], r["seed"]) for r in found) == [
        ("dgl", "not_available", 0), ("salient", "ok", 0), ("salient", "ok", 1)
    ]  # fmt: skip
    (missing,) = (r for r in found if r["status"] != "ok")
    assert "ModuleNotFoundError" in missing["reason"] and "install it" in missing["reason"]

    before = {path.name for path in tmp_path.glob("*salient*.jsonl")}
    assert CliRunner().invoke(main_job, arguments).exit_code == 0
    ours = [json.loads(p.read_text()) for p in tmp_path.glob("*.jsonl")]
    assert sum(r["system"]["name"] == "salient" for r in ours) == 2, before
