"""The paper's Figure 2: variants of the sampler by speed, with the choices that each made.

May import: ``analysis.design_study``, ``analysis.style``; matplotlib, numpy, pandas.
"""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from analysis.design_study import (
    CHOICE_TITLES,
    CHOICES,
    FLOOR,
    REFERENCE_SYSTEM,
    SHIPPING_SYSTEM,
    seconds_of,
    variants,
)
from analysis.style import FIGURE_RC, format_mean

# Okabe and Ito's colours: the tables', above and in the matrix, and one for each other choice.
_TABLE_COLOURS = dict(
    zip(CHOICES["table"], ["#D55E00", "#E69F00", "#56B4E9", "#0072B2"], strict=True)
)
_CHOICE_COLOURS = {
    "table": "#000000",
    "check": "#CC79A7",
    "drawing": "#009E73",
    "construction": "#6A4C93",
    "memory": "#8C6D00",
    "prefetch": "#444444",
    "ids": "#7F7F7F",
}


def draw(session: pd.DataFrame) -> Figure:
    """Draw all variants of one session by speed, with their choices below.

    Returns
    -------
    Figure
        Two Axes: speed-up (logarithmic) over rank, with lines for the reference, the shipping
        sampler and the floor; and a matrix whose cells mark each variant's choices.
    """
    rows = variants(session)
    with mpl.rc_context(FIGURE_RC):
        figure = Figure(figsize=(10, 8.2), dpi=200, layout="constrained")
        speeds, matrix = figure.subplots(2, 1, sharex=True, height_ratios=[1.15, 1])
        _draw_speeds(speeds, rows, session)
        _draw_matrix(matrix, rows)
        first = rows.iloc[0]
        speeds.set_title(
            f"{len(rows)} variants of the sampler on {first['dataset']} "
            f"({first['num_nodes']:,} nodes, {first['num_edges']:,} edges), one thread",
            loc="left",
            fontweight="bold",
            pad=24,  # the legend stands between
            parse_math=False,
        )
    return figure


def _draw_speeds(axes: Axes, rows: pd.DataFrame, session: pd.DataFrame) -> None:
    reference = float(rows["speedup"].iloc[0] * rows["seconds"].iloc[0])
    ranks = np.arange(len(rows))
    for table, colour in _TABLE_COLOURS.items():
        own = (rows["table"] == table).to_numpy()
        if not own.any():
            continue
        part = rows[own]
        axes.vlines(
            ranks[own], reference / part["high"], reference / part["low"], color=colour, alpha=0.3
        )
        axes.scatter(ranks[own], part["speedup"], s=9, color=colour, label=table, zorder=3)
    axes.set_yscale("log")
    axes.set_ylabel(f"times as fast as\n{rows['reference'].iloc[0]}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _times(value)))
    for name, text, style in (
        (REFERENCE_SYSTEM, "PyG classic", "-"),
        (SHIPPING_SYSTEM, "shipping sampler", "--"),
        (FLOOR, "floor of the machine", ":"),
    ):
        seconds = seconds_of(session, name)
        if math.isnan(seconds):
            continue
        axes.axhline(reference / seconds, color="black", linewidth=1, linestyle=style, zorder=1)
        axes.annotate(
            f"{text}: {format_mean(1000 * seconds)} ms, {_times(reference / seconds)}",
            (0, reference / seconds),
            xytext=(2, 3),
            textcoords="offset points",
        )
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, markerscale=2)
    axes.margins(x=0.005, y=0.1)
    axes.grid(axis="y", which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _times(value: float) -> str:
    return f"{value:.4g}\N{MULTIPLICATION SIGN}"


def _draw_matrix(axes: Axes, rows: pd.DataFrame) -> None:
    lines = [(choice, value) for choice, values in CHOICES.items() for value in values]
    # White where a value was not chosen, else the colour of the line.
    chosen = [(rows[choice] == value).to_numpy() for choice, value in lines]
    colours = [_TABLE_COLOURS.get(value, _CHOICE_COLOURS[choice]) for choice, value in lines]
    axes.pcolormesh(
        np.arange(len(rows) + 1) - 0.5,
        np.arange(len(lines) + 1) - 0.5,
        np.array([own * number for number, own in enumerate(chosen, start=1)]),
        cmap=ListedColormap(["#F4F4F4", *colours]),
        vmin=0,
        vmax=len(lines),
        rasterized=True,
    )
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [value for _, value in lines], fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("variants, slowest to fastest")
    start = 0
    for choice, values in CHOICES.items():
        axes.axhline(start - 0.5, color="white", linewidth=4)
        axes.annotate(
            "\n".join(CHOICE_TITLES[choice].split(" ", 1)),
            (1.004, start + len(values) / 2 - 0.5),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=7.5,
            color=_CHOICE_COLOURS[choice],
        )
        start += len(values)
    for line in range(len(lines) + 1):
        axes.axhline(line - 0.5, color="white", linewidth=0.8)
    for spine in axes.spines.values():
        spine.set_visible(False)
