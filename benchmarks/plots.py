"""Plots of how costs grow, as SVG: the same figures give the same bytes, and text stays text."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from benchmarks.page import figure, label, words

# Without a salt names of clip paths are drawn at random.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "django_counters",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # the one that places are calculated with; it comes along
    "font.size": 9.0,
}
# Told apart also by those who see no red and green (Okabe and Ito, https://jfly.uni-koeln.de/color/).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP"
REFERENCE = "#555555"

Fields = Mapping[str, Any]


def growth(curve: Fields) -> str:
    """The lines of a growth over both logarithms; what others are compared with is dashed."""
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(9, 4.2), layout="constrained")
        axis = drawing.subplots()
        for line, colour, marker in zip(curve["lines"], COLOURS, MARKERS, strict=False):
            x, median, least, greatest = (
                [point[name] for point in line["points"]]
                for name in ("x", "median", "least", "greatest")
            )
            drawn, dashes = (REFERENCE, "--") if line["reference"] else (colour, "-")
            axis.fill_between(x, least, greatest, color=drawn, alpha=0.15, linewidth=0)
            axis.plot(x, median, f"{dashes}{marker}", color=drawn, markersize=4, label=label(line))
        # A tail of nothing has a place too.
        axis.set_xscale("symlog" if 0 in x else "log")
        axis.set_xticks(x, [figure(size) for size in x])
        axis.set_yscale("log")
        axis.set(xlabel=curve["x"], ylabel=curve["y"], title=curve["title"])
        # Numbers instead of powers; also within one power of ten.
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda number, _: figure(number)))
        axis.minorticks_off()
        axis.grid(color="#dddddd", linewidth=0.6)
        # Beside the lines: in the plot it would hide some of them.
        drawing.legend(loc="outside right upper", fontsize=8)
        text = StringIO()
        # No date, no version of what draws, no indentation: the same figures give the same file.
        metadata = {"Date": None, "Creator": None, "Title": words(curve)}
        drawing.savefig(text, format="svg", facecolor="white", metadata=metadata)
    return "\n".join(line.strip() for line in text.getvalue().splitlines()) + "\n"
