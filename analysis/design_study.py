"""The sampler design study: records to data frames, and those to texts.

May import: ``analysis.load``, ``analysis.style``, ``salient.records``; numpy, pandas.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from analysis.load import machine_of
from analysis.style import format_mean
from salient.records import Record

SAMPLER_DESIGN = "sampler_design"
FLOOR = "floor"
REFERENCE_SYSTEM = "pyg_classic"
SHIPPING_SYSTEM = "salient"
SESSION_KEYS = ["dataset", "checksum", "config_text"]

# Each choice's values from the plainest, which the others are compared with, to the most refined.
CHOICES = {
    "table": ["std::unordered_map", "Swiss table", "open addressing", "dense array"],
    "check": ["hash set", "linear scan", "branch-free scan", "bitmap"],
    "drawing": ["reservoir", "Fisher-Yates", "Floyd", "Floyd, 8 nodes at once"],
    "construction": ["fused", "blocked"],
    "memory": ["fresh", "reused"],
    "prefetch": ["no prefetch", "prefetch"],
    "ids": ["int64", "int32"],
}
CHOICE_TITLES = {
    "table": "relabelling table",
    "check": "duplicate check",
    "drawing": "drawing",
    "construction": "construction",
    "memory": "table's memory",
    "prefetch": "software prefetch",
    "ids": "id width",
}
# Only Floyd's rule needs a check, so drawings are compared through this one.
_COMMON_CHECK = "branch-free scan"
_CHECK_NOT_NEEDED = "not needed"


def design_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per session and system of the design study and of the floor.

    Parameters
    ----------
    records : iterable of Record
        Those of other experiments are left out. Values of repeated runs are taken together.

    Returns
    -------
    DataFrame
        ``SESSION_KEYS``, ``system``, ``label``, a column per choice (empty where it does not
        apply), ``status``, ``reason``, ``seconds`` (median over the rounds), ``low`` and
        ``high`` (least and largest), ``rounds``, ``nodes_per_batch``, ``edges_per_batch``,
        ``terms`` (the floor's parts, seconds by name), ``machine``.
    """
    kept = [one for one in records if one.experiment in (SAMPLER_DESIGN, FLOOR)]
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in kept:
        groups.setdefault((*_session(record), record.system.name), []).append(record)
    return pd.DataFrame([_row(group) for group in groups.values()])


def _session(record: Record) -> tuple[str, str, str]:
    config = {key: value for key, value in record.config.items() if key != "workload"}
    return record.dataset.name, record.dataset.checksum, json.dumps(config, sort_keys=True)


def _row(records: list[Record]) -> dict[str, object]:
    measured = [record for record in records if record.status == "ok"]
    last = (measured or records)[-1]
    values = [
        value
        for record in measured
        for sample in record.samples
        if sample.name == "batch"
        for value in sample.values
    ]
    dataset, checksum, config = _session(last)
    work = last.work
    return {
        "dataset": dataset,
        "checksum": checksum,
        "config_text": config,
        "num_nodes": last.dataset.num_nodes,
        "num_edges": last.dataset.num_edges,
        "system": last.system.name,
        "label": last.system.label,
        **{choice: str(last.system.settings.get(choice, "")) for choice in CHOICES},
        "status": last.status,
        "reason": last.reason,
        "seconds": float(np.median(values)) if values else math.nan,
        "low": min(values, default=math.nan),
        "high": max(values, default=math.nan),
        "rounds": len(values),
        "nodes_per_batch": math.nan if work is None else work.nodes_per_batch,
        "edges_per_batch": math.nan if work is None else work.edges_per_batch,
        "terms": {
            sample.name.removeprefix("least: "): sample.values[0]
            for sample in last.samples
            if sample.name.startswith("least: ")
        },
        "machine": machine_of(last),
    }


def variants(session: pd.DataFrame) -> pd.DataFrame:
    """Return the measured variants of one session, slowest first, with their ``speedup``.

    The speed-up is over PyG's classic sampler, or over the slowest variant where that was not
    measured; ``reference`` says which.
    """
    rows = session[(session["table"] != "") & session["seconds"].notna()]
    rows = rows.sort_values(["seconds", "system"], ascending=[False, True])
    reference = seconds_of(session, REFERENCE_SYSTEM)
    name = "PyG's classic sampler"
    if math.isnan(reference):
        reference, name = float(rows["seconds"].max()), "the slowest variant (PyG: not measured)"
    return rows.assign(speedup=reference / rows["seconds"], reference=name)


def seconds_of(session: pd.DataFrame, system: str) -> float:
    """Return a system's median seconds per batch, NaN if it was not measured."""
    found = session.loc[session["system"] == system, "seconds"].dropna()
    return float(found.iloc[0]) if len(found) else math.nan


def effects(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each choice does by itself, over pairs that differ in nothing else.

    Parameters
    ----------
    rows : DataFrame
        As from ``variants``.

    Returns
    -------
    DataFrame
        One row per value but the plainest of each choice: ``choice``, ``value``,
        ``instead_of``, ``faster`` (geometric mean of the ratios of times; above 1 the value is
        faster), ``least``, ``most``, ``pairs``, and ``at_the_fastest``, the ratio of the pair
        whose other choices are those of the fastest variant (NaN if there is no such pair).
    """
    found = []
    fastest = rows.loc[rows["seconds"].idxmin()]
    for choice, values in CHOICES.items():
        own = rows
        others = [other for other in CHOICES if other != choice]
        if choice == "drawing":
            own = rows[rows["check"].isin([_COMMON_CHECK, _CHECK_NOT_NEEDED])]
            others.remove("check")
        times = own.pivot_table(index=others, columns=choice, values="seconds")
        for value in values[1:]:
            if value not in times or values[0] not in times:
                continue
            ratios = (times[values[0]] / times[value]).dropna()
            if ratios.empty:
                continue
            place = tuple(fastest[other] for other in others)
            found.append(
                {
                    "choice": CHOICE_TITLES[choice],
                    "value": value,
                    "instead_of": values[0],
                    "faster": float(np.exp(np.log(ratios).mean())),
                    "least": float(ratios.min()),
                    "most": float(ratios.max()),
                    "pairs": len(ratios),
                    "at_the_fastest": float(ratios.get(place, math.nan)),
                }
            )
    return pd.DataFrame(found)


def sections(session: pd.DataFrame) -> list[tuple[str, pd.DataFrame | str]]:
    """Return titled texts and tables, as texts, that tell what one session found."""
    rows = variants(session)
    reference = float(rows["speedup"].iloc[0] * rows["seconds"].iloc[0])
    best, worst = rows.iloc[-1], rows.iloc[0]
    settings = json.loads(str(best["config_text"]))
    lines = [
        f"Fanouts {','.join(map(str, settings['fanouts']))}, batch size "
        f"{settings['batch_size']}, one thread; {best['num_nodes']:,} nodes and "
        f"{best['num_edges']:,} edges. Machine: {best['machine']}.",
        f"Times are medians over rounds in which the variants take turns on the same batches. "
        f"Fastest variant: {best['label']}; slowest: {worst['label']}.",
    ]
    for _, row in session[session["status"] != "ok"].drop_duplicates("reason").iterrows():
        count = int((session["reason"] == row["reason"]).sum())
        lines.append(f"Not measured: {row['table'] or row['label']} ({count}), {row['reason']}.")
    floor = seconds_of(session, FLOOR)
    table = []
    for name in (REFERENCE_SYSTEM, worst["system"], best["system"], SHIPPING_SYSTEM, FLOOR):
        row = session[session["system"] == name]
        if len(row) and not math.isnan(row.iloc[0]["seconds"]):
            table.append(_summary(row.iloc[0], reference, floor))
    parts: list[tuple[str, pd.DataFrame | str]] = [
        ("", "\n\n".join(lines)),
        (f"Milliseconds per batch; speed-up over {rows['reference'].iloc[0]}", pd.DataFrame(table)),
        ("Each choice's own effect", _effects_text(effects(rows))),
    ]
    terms = session.loc[session["system"] == FLOOR, "terms"]
    if len(terms):
        parts.append(("What the floor is made of", _terms_text(terms.iloc[0])))
    return parts


def _summary(row: pd.Series, reference: float, floor: float) -> dict[str, str]:
    edges = row["edges_per_batch"]
    return {
        "sampler": row["label"],
        "ms per batch": format_mean(1000 * row["seconds"]),
        "least to most": f"{format_mean(1000 * row['low'])} to {format_mean(1000 * row['high'])}",
        "speed-up": f"{reference / row['seconds']:.1f}",
        "times the floor": "n/a" if math.isnan(floor) else f"{row['seconds'] / floor:.1f}",
        "edges per batch": "n/a" if math.isnan(edges) else f"{edges:,.0f}",
        "million edges/s": "n/a" if math.isnan(edges) else f"{edges / row['seconds'] / 1e6:.1f}",
    }


def _effects_text(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "choice": row["choice"],
            "value": row["value"],
            "instead of": row["instead_of"],
            "times faster": f"{row['faster']:.2f}",
            "least to most": f"{row['least']:.2f} to {row['most']:.2f}",
            "pairs": str(row["pairs"]),
            "beside the fastest variant": "n/a"
            if math.isnan(row["at_the_fastest"])
            else f"{row['at_the_fastest']:.2f}",
        }
        for _, row in table.iterrows()
    )


def _terms_text(terms: dict[str, float]) -> pd.DataFrame:
    values = itertools.chain(terms.items(), [("sum", math.fsum(terms.values()))])
    return pd.DataFrame(
        {"part": name, "milliseconds": f"{1000 * seconds:.2f}"} for name, seconds in values
    )
