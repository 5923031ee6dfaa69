"""Report: writes the tables and figures of a results folder.

May import: ``salient.records``, all of ``analysis``; matplotlib, pandas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from analysis import design_figure, design_study, figures, growth, tables
from analysis.load import EPOCH_BREAKDOWN, runs_frame
from analysis.style import FIGURE_RC, plain
from salient.records import Record, read_records

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\|<`*"})
_NO_CSV_COLUMNS = ["config", "problems", "gaps", "config_text", "workload"]


@dataclass(frozen=True)
class Report:
    """What was written: the Markdown text, the files, and what was left alone."""

    markdown: str
    paths: list[Path]
    other_experiments: dict[str, int]


def write_report(results: Path, out: Path) -> Report:
    """Write what the records in ``results`` show into the folder ``out``.

    For the epoch breakdown, the sampler design study and the growth of costs, each where there are
    records of it:
    ``<name>.md``, ``.csv``, ``.png`` and ``.pdf``. Files that are there are replaced.

    Raises
    ------
    FileNotFoundError, ValueError
        There is no such folder, a record cannot be read, or none is of a known experiment.
    OSError
        A file cannot be written.
    """
    records = read_records(results)
    experiments = Counter(one.experiment for one in records)
    parts = []
    if EPOCH_BREAKDOWN in experiments:
        parts.append(_write_epoch_breakdown(records, out))
    if design_study.SAMPLER_DESIGN in experiments:
        parts.append(_write_design_study(records, out))
        experiments.pop(design_study.FLOOR, None)
    if growth.GROWTH in experiments:
        parts.append(_write_growth(records, out))
    if not parts:
        raise ValueError(
            f"{results} holds {len(records)} record(s), none of experiment {EPOCH_BREAKDOWN!r}, "
            f"{design_study.SAMPLER_DESIGN!r} or {growth.GROWTH!r}; run one first, or give the "
            "folder it wrote to"
        )
    for known in (EPOCH_BREAKDOWN, design_study.SAMPLER_DESIGN, growth.GROWTH):
        experiments.pop(known, None)
    return Report(
        "\n".join(markdown for markdown, _ in parts),
        [path for _, paths in parts for path in paths],
        dict(experiments),
    )


def _write_epoch_breakdown(records: list[Record], out: Path) -> tuple[str, list[Path]]:
    runs = runs_frame(records)
    table = tables.epoch_breakdown(runs)
    markdown = to_markdown(runs, table)
    figure = figures.epoch_breakdown(table)
    return markdown, _write_files(out / EPOCH_BREAKDOWN, markdown, to_csv_frame(table), figure)


def _write_design_study(records: list[Record], out: Path) -> tuple[str, list[Path]]:
    """Write the study of each graph; all but the first have its number in the files' names."""
    frame = design_study.design_frame(records)
    markdowns, paths = [], []
    stems = (f"{design_study.SAMPLER_DESIGN}{suffix}" for suffix in _numbering())
    for _, session in frame.groupby(design_study.SESSION_KEYS, sort=False):
        if session["seconds"][session["table"] != ""].notna().sum() == 0:
            continue  # a floor alone, or no variant could be built
        parts = [f"# Sampler design study: {escape(session['dataset'].iloc[0])}"]
        for title, content in design_study.sections(session):
            parts += [f"## {title}"] if title else []
            parts.append(_as_markdown(content))
        markdown = "\n\n".join(parts) + "\n"
        csv = session.drop(columns=["terms", "config_text"])
        figure = design_figure.draw(session)
        paths += _write_files(out / next(stems), markdown, csv, figure)
        markdowns.append(markdown)
    return "\n".join(markdowns), paths


def _write_growth(records: list[Record], out: Path) -> tuple[str, list[Path]]:
    frame = growth.growth_frame(records)
    parts = [
        "# How cost grows",
        _as_markdown(growth.table(frame)),
        "Medians; dotted lines in the figure mark where graph or table outgrow a cache.",
    ]
    missing = frame[frame["status"] != "ok"].drop_duplicates("label")
    parts += [escape(f"{row.label}: n/a, {row.reason}") for row in missing.itertuples()]
    markdown = "\n\n".join(parts) + "\n"
    csv = frame.drop(columns="caches")
    return markdown, _write_files(out / growth.GROWTH, markdown, csv, growth.draw(frame))


def _numbering() -> Iterator[str]:
    yield ""
    yield from (f"_{number}" for number in count(2))


def _as_markdown(content: pd.DataFrame | str) -> str:
    if isinstance(content, str):
        return "\n\n".join(escape(line) for line in content.split("\n\n"))
    return str(content.map(escape).to_markdown(index=False, disable_numparse=True))


def _write_files(stem: Path, markdown: str, table: pd.DataFrame, figure: Figure) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(suffix) for suffix in (".md", ".csv", ".png", ".pdf")]
    paths[0].write_text(markdown, encoding="utf-8")
    table.to_csv(paths[1], index=False)
    with mpl.rc_context(FIGURE_RC):
        figure.savefig(paths[2])
        figure.savefig(paths[3], metadata={"CreationDate": None})  # same records, same file
    return paths


def to_markdown(runs: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return one section per data set: settings, warnings, table, footnotes."""
    parts = ["# Per-epoch breakdown by system"]
    for keys, rows in table.groupby(tables.DATASET_KEYS, sort=False):
        own = runs[(runs[tables.DATASET_KEYS] == list(keys)).all(axis=1)]
        first = rows.iloc[0]
        settings = tables.common_settings(rows)
        common = ", ".join(f"{key} {plain(value)}" for key, value in settings.items())
        machines = "; ".join(sorted(own[own["status"] == "ok"]["machine"].unique()))
        parts += [
            f"## {escape(first['dataset'])}",
            escape(f"{first['description']} (checksum {first['checksum']})"),
            escape(f"Settings of all rows: {common or 'none in common'}."),
            escape(f"Machine: {machines or 'nothing was measured'}."),
        ]
        notices = tables.warnings(own, rows)
        if notices:
            parts.append("\n".join(f"- **Warning:** {escape(text)}" for text in notices))
        cells = tables.display(rows).map(escape)
        parts.append(cells.to_markdown(index=False, disable_numparse=True))
        parts.append("\n".join(f"- {escape(text)}" for text in tables.footnotes(rows)))
    return "\n\n".join(parts) + "\n"


def to_csv_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return the raw columns, with the settings as ``config_<key>``."""
    settings = pd.DataFrame(
        [{f"config_{key}": plain(value) for key, value in one.items()} for one in table["config"]],
        index=table.index,
    )
    kept = table.drop(columns=_NO_CSV_COLUMNS)
    return pd.concat([kept, settings.drop(columns="config_workers", errors="ignore")], axis=1)


def escape(text: str) -> str:
    """Make ``text`` safe inside a Markdown table cell and on a terminal."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(printable.split()).translate(_SPECIAL)
