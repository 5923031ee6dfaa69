"""Figures: a data frame of rows in, a matplotlib figure out, no files.

May import: ``analysis.style``, ``analysis.tables``; matplotlib, numpy, pandas.
"""

from __future__ import annotations

import math
import textwrap

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.style import (
    FIGURE_RC,
    SPARE_TEXT_COLOUR,
    STAGE_COLOURS,
    STAGE_HATCHES,
    STAGE_LABELS,
    format_mean,
    format_spread,
    plain,
)
from analysis.tables import DATASET_KEYS, bar_parts, is_unequal_work

_WIDTH_INCHES = 8.0
_ROW_INCHES = 0.42
_PANEL_INCHES = 0.85  # title and time axis
_LEGEND_INCHES = 0.75
_REASON_CHARACTERS = 88


def epoch_breakdown(table: pd.DataFrame) -> Figure:
    """Draw each row's epoch as a bar stacked from its stages, one panel per data set.

    Parameters
    ----------
    table : DataFrame
        As from ``analysis.tables.epoch_breakdown``.

    Returns
    -------
    Figure
        One Axes per data set, rows from top to bottom in the table's order. A bar is labelled
        with its container's label, the stage; a row without numbers has its reason as text.
    """
    panels = [panel for _, panel in table.groupby(DATASET_KEYS, sort=False)]
    heights = [_PANEL_INCHES + _ROW_INCHES * len(panel) for panel in panels]
    size = (_WIDTH_INCHES, sum(heights) + _LEGEND_INCHES)
    with mpl.rc_context(FIGURE_RC):
        figure = Figure(figsize=size, dpi=200, layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for one, panel in zip(axes, panels, strict=True):
            _draw_panel(one, panel)
        handles = [
            Patch(
                facecolor=STAGE_COLOURS[stage],
                hatch=STAGE_HATCHES[stage],
                edgecolor="black",
                linewidth=0.5,
                label=label,
            )
            for stage, label in STAGE_LABELS.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_panel(axes: Axes, panel: pd.DataFrame) -> None:
    positions = list(range(len(panel)))
    lefts = [0.0] * len(panel)
    parts = [_parts(row) for _, row in panel.iterrows()]
    for stage, colour in STAGE_COLOURS.items():
        widths = [part[stage] for part in parts]
        axes.barh(
            positions,
            widths,
            left=lefts,
            height=0.68,
            color=colour,
            hatch=STAGE_HATCHES[stage],
            edgecolor="black",
            linewidth=0.5,
            label=stage,
        )
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    longest = max([*lefts, *(panel["epoch_seconds_mean"] + panel["epoch_seconds_sd"]).dropna()])
    # Room at the right for the text behind the longest bar.
    axes.set_xlim(0, 1.36 * longest if longest > 0 else 1)
    for position, end, (_, row) in zip(positions, lefts, panel.iterrows(), strict=True):
        _annotate(axes, position, end, row)
    axes.set_yticks(positions, [_row_label(row) for _, row in panel.iterrows()], parse_math=False)
    axes.set_ylim(len(panel) - 0.5, -0.5)
    axes.set_xlabel("seconds per epoch")
    axes.set_title(panel["dataset"].iloc[0], loc="left", fontweight="bold", parse_math=False)


def _parts(row: pd.Series) -> dict[str, float]:
    """Seconds of each bar of a row; zeros for a row without numbers."""
    if math.isnan(row["epoch_seconds_mean"]):
        return dict.fromkeys(STAGE_COLOURS, 0.0)
    parts = bar_parts(row)
    parts["other"] = max(0.0, row["epoch_seconds_mean"] - sum(parts.values()))
    return parts


def _annotate(axes: Axes, position: int, end: float, row: pd.Series) -> None:
    """Write the epoch time behind the bar, or why there is none in its place."""
    mean, sd = row["epoch_seconds_mean"], row["epoch_seconds_sd"]
    if row["status"] != "ok":
        text = f"n/a: {' '.join('; '.join(row['problems']).split())}"
        text = textwrap.shorten(text, _REASON_CHARACTERS, placeholder=" \N{HORIZONTAL ELLIPSIS}")
        axes.annotate(
            text,
            (0, position),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=SPARE_TEXT_COLOUR,
            style="italic",
            parse_math=False,
        )
        return
    once = math.isnan(sd)
    text = f"{format_mean(mean) if once else format_spread(mean, sd)} s"
    if not math.isnan(row["speedup"]):
        text += f" ({row['speedup']:.1f}\N{MULTIPLICATION SIGN})"
    if once:
        text += "\none repeat"
    else:
        axes.errorbar(mean, position, xerr=sd, color="black", capsize=3, linewidth=1)
        end = max(end, mean + sd)
    if is_unequal_work(row):
        text += "\nunequal work"
    axes.annotate(text, (end, position), xytext=(5, 0), textcoords="offset points", va="center")


def _row_label(row: pd.Series) -> str:
    name = "\n".join(textwrap.wrap(row["name"], 32, break_on_hyphens=False))
    details = [row["form"]] if row["form"] else []
    if plain(row["workers"]) != "n/a":
        details.append(f"{plain(row['workers'])} workers")
    return f"{name}\n{', '.join(details)}" if details else name
