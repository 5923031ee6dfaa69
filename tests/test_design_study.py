"""The sampler design study: its graph, its floor, its analysis; and, on request, its programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import design_figure, design_study, report
from benchmarks.design_study.floor import Workload, count_workload, least_seconds, line_name
from benchmarks.graphs import heavy_tailed_graph
from record_factory import make_record
from salient.graph import Graph
from salient.records import Record, Sample, read_records, write_record

ROOT = Path(__file__).resolve().parent.parent
PLAIN = {
    "table": "std::unordered_map",
    "check": "branch-free scan",
    "drawing": "Floyd",
    "construction": "fused",
    "memory": "fresh",
    "prefetch": "no prefetch",
    "ids": "int32",
}


def study_record(system: str, seconds: list[float], **fields: Any) -> Record:
    values: dict[str, Any] = {
        "experiment": "sampler_design",
        "stages": [],
        "accuracy": None,
        "samples": [Sample(name="batch", unit="s", values=seconds)] if seconds else [],
    }
    return make_record(system, **(values | fields))


def variant(seconds: list[float], **choices: str) -> Record:
    settings = PLAIN | choices
    name = "salient:" + "+".join(settings.values())
    return study_record(name, seconds, settings=settings, label=", ".join(settings.values()))


def studied() -> list[Record]:
    """PyG 8 s, slowest variant 4 s, dense array 1 s, its blocked twin 0.5 s, floor 0.25 s."""
    return [
        study_record("pyg_classic", [7.0, 8.0, 9.0], label="PyG"),
        study_record("salient", [0.5], label="ours"),
        variant([4.0, 3.0, 5.0]),
        variant([2.0], construction="blocked"),
        variant([1.0], table="dense array"),
        variant([0.5], table="dense array", construction="blocked"),
        study_record(
            "floor",
            [],
            experiment="floor",
            samples=[
                Sample(name="batch", unit="s", values=[0.25]),
                Sample(name="least: draws", unit="s", values=[0.25]),
                Sample(name="copy", unit="GB/s", values=[9.0]),
            ],
            config={"workload": {"draws": 1}},
        ),
    ]


def only_session(records: list[Record]) -> pd.DataFrame:
    frame = design_study.design_frame(records)
    assert len(frame.groupby(design_study.SESSION_KEYS)) == 1
    return frame


def test_variants_are_sorted_and_compared_with_pyg() -> None:
    rows = design_study.variants(only_session(studied()))
    assert list(rows["seconds"]) == [4.0, 2.0, 1.0, 0.5]
    assert list(rows["speedup"]) == [2.0, 4.0, 8.0, 16.0]
    assert set(rows["reference"]) == {"PyG's classic sampler"}
    assert rows.iloc[0]["low"] == 3.0
    assert rows.iloc[0]["high"] == 5.0


def test_without_pyg_the_slowest_variant_is_the_reference() -> None:
    records = studied()[1:]
    records.append(study_record("pyg_classic", [], status="not_available", reason="no compiler"))
    session = only_session(records)
    rows = design_study.variants(session)
    assert list(rows["speedup"]) == [1.0, 2.0, 4.0, 8.0]
    assert rows["reference"].iloc[0].startswith("the slowest variant")
    assert "no compiler" in str(design_study.sections(session)[0][1])


def test_effect_is_the_geometric_mean_over_pairs_that_differ_in_one_choice() -> None:
    """Array for map: 4/1 and 2/0.5. Blocked for fused: 4/2 and 1/0.5. Then one pair of 8 to 1."""
    records = [*studied(), variant([0.25], table="dense array", memory="reused")]
    records.append(variant([0.5], memory="reused"))
    effects = design_study.effects(design_study.variants(only_session(records)))
    rows = {(row["choice"], row["value"]): row for _, row in effects.iterrows()}
    assert set(rows) == {
        ("relabelling table", "dense array"),
        ("construction", "blocked"),
        ("table's memory", "reused"),
    }
    table = rows["relabelling table", "dense array"]
    assert table["faster"] == pytest.approx((4 * 4 * 2) ** (1 / 3))  # the third: 0.5 / 0.25
    assert (table["least"], table["most"], table["pairs"]) == (2.0, 4.0, 3)
    assert table["at_the_fastest"] == 2.0
    memory = rows["table's memory", "reused"]
    assert memory["faster"] == pytest.approx((8 * 4) ** 0.5)
    assert memory["at_the_fastest"] == 4.0
    assert np.isnan(rows["construction", "blocked"]["at_the_fastest"])


def test_drawings_are_compared_though_only_floyd_has_a_check() -> None:
    records = [
        variant([3.0], check="not needed", drawing="reservoir"),
        variant([1.0]),
        variant([9.0], check="hash set"),
    ]
    effects = design_study.effects(design_study.variants(only_session(records)))
    drawing = effects[effects["choice"] == "drawing"]
    assert list(drawing["faster"]) == [pytest.approx(3.0)]
    check = effects[effects["choice"] == "duplicate check"]
    assert list(check["faster"]) == [pytest.approx(9.0)]


def test_figure_marks_the_choices_of_each_variant() -> None:
    figure = design_figure.draw(only_session(studied()))
    speeds, matrix = figure.axes
    texts = [text.get_text() for text in speeds.texts]
    assert [text.split(":")[0] for text in texts] == [
        "PyG classic",
        "shipping sampler",
        "floor of the machine",
    ]
    assert texts[2].endswith(", 32\N{MULTIPLICATION SIGN}")
    names = [label.get_text() for label in matrix.get_yticklabels()]
    mesh = np.asarray(matrix.collections[0].get_array()).reshape(len(names), -1) > 0
    assert mesh.shape[1] == 4
    assert mesh[names.index("dense array")].tolist() == [False, False, True, True]
    assert mesh[names.index("blocked")].tolist() == [False, True, False, True]
    assert mesh[names.index("reservoir")].tolist() == [False] * 4


def test_report_writes_the_study_without_other_experiments(tmp_path: Path) -> None:
    absent = {"table": "Swiss table"}
    records = [
        *studied(),
        study_record(
            "salient:swiss",
            [],
            settings=PLAIN | absent,
            status="not_available",
            reason="library not found",
        ),
    ]
    for record in records:
        write_record(tmp_path, record)
    written = report.write_report(tmp_path, tmp_path / "out")
    assert [path.name for path in written.paths] == [
        f"sampler_design.{ending}" for ending in ("md", "csv", "png", "pdf")
    ]
    assert written.other_experiments == {}
    assert "Not measured: Swiss table (1), library not found." in written.markdown
    table = pd.read_csv(tmp_path / "out" / "sampler_design.csv").set_index("system")
    assert table.loc["pyg_classic", "seconds"] == 8.0
    assert table.loc["salient:swiss", "status"] == "not_available"


def test_heavy_tailed_graph_has_the_size_both_directions_and_a_tail() -> None:
    graph = heavy_tailed_graph(2000, 60_000, seed=3)
    assert (graph.num_nodes, graph.num_edges) == (2000, 60_000)
    assert graph.indices.dtype == np.int32
    source, target = graph.edge_index.numpy()
    there = np.sort(source * 2000 + target)
    back = np.sort(target * 2000 + source)
    np.testing.assert_array_equal(there, back)
    degrees = np.diff(graph.indptr)
    # Equal weights would give a largest degree of about 30 + 4 * sqrt(30).
    assert degrees.max() > 200
    assert np.median(degrees) < 25
    again = heavy_tailed_graph(2000, 60_000, seed=3)
    np.testing.assert_array_equal(graph.indices, again.indices)
    other = heavy_tailed_graph(2000, 60_000, seed=4)
    assert not np.array_equal(graph.indices, other.indices)


@pytest.mark.parametrize(
    ("nodes", "edges", "name"), [(0, 2, "num_nodes"), (5, 3, "num_edges"), (5, -2, "num_edges")]
)
def test_heavy_tailed_graph_refuses_impossible_sizes(nodes: int, edges: int, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        heavy_tailed_graph(nodes, edges, seed=0)


def test_workload_of_a_star() -> None:
    """Nodes 1 to 40 point at 0; 3 are drawn in hop 1, and in hop 2 node 0 draws 2, the rest none.

    Positions 0 to 39 of the int32 indices lie on 3 lines; nodes 0 to 40 of indptr on 6.
    """
    graph = Graph.from_edge_index(np.array([range(1, 41), [0] * 40], dtype=np.int32))
    work = count_workload(graph, [3, 2], np.array([0]))
    assert work.draws == 5
    assert work.table_probes == 6  # five edges and the seed
    assert 1 <= work.indices_lines <= 3
    assert 1 <= work.indptr_lines <= 4  # nodes 0 and the three of hop 1
    assert (work.indptr_bytes, work.indices_bytes, work.table_bytes) == (42 * 8, 160, 164)
    nodes = range(4, 7)  # hop 2 adds none, one or two
    # Edges 5, indptr of 1 and of 4 destinations.
    assert work.output_bytes in [4 * (5 + count + 2 + 5) for count in nodes]


def test_floor_adds_what_each_part_costs() -> None:
    work = Workload(
        10, 20, 30, 40, 5_000_000_000, indptr_bytes=640, indices_bytes=1280, table_bytes=2
    )
    costs = {
        line_name(640, "huge"): [3.0, 2.0],
        line_name(640, "small"): [9.0],
        line_name(1280, "huge"): [8.0],
        line_name(1280, "small"): [4.0],
        line_name(64, "huge"): [1.0],  # less than a line is a line
        line_name(64, "small"): [1.5],
        "draw, avx2": [0.5],
        "draw, portable": [6.0],
        "copy": [5.0, 10.0],
    }
    terms = least_seconds(work, costs)
    assert terms == pytest.approx(
        {
            "indptr lines": 20e-9,
            "indices lines": 80e-9,
            "table probes": 30e-9,
            "draws": 20e-9,
            "bytes written": 0.5,
        }
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    os.environ.get("SALIENT_SLOW") != "1",
    reason="compiles for a minute or more; set SALIENT_SLOW=1 to run it",
)
def test_programs_build_check_every_variant_and_write_records(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.design_study", "--scale", "small"]
    command += ["--rounds", "1", "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path)
    rows = [one for one in records if one.system.settings.get("table")]
    assert len({one.system.name for one in rows}) == len(rows) == 256
    measured = [one for one in rows if one.status == "ok"]
    assert len(measured) >= 192  # all but those of a library that may be missing
    # The same draws give the same batch: only drawings differ.
    for drawing in ("Floyd", "Fisher-Yates", "reservoir"):
        sizes = {
            (one.work.nodes_per_batch, one.work.edges_per_batch)
            for one in measured
            if one.work is not None and one.system.settings["drawing"] == drawing
        }
        assert len(sizes) == 1
    floor = next(one for one in records if one.experiment == "floor")
    least = next(one.values[0] for one in floor.samples if one.name == "batch")
    assert 0 < least < min(value for one in measured for value in one.samples[0].values)
