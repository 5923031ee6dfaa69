"""How results look: one colour and hatch per stage, and how numbers are written.

May import: standard library only.
"""

from __future__ import annotations

import math

# Okabe and Ito's colours: apart for the colour-blind, and the hatches keep them apart in grey.
STAGE_COLOURS = {
    "batch preparation": "#0072B2",
    "transfer": "#E69F00",
    "training": "#009E73",
    "other": "#D9D9D9",
}
STAGE_HATCHES = {
    "batch preparation": "///",
    "transfer": "xxx",
    "training": "",
    "other": "...",
}
STAGE_LABELS = {
    "batch preparation": "batch preparation (exposed wait)",
    "transfer": "transfer (exposed wait)",
    "training": "training",
    "other": "other, or not measured",
}
# A system keeps its colour and marker in every figure.
SYSTEM_COLOURS = {
    "salient": "#D55E00",
    "pyg_classic": "#0072B2",
    "pyg": "#56B4E9",
    "dgl": "#009E73",
    "torch.index_select": "#0072B2",
}
SYSTEM_MARKERS = {"salient": "o", "pyg_classic": "s", "pyg": "D", "dgl": "^"}
SPARE_TEXT_COLOUR = "#555555"

FIGURE_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # text stays text
}


def format_mean(mean: float) -> str:
    """Write a mean with four digits, or with its whole part where that is longer."""
    return f"{mean:.{_decimals(mean)}f}"


def format_spread(mean: float, sd: float, missing: str = "not measured") -> str:
    """Write ``mean ± sd`` with the same decimals, ``missing`` for a NaN mean."""
    if math.isnan(mean):
        return missing
    spread = "n/a" if math.isnan(sd) else f"{sd:.{_decimals(mean)}f}"
    return f"{format_mean(mean)} ± {spread}"


def _decimals(mean: float) -> int:
    return 4 if abs(mean) < 1 else max(0, 3 - math.floor(math.log10(abs(mean))))


def plain(value: object) -> str:
    """Write a setting as people do: 15,10,5 and not [15, 10, 5]; n/a for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    if isinstance(value, list):
        return ",".join(plain(item) for item in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
