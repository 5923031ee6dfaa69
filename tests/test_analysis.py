"""Tables and figures against numbers worked out by hand from hand-made records."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import figures, report, tables
from analysis.load import runs_frame
from analysis.style import format_spread, plain
from record_factory import ENVIRONMENT, make_epochs, make_record
from salient.records import Device, Record, Work, write_record

ROOT = Path(__file__).resolve().parent.parent
PYG = tables.REFERENCE_SYSTEM


def table_of(*records: Record) -> pd.DataFrame:
    return tables.epoch_breakdown(runs_frame(records))


def only_row(table: pd.DataFrame, system: str) -> pd.Series:
    rows = table[table["system"] == system]
    assert len(rows) == 1
    return rows.iloc[0]


def sections_of(*records: Record) -> str:
    runs = runs_frame(records)
    return report.to_markdown(runs, tables.epoch_breakdown(runs))


def three_repeats(system: str, *totals: float, **fields: Any) -> list[Record]:
    return [
        make_record(system, repeat=repeat, totals=[total], **fields)
        for repeat, total in enumerate(totals)
    ]


def run_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "analysis", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_breakdown_equals_the_numbers_worked_out_by_hand() -> None:
    """Repeats 2, 3, 4 s of PyG; means of (1, 2) = 1.5, (1, 1) = 1, (0.5, 0.5) = 0.5 of ours."""
    ours = [
        make_record(repeat=0, totals=[1.0, 2.0], seed=7, test=0.5),
        make_record(repeat=1, totals=[1.0, 1.0], seed=7, test=0.7),
        make_record(repeat=2, totals=[0.5, 0.5], seed=8, test=0.8),
    ]
    table = table_of(*three_repeats(PYG, 2.0, 3.0, 4.0, edges=1010.0), *ours)
    assert list(table["system"]) == [PYG, "salient"]
    row = only_row(table, "salient")
    assert row["epoch_seconds_mean"] == pytest.approx(1.0)
    assert row["epoch_seconds_sd"] == pytest.approx(0.5)  # sample: sqrt((0.25+0+0.25)/2)
    assert row["speedup"] == pytest.approx(3.0)
    assert row["repeats"] == 3
    assert row["batch_preparation_work_seconds_mean"] == pytest.approx(0.5)
    assert row["batch_preparation_exposed_seconds_mean"] == pytest.approx(0.4)
    assert row["transfer_work_seconds_mean"] == pytest.approx(0.2)
    assert row["transfer_exposed_seconds_mean"] == pytest.approx(0.1)
    assert row["training_work_seconds_mean"] == pytest.approx(0.3)
    assert row["training_work_seconds_sd"] == pytest.approx(0.0)
    assert row["nodes_per_batch"] == 300.0
    assert row["edges_per_batch"] == 1000.0
    assert row["edges_difference"] == pytest.approx(-10 / 1010)
    # Seeds 7 and 8 have 0.6 and 0.8.
    assert row["test_accuracy_mean"] == pytest.approx(0.7)
    assert row["test_accuracy_sd"] == pytest.approx(math.sqrt(0.02))
    assert row["notes"] == "accuracy over 2 seed(s)"
    pyg = only_row(table, PYG)
    assert (pyg["epoch_seconds_mean"], pyg["epoch_seconds_sd"], pyg["speedup"]) == (3.0, 1.0, 1.0)

    shown = tables.display(table).iloc[1]
    assert shown["epoch (s)"] == "1.000 ± 0.500"
    assert shown["batch preparation: work (s)"] == "0.5000 ± 0.0000"
    assert shown["edges per batch"] == "1,000"
    assert shown["speed-up over PyG"] == "3.00"
    assert shown["test accuracy"] == "0.7000 ± 0.1414"


def test_one_repeat_has_no_spread_and_is_warned_of() -> None:
    text = sections_of(make_record(totals=[1.25, 1.75]))
    assert "| 1.500 ± n/a" in text
    assert "**Warning:** fewer than 3 repeats: salient (1)" in text
    full = sections_of(*three_repeats("salient", 1.0, 1.0, 1.0))
    assert "Warning" not in full


@pytest.mark.parametrize(
    ("edges", "mark"),
    [
        (880.0, "unequal work (\N{MINUS SIGN}12 %)"),
        (1120.0, "unequal work (+12 %)"),
        (1049.0, ""),
        (951.0, ""),
        (949.0, "unequal work (\N{MINUS SIGN}5 %)"),
        (None, ""),
    ],
)
def test_work_that_differs_from_the_reference_is_marked(edges: float | None, mark: str) -> None:
    table = table_of(make_record(PYG, edges=1000.0), make_record(edges=edges))
    assert only_row(table, "salient")["notes"] == mark
    assert only_row(table, PYG)["notes"] == ""
    if edges is None:
        assert tables.display(table)["edges per batch"].iloc[1] == "not measured"


def test_without_the_reference_the_speedup_is_na_and_a_footnote_says_why() -> None:
    elsewhere = make_record(PYG, dataset="other", num_nodes=5)
    text = sections_of(make_record(), elsewhere)
    tiny = text[text.index("## tiny") :]
    assert "Speed-up n/a: the results hold no successful run of classic PyG" in tiny
    assert tables.display(table_of(make_record()))["speed-up over PyG"].iloc[0] == "n/a"


def test_reference_is_of_the_same_workload_and_device_at_its_best_worker_count() -> None:
    records = [
        make_record(PYG, workers=1, totals=[8.0]),
        make_record(PYG, workers=2, totals=[4.0]),
        make_record(PYG, workers=9, totals=[0.1], config={"batch_size": 64}),
        make_record(
            PYG,
            totals=[0.2],
            device=Device(requested="emulated:x", actual="emulated:x", emulated=True),
        ),
        make_record("salient", totals=[2.0]),
        make_record("dgl", totals=[2.0], config={"fanouts": [5]}),
    ]
    table = table_of(*records)
    assert only_row(table, "salient")["speedup"] == pytest.approx(2.0)
    assert only_row(table, "salient")["reference"] == f"{PYG}, 2 workers"
    assert math.isnan(only_row(table, "dgl")["speedup"])
    slow = table[(table["system"] == PYG) & (table["workers"] == 1)].iloc[0]
    assert slow["speedup"] == pytest.approx(0.5)


def test_rows_that_differ_in_a_setting_stay_apart_and_say_so() -> None:
    table = table_of(
        make_record(totals=[1.0], config={"batch_size": 512}),
        make_record(totals=[3.0]),
        make_record(totals=[5.0], settings={"pipeline": False}),
    )
    assert sorted(table["epoch_seconds_mean"]) == [1.0, 3.0, 5.0]
    notes = dict(zip(table["epoch_seconds_mean"], table["notes"], strict=True))
    assert notes[1.0] == "batch_size 512; settings: none"
    assert notes[3.0] == "batch_size 1024; settings: none"
    assert notes[5.0] == "batch_size 1024; settings: pipeline False"


def test_a_data_set_of_another_checksum_is_another_section() -> None:
    text = sections_of(make_record(checksum="c0"), make_record(checksum="c1"))
    assert text.count("## tiny") == 2


def test_a_row_without_numbers_keeps_its_place_and_its_reason() -> None:
    records = [
        make_record(PYG),
        make_record("dgl", status="not_available", reason="not installed"),
        make_record("broken", status="failed", reason="ran out\nof memory"),
        make_record("cold", totals=[]),
    ]
    shown = tables.display(table_of(*records)).set_index("system")
    assert shown.loc["dgl", "notes"] == "not available: not installed"
    assert shown.loc["cold", "notes"] == "failed: no epoch after the warm-up was recorded"
    cells = shown.loc["dgl"].drop(["form", "workers", "repeats", "notes"])
    assert set(cells) == {"n/a"}
    assert shown.loc["dgl", "repeats"] == "0"
    assert "failed: ran out of memory" in sections_of(*records)


def test_failed_repeats_beside_good_ones_are_counted_in_the_notes() -> None:
    good = three_repeats("salient", 1.0, 1.0, 1.0)
    bad = make_record(status="failed", reason="killed", repeat=3)
    row = only_row(table_of(*good, bad), "salient")
    assert row["repeats"] == 3
    assert row["notes"] == "1 of 4 runs failed: killed"


def test_stages_not_measured_say_so_with_the_reason() -> None:
    stages = make_epochs([1.0], transfer=(None, None), preparation=(None, 0.5), reason="on the CPU")
    table = table_of(make_record(stages=stages))
    shown = tables.display(table).iloc[0]
    assert shown["transfer: work (s)"] == "not measured"
    assert shown["batch preparation: work (s)"] == "not measured"
    assert shown["batch preparation: exposed (s)"] == "0.5000 ± n/a"
    assert shown["notes"] == (
        "batch preparation work not measured: on the CPU; transfer not measured: on the CPU"
    )


def test_stages_longer_than_the_epoch_are_noted() -> None:
    stages = make_epochs([1.0], preparation=(1.0, 0.6), transfer=(0.2, 0.2), training=0.3)
    assert table_of(make_record(stages=stages))["notes"].iloc[0] == (
        "stages add up to 110 % of the epoch"
    )


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ({"emulated": True}, "Ours (emulated: v100)"),
        ({"simulated": True}, "Ours (simulated: v100)"),
        ({}, "Ours"),
    ],
)
def test_emulated_and_simulated_rows_say_so_in_their_name(
    kinds: dict[str, bool], name: str
) -> None:
    device = Device(requested="emulated:v100", actual="emulated:v100", **kinds)
    table = table_of(make_record(label="Ours", device=device))
    assert tables.display(table)["system"].iloc[0] == name


def with_environment(repeat: int, **sections: Any) -> Record:
    return make_record(repeat=repeat, environment=ENVIRONMENT | sections)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"machine": {"cpu_model": "Other CPU", "cores": 8, "affinity": 8}},
            "mixed machines, times are not comparable: Other CPU, 8 of 8 cores \\| Test CPU",
        ),
        ({"git": {"commit": "a" * 40, "dirty": True}}, "1 of 3 runs from a dirty commit"),
        ({"git": {"commit": "b" * 40, "dirty": False}}, "several commits: aaaaaaaaaaaa, bbbbbbbb"),
        ({"git": {"commit": None, "dirty": None}}, "1 of 3 runs from an unknown commit"),
    ],
)
def test_what_makes_runs_hard_to_compare_is_warned_of(sections: Any, words: str) -> None:
    text = sections_of(*[with_environment(0), with_environment(1), with_environment(2, **sections)])
    warning, table = text.index("**Warning:**"), text.index("| system")
    assert words in text[warning:table]
    assert text.count("**Warning:**") == 1


def test_warnings_stay_in_the_section_of_their_data_set() -> None:
    good = three_repeats("salient", 1.0, 1.0, 1.0, dataset="clean", num_nodes=1)
    dirty = [
        with_environment(repeat, git={"commit": "a" * 40, "dirty": True}) for repeat in range(3)
    ]
    text = sections_of(*good, *dirty)
    clean, other = text[: text.index("## tiny")], text[text.index("## tiny") :]
    assert "Warning" not in clean
    assert "3 of 3 runs from a dirty commit" in other


def test_names_cannot_break_the_markdown_table() -> None:
    text = sections_of(make_record(label="a|b\\|c\nd\x1b[31m <b> *x*", dataset="x | y\n# z"))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert "a\\|b\\\\\\|c d [31m \\<b> \\*x\\*" in rows[2]
    bars = [row.replace("\\\\", "").replace("\\|", "").count("|") for row in rows]
    assert bars == [16, 16, 16]
    assert "## x \\| y # z" in text


def test_numbers_keep_the_digits_that_count() -> None:
    assert format_spread(54.950602, 0.896844) == "54.95 ± 0.90"
    assert format_spread(0.476831, 0.006658) == "0.4768 ± 0.0067"
    assert format_spread(12345.6, 78.9) == "12346 ± 79"
    assert format_spread(0.0, 0.0) == "0.0000 ± 0.0000"
    assert format_spread(math.nan, math.nan) == "not measured"
    assert [plain([15, 10, 5]), plain(2.0), plain(math.nan), plain("x")] == [
        "15,10,5",
        "2",
        "n/a",
        "x",
    ]


def test_bars_of_the_figure_have_the_lengths_of_the_stages() -> None:
    records = [
        make_record(PYG, totals=[2.0]),
        make_record("dgl", status="not_available", reason="costs $5 or $6"),
        make_record(
            stages=make_epochs([1.0], transfer=(None, None)), work=Work(edges_per_batch=1.0)
        ),
        make_record(totals=[9.0], dataset="big", num_nodes=10**6),
    ]
    figure = figures.epoch_breakdown(table_of(*records))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["tiny", "big"]
    axes = figure.axes[0]
    lengths = {
        container.get_label(): [round(bar.get_width(), 9) for bar in container]
        for container in axes.containers
    }
    # Rows: classic PyG, DGL (n/a), ours with an unmeasured transfer.
    assert lengths == {
        "batch preparation": [0.4, 0.0, 0.4],
        "transfer": [0.1, 0.0, 0.0],
        "training": [0.3, 0.0, 0.3],
        "other": [1.2, 0.0, 0.3],
    }
    ends = [bar.get_x() + bar.get_width() for bar in axes.containers[-1]]
    assert ends == pytest.approx([2.0, 0.0, 1.0])
    texts = [text.get_text() for text in axes.texts]
    assert texts == [
        "2.000 s (1.0\N{MULTIPLICATION SIGN})\none repeat",
        "n/a: not available: costs $5 or $6",
        "1.000 s (2.0\N{MULTIPLICATION SIGN})\none repeat\nunequal work",
    ]
    assert [label.get_text().split("\n")[0] for label in axes.get_yticklabels()] == [
        PYG,
        "dgl",
        "salient",
    ]


def test_figure_of_unavailable_rows_alone_is_drawn(tmp_path: Path) -> None:
    table = table_of(make_record("dgl", status="failed", reason="x"))
    figures.epoch_breakdown(table).savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def make_results(folder: Path) -> list[Path]:
    records = [
        *three_repeats(PYG, 2.0, 3.0, 4.0),
        *three_repeats("salient", 1.0, 1.5, 0.5),
        make_record("dgl", status="not_available", reason="not installed"),
        make_record(experiment="sampling"),
    ]
    return [write_record(folder, record) for record in records]


def test_command_writes_and_prints_the_report(tmp_path: Path) -> None:
    make_results(tmp_path)
    done = run_cli(tmp_path, "--out", tmp_path / "out" / "deep")
    assert (done.returncode, done.stderr) == (0, "")
    out = tmp_path / "out" / "deep"
    names = ["epoch_breakdown.csv", "epoch_breakdown.md", "epoch_breakdown.pdf"]
    assert sorted(path.name for path in out.iterdir()) == [*names, "epoch_breakdown.png"]
    assert (out / "epoch_breakdown.md").read_text() in done.stdout
    assert done.stdout.count("written: ") == 4
    assert f"written: {out / 'epoch_breakdown.png'}" in done.stdout
    assert "left alone: 1 record(s) of experiment sampling" in done.stdout
    assert (out / "epoch_breakdown.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (out / "epoch_breakdown.pdf").read_bytes()[:5] == b"%PDF-"
    with (out / "epoch_breakdown.csv").open(newline="") as file:
        rows = {row["system"]: row for row in csv.DictReader(file)}
    assert float(rows[PYG]["epoch_seconds_mean"]) == 3.0
    assert float(rows[PYG]["epoch_seconds_sd"]) == 1.0
    assert float(rows["salient"]["speedup"]) == pytest.approx(3.0)
    assert rows["salient"]["config_fanouts"] == "15,10,5"
    assert rows["dgl"]["epoch_seconds_mean"] == ""
    assert rows["dgl"]["notes"] == "not available: not installed"


def test_same_records_give_the_same_files(tmp_path: Path) -> None:
    make_results(tmp_path)
    first = report.write_report(tmp_path, tmp_path / "report")
    before = [path.read_bytes() for path in first.paths]
    again = report.write_report(tmp_path, tmp_path / "report")
    assert [path.read_bytes() for path in again.paths] == before


def test_a_deleted_record_takes_its_row_and_nothing_else(tmp_path: Path) -> None:
    paths = make_results(tmp_path)
    report.write_report(tmp_path, tmp_path / "a")
    paths[6].unlink()  # the only record of DGL
    report.write_report(tmp_path, tmp_path / "b")
    for name in ("epoch_breakdown.csv", "epoch_breakdown.md"):
        before = (tmp_path / "a" / name).read_text().splitlines()
        after = (tmp_path / "b" / name).read_text().splitlines()
        # Markdown pads cells to the longest, so compare without the padding.
        before, after = ([" ".join(line.split()) for line in text] for text in (before, after))
        gone = [line for line in before if "dgl" in line]
        assert len(gone) == 1
        rules = [line for line in before if line.startswith("|:")]
        assert [line for line in before if line not in gone + rules] == [
            line for line in after if not line.startswith("|:")
        ]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda folder: None, "none of experiment 'epoch_breakdown'"),
        (
            lambda folder: (folder / "x.jsonl").write_text('{"schema_version": 9}'),
            "x.jsonl, line 1: schema version 9 is newer",
        ),
        (lambda folder: folder.rmdir(), "is not a folder"),
    ],
)
def test_command_says_what_is_wrong_and_fails(tmp_path: Path, prepare: Any, words: str) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    prepare(folder)
    done = run_cli(folder)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_work_is_the_mean_over_repeats() -> None:
    works = [Work(batches=4, edges_per_batch=edges, nodes_per_batch=1.0) for edges in (10.0, 20.0)]
    row = only_row(table_of(*[make_record(work=work) for work in works]), "salient")
    assert row["edges_per_batch"] == 15.0
