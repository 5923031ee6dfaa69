"""Tables: a data frame of runs in, a data frame of rows out, no files and no printing.

May import: ``analysis.load``, ``analysis.style``; pandas.
"""

from __future__ import annotations

import json
import math

import pandas as pd

from analysis.load import QUANTITIES
from analysis.style import format_spread, plain

# The system that speed-ups and equal work are measured against, by the name in its records.
REFERENCE_SYSTEM = "pyg_classic"
EQUAL_WORK_TOLERANCE = 0.05
MIN_REPEATS = 3
# Clocks of stages and of the epoch are read apart, so their sum may be a little off.
_OVERLAP_TOLERANCE = 0.05

DATASET_KEYS = ["dataset", "checksum"]
_SETUP_KEYS = ["system", "label", "version", "form", "settings", "config_text"]
_DEVICE_KEYS = ["device", "emulated", "simulated"]
_ROW_KEYS = [*DATASET_KEYS, *_SETUP_KEYS, *_DEVICE_KEYS]
_CARRIED = ["num_nodes", "description", "config", "workers", "workload"]
_WORK = ("nodes_per_batch", "edges_per_batch")
_STAGE_NAMES = {
    "batch_preparation": "batch preparation",
    "transfer": "transfer",
    "training": "training",
}
_STATUS_WORDS = {"not_available": "not available", "failed": "failed"}


def epoch_breakdown(runs: pd.DataFrame) -> pd.DataFrame:
    """Summarise the runs to one row per data set, system, settings and device.

    Parameters
    ----------
    runs : DataFrame
        As from ``analysis.load.runs_frame``.

    Returns
    -------
    DataFrame
        Numbers as numbers, NaN where there are none. For each quantity ``<name>_mean`` and
        ``<name>_sd``: mean over the repeats (each the mean of its epochs after the warm-up)
        and sample standard deviation, NaN for a single repeat. ``speedup`` and
        ``edges_difference`` (a fraction) are against the reference of the row, see
        ``reference``. ``test_accuracy_*`` are over seeds. ``notes`` is a text.
    """
    table = pd.DataFrame([_summary(group) for _, group in runs.groupby(_ROW_KEYS, sort=False)])
    table = _sorted(table)
    table = pd.DataFrame([_against_reference(row, table) for _, row in table.iterrows()])
    table["notes"] = [_notes(row, table) for _, row in table.iterrows()]
    return table


def _summary(group: pd.DataFrame) -> dict[str, object]:
    measured = group[group["status"] == "ok"]
    first = (measured if len(measured) else group).iloc[0]
    row: dict[str, object] = {key: first[key] for key in [*_ROW_KEYS, *_CARRIED]}
    row["name"] = _display_name(first)
    row["status"] = "ok" if len(measured) else first["status"]
    row["repeats"] = len(measured)
    row["problems"] = _problems(group)
    for name in QUANTITIES:
        row[f"{name}_mean"] = measured[name].mean()
        row[f"{name}_sd"] = measured[name].std()
    for name in _WORK:
        row[name] = measured[name].mean()
    by_seed = measured.dropna(subset=["test_accuracy"]).groupby("seed")["test_accuracy"].mean()
    row["test_accuracy_mean"] = by_seed.mean()
    row["test_accuracy_sd"] = by_seed.std()
    row["accuracy_seeds"] = len(by_seed)
    row["gaps"] = _gaps(measured)
    return row


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Order the rows: small data sets first; in each the reference, then systems by name."""
    order = table.assign(
        later=table["system"] != REFERENCE_SYSTEM,
        threads=pd.to_numeric(table["workers"], errors="coerce"),
    ).sort_values(
        ["num_nodes", *DATASET_KEYS, "later", "system", "form", "threads", *_ROW_KEYS[2:]]
    )
    return table.loc[order.index].reset_index(drop=True)


def _display_name(run: pd.Series) -> str:
    kinds = [kind for kind in ("emulated", "simulated") if run[kind]]
    device = run["device"].removeprefix("emulated:")
    return f"{run['label']} ({', '.join(kinds)}: {device})" if kinds else run["label"]


def _problems(group: pd.DataFrame) -> list[str]:
    """Say which runs of the group gave no numbers, and why."""
    texts = []
    bad = group[group["status"] != "ok"]
    for (status, reason), runs in bad.groupby(["status", "reason"], sort=False):
        share = "" if len(bad) == len(group) else f"{len(runs)} of {len(group)} runs "
        texts.append(f"{share}{_STATUS_WORDS[status]}: {reason}")
    return texts


def _gaps(measured: pd.DataFrame) -> list[str]:
    """Say which stages were not measured, and why."""
    texts = []
    for stage, words in _STAGE_NAMES.items():
        missing = {
            kind: int(measured[f"{stage}_{kind}_seconds"].isna().sum())
            for kind in ("work", "exposed")
        }
        absent = [kind for kind, count in missing.items() if count]
        if not absent:
            continue
        # The training column is the work; its exposed time is not shown and needs no note.
        if stage == "training" and "work" not in absent:
            continue
        reasons = [reason for reason in measured[f"{stage}_reason"].unique() if reason]
        part = "" if stage == "training" or len(absent) == 2 else f" {absent[0]}"
        count = max(missing.values())
        share = "" if count == len(measured) else f" in {count} of {len(measured)} runs"
        texts.append(f"{words}{part} not measured{share}: {'; '.join(reasons)}")
    return texts


def _against_reference(row: pd.Series, table: pd.DataFrame) -> pd.Series:
    """Add speed-up, difference of work and a name of the reference to a row."""
    row = row.copy()
    same = table["system"] == REFERENCE_SYSTEM
    for key in [*DATASET_KEYS, "workload", *_DEVICE_KEYS]:
        same &= table[key] == row[key]
    candidates = table[same & (table["status"] == "ok")]
    row["speedup"] = row["edges_difference"] = math.nan
    row["reference"] = ""
    if len(candidates):
        reference = candidates.loc[candidates["epoch_seconds_mean"].idxmin()]
        row["reference"] = f"{reference['name']}, {plain(reference['workers'])} workers"
        if row["epoch_seconds_mean"] > 0:
            row["speedup"] = reference["epoch_seconds_mean"] / row["epoch_seconds_mean"]
        if reference["edges_per_batch"] > 0:
            row["edges_difference"] = row["edges_per_batch"] / reference["edges_per_batch"] - 1
    return row


def _notes(row: pd.Series, table: pd.DataFrame) -> str:
    notes = list(row["problems"])
    if is_unequal_work(row):
        percent = f"{100 * row['edges_difference']:+.0f}".replace("-", "\N{MINUS SIGN}")
        notes.append(f"unequal work ({percent} %)")
    notes += row["gaps"]
    if row["epoch_seconds_mean"] > 0:
        share = sum(bar_parts(row).values()) / row["epoch_seconds_mean"]
        if share > 1 + _OVERLAP_TOLERANCE:
            notes.append(f"stages add up to {100 * share:.0f} % of the epoch")
    if 1 <= row["accuracy_seeds"] < MIN_REPEATS:
        notes.append(f"accuracy over {row['accuracy_seeds']} seed(s)")
    return "; ".join(notes + _differing_settings(row, table))


def is_unequal_work(row: pd.Series) -> bool:
    """Tell whether a row's edges per batch are too far from those of its reference."""
    return bool(abs(row["edges_difference"]) > EQUAL_WORK_TOLERANCE)


def _differing_settings(row: pd.Series, table: pd.DataFrame) -> list[str]:
    """Name the settings in which the rows of this data set are not all alike."""
    same = table[(table["dataset"] == row["dataset"]) & (table["checksum"] == row["checksum"])]
    notes = []
    common = common_settings(same)
    for key, value in row["config"].items():
        if key not in common and key != "workers":
            notes.append(f"{key} {plain(value)}")
    alike = same[(same["name"] == row["name"]) & (same["form"] == row["form"])]
    for column in ("version", "device", "settings"):
        if alike[column].nunique() > 1:
            value = row[column]
            if column == "settings":
                pairs = json.loads(value).items()
                value = ", ".join(f"{key} {plain(item)}" for key, item in pairs) or "none"
            notes.append(f"{column}: {value}")
    return notes


def common_settings(table: pd.DataFrame) -> dict[str, object]:
    """Return the settings, workers apart, that all rows of ``table`` have in common."""
    configs = list(table["config"])
    return {
        key: value
        for key, value in configs[0].items()
        if key != "workers" and all(key in one and one[key] == value for one in configs)
    }


def bar_parts(row: pd.Series) -> dict[str, float]:
    """Split an epoch into the seconds that each stage adds to it.

    Batch preparation and transfer add their exposed waits; training adds its work, since the
    epoch consists of computing and of waiting. Stages that were not measured are 0, so their
    time is in what the parts leave of the epoch.
    """
    parts = {
        "batch preparation": row["batch_preparation_exposed_seconds_mean"],
        "transfer": row["transfer_exposed_seconds_mean"],
        "training": row["training_work_seconds_mean"],
    }
    return {name: 0.0 if math.isnan(value) else value for name, value in parts.items()}


def warnings(runs: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Return what a reader must know before comparing the rows of one data set.

    Parameters
    ----------
    runs, table : DataFrame
        The runs of one data set, and their rows of ``epoch_breakdown``.
    """
    texts = []
    measured = runs[runs["status"] == "ok"]
    machines = sorted(measured["machine"].unique())
    if len(machines) > 1:
        texts.append(f"mixed machines, times are not comparable: {' | '.join(machines)}")
    commits = sorted(str(commit)[:12] for commit in measured["commit"].dropna().unique())
    if len(commits) > 1:
        texts.append(f"runs of several commits: {', '.join(commits)}")
    changed = int((measured["dirty"] == True).sum())  # noqa: E712 - the column may hold None
    if changed:
        texts.append(f"{changed} of {len(measured)} runs from a dirty commit (uncommitted changes)")
    unknown = int(measured["commit"].isna().sum())
    if unknown:
        texts.append(f"{unknown} of {len(measured)} runs from an unknown commit")
    few = table[(table["status"] == "ok") & (table["repeats"] < MIN_REPEATS)]
    if len(few):
        names = ", ".join(f"{row['name']} ({row['repeats']})" for _, row in few.iterrows())
        texts.append(f"fewer than {MIN_REPEATS} repeats: {names}")
    return texts


def footnotes(table: pd.DataFrame) -> list[str]:
    """Return what the columns of ``display`` mean, for the rows of one data set."""
    texts = [
        "Seconds per epoch: mean ± sample standard deviation over the repeats, each the mean of "
        "its epochs after the warm-up; test accuracy likewise over seeds.",
        "Work is what a stage took wherever it ran, exposed is how long the computation stood "
        "still for it.",
        f"Unequal work: edges per batch differ from the reference by more than "
        f"{100 * EQUAL_WORK_TOLERANCE:.0f} %.",
    ]
    references = [name for name in table["reference"].unique() if name]
    if references:
        texts.append(f"Speed-up is over classic PyG: {'; '.join(references)}.")
    lacking = table[(table["status"] == "ok") & (table["reference"] == "")]
    if len(lacking):
        texts.append(
            f"Speed-up n/a: the results hold no successful run of classic PyG "
            f"({REFERENCE_SYSTEM}) with the same workload and device."
        )
    return texts


def display(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``epoch_breakdown`` as the texts that people read."""
    return pd.DataFrame([_display_row(row) for _, row in table.iterrows()])


def _display_row(row: pd.Series) -> dict[str, str]:
    ok = row["status"] == "ok"

    def spread(name: str, missing: str = "not measured") -> str:
        if not ok:
            return "n/a"
        return format_spread(row[f"{name}_mean"], row[f"{name}_sd"], missing)

    def count(name: str) -> str:
        if not ok:
            return "n/a"
        return "not measured" if math.isnan(row[name]) else f"{row[name]:,.0f}"

    return {
        "system": row["name"],
        "form": row["form"],
        "workers": plain(row["workers"]),
        "epoch (s)": spread("epoch_seconds"),
        "batch preparation: work (s)": spread("batch_preparation_work_seconds"),
        "batch preparation: exposed (s)": spread("batch_preparation_exposed_seconds"),
        "transfer: work (s)": spread("transfer_work_seconds"),
        "transfer: exposed (s)": spread("transfer_exposed_seconds"),
        "training (s)": spread("training_work_seconds"),
        "nodes per batch": count("nodes_per_batch"),
        "edges per batch": count("edges_per_batch"),
        "speed-up over PyG": "n/a" if math.isnan(row["speedup"]) else f"{row['speedup']:.2f}",
        "test accuracy": spread("test_accuracy"),
        "repeats": str(row["repeats"]),
        "notes": row["notes"],
    }
