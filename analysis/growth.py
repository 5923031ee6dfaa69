"""How cost grows: nanoseconds per sampled edge or sliced byte, from growth records to a figure.

May import: ``salient.records``, ``analysis.style``; matplotlib, pandas.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.style import FIGURE_RC, SPARE_TEXT_COLOUR, SYSTEM_COLOURS, SYSTEM_MARKERS
from salient.records import Record

GROWTH = "growth"

_PANELS = {
    "edges": ("directed edges of the graph", "ns per sampled edge"),
    "fanout": ("fanout of a single hop", "ns per sampled edge"),
    "batch_size": ("seeds per batch", "ns per sampled edge"),
    "rows": ("rows of the table", "ns per sliced byte"),
}


def growth_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per system and cell of the growth records.

    Returns
    -------
    DataFrame
        ``axis``, ``value``, ``system``, ``label``, ``form``, ``status``, ``reason``, median
        ``seconds`` per batch with ``low`` and ``high`` quartile, ``edges`` per batch, ``cost``
        (nanoseconds per sampled edge, or per byte on the axis ``rows``), ``bytes`` of the graph or
        table, and ``caches`` of the machine.
    """
    rows = []
    for record in records:
        if record.experiment != GROWTH:
            continue
        config = record.config
        seconds = record.samples[0].values if record.samples else []
        low, middle, high = (
            statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [float("nan")] * 3
        )
        edges = record.work.edges_per_batch if record.work else None
        if config["axis"] == "rows":
            work = (record.work.nodes_per_batch if record.work else None) or float("nan")
            work *= float(str(config["row_bytes"]))
            size = float(str(config["value"])) * float(str(config["row_bytes"]))
        else:
            work = edges or float("nan")
            size = float(str(config["graph_bytes"]))
        machine = record.environment.get("machine")
        caches = machine.get("cache_bytes") if isinstance(machine, dict) else None
        rows.append(
            {
                "axis": config["axis"],
                "value": config["value"],
                "system": record.system.name,
                "label": record.system.label,
                "form": record.system.form,
                "status": record.status,
                "reason": record.reason,
                "seconds": middle,
                "low": low,
                "high": high,
                "edges": edges,
                "cost": middle / work * 1e9,
                "bytes": size,
                "caches": caches or {},
            }
        )
    return pd.DataFrame(rows)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return cost by axis and value, one column per system; "n/a" where it was not measured."""
    order = {axis: number for number, axis in enumerate(_PANELS)}
    wide = frame.pivot_table(
        index=["axis", "value"], columns="label", values="cost", aggfunc="median", sort=False
    ).reset_index()
    wide["value_order"] = wide["value"].where(wide["value"] >= 0, 10**9)  # -1 means all
    wide["axis_order"] = wide["axis"].map(order)
    wide = wide.sort_values(["axis_order", "value_order"]).drop(
        columns=["axis_order", "value_order"]
    )
    for column in wide.columns[2:]:
        wide[column] = wide[column].map(lambda cost: "n/a" if pd.isna(cost) else f"{cost:.3g}")
    units = wide["axis"].map({axis: unit for axis, (_, unit) in _PANELS.items()})
    wide.insert(2, "unit", units)
    return wide.astype({"value": str})


def draw(frame: pd.DataFrame) -> Figure:
    """Return a figure of one panel per axis: cost against value, one line per system."""
    with mpl.rc_context(FIGURE_RC):
        figure = Figure(figsize=(9.5, 7.2), dpi=150, layout="constrained")
        panels = figure.subplots(2, 2)
        for axes, axis in zip(panels.flat, _PANELS, strict=True):
            _draw_panel(axes, axis, frame[frame["axis"] == axis])
        handles: dict[str, Artist] = {}
        for axes in panels.flat:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    return figure


def _draw_panel(axes: Axes, axis: str, rows: pd.DataFrame) -> None:
    x_label, y_label = _PANELS[axis]
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if rows["cost"].notna().sum() == 0:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        return
    values = sorted(rows["value"].unique(), key=lambda value: (value < 0, value))
    by_place = axis == "fanout"  # "all" has no place on a scale of numbers
    for label, own in rows.groupby("label", sort=False):
        system = own["system"].iloc[0]
        own = own.set_index("value").loc[[v for v in values if v in set(own["value"])]]
        x = [values.index(value) for value in own.index] if by_place else list(own.index)
        axes.plot(
            x,
            own["cost"],
            marker=SYSTEM_MARKERS.get(system, "o"),
            color=SYSTEM_COLOURS.get(system, "#555555"),
            label=label,
            markersize=5,
        )
    axes.set_yscale("log")
    if by_place:
        axes.set_xticks(range(len(values)), ["all" if v < 0 else str(v) for v in values])
    else:
        axes.set_xscale("log")
    axes.grid(axis="y", which="major", linewidth=0.4, color="#D9D9D9")
    if axis in ("edges", "rows"):
        _mark_caches(axes, rows)


def _mark_caches(axes: Axes, rows: pd.DataFrame) -> None:
    """Mark where the data read at random outgrows each cache."""
    per_unit = (rows["bytes"] / rows["value"]).median()
    low, high = axes.get_xlim()
    for level, size in rows["caches"].iloc[0].items():
        place = size / per_unit
        if low < place < high:
            axes.axvline(place, color=SPARE_TEXT_COLOUR, linewidth=0.8, linestyle=":")
            axes.text(
                place, 0.99, f" {level}", transform=axes.get_xaxis_transform(), va="top",
                color=SPARE_TEXT_COLOUR,
            )  # fmt: skip
