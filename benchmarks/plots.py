"""Plots as SVG: the same bytes for the same figures, and text that stays text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.curves import Line, figure, line_of

OVERVIEW = "targets"
# Without a salt names of clip paths are drawn at random.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "django_counters",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # the one that places are calculated with; it comes along
    "font.size": 9.0,
    "path.simplify": True,
}
# Told apart also by those who see no red and green (Okabe and Ito, https://jfly.uni-koeln.de/color/).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP"
REFERENCE = "#555555"
MET, MISSED = COLOURS[0], COLOURS[1]
MANY = 15  # sizes; above it they are no longer marked one by one
Rows = Sequence[Mapping[str, Any]]


def files(rows: Rows, curves: Rows) -> dict[str, str]:
    """All plots by the name of their file."""
    found = {f"{curve['name']}.svg": growth(curve) for curve in curves}
    return ({f"{OVERVIEW}.svg": overview(rows)} if judged(rows) else {}) | found


def judged(rows: Rows) -> Rows:
    """The rows that have a target."""
    return [row for row in rows if row["met"] is not None]


def overview_words(rows: Rows) -> str:
    """The overview, for those who do not see it."""
    found = judged(rows)
    met = sum(row["met"] for row in found)
    return f"The ratio of each row beside its target: {met} of {len(found)} targets are met"


def curve_words(curve: Mapping[str, Any]) -> str:
    """A plot, for those who do not see it."""
    labels = ", ".join(line["label"] for line in curve["lines"])
    return f"{curve['title']}: {curve['y']} over {curve['x']}, for {labels}"


def overview(rows: Rows) -> str:
    """All rows with a target: the median, from the least to the greatest, and the target."""
    kinds = {"at least": "the more, the better", "at most": "the less, the better"}
    parts = {kind: [row for row in judged(rows) if row["target_type"] == kind] for kind in kinds}
    parts = {kind: found for kind, found in parts.items() if found}
    heights = [len(found) + 2 for found in parts.values()]
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(8, 1.2 + 0.21 * sum(heights)), layout="constrained")
        drawing.suptitle("Ratios beside their targets")
        axes = drawing.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, (kind, found) in zip(axes, parts.items(), strict=True):
            _ratios(axis, found)
            axis.set_title(f"{kinds[kind]} (a target is {kind} so much)", fontsize=9)
        return _svg(drawing, overview_words(rows))


def _ratios(axis: Axes, rows: Rows) -> None:
    places = range(len(rows))
    for met, colour, marker in ((True, MET, "o"), (False, MISSED, "X")):
        mine = [place for place in places if rows[place]["met"] is met]
        least, greatest = ([rows[place][name] for place in mine] for name in ("min", "max"))
        axis.hlines(mine, least, greatest, color=colour, linewidth=1.5)
        ratios = [rows[place]["ratio"] for place in mine]
        label = "met" if met else "missed"
        axis.scatter(ratios, mine, color=colour, marker=marker, s=22, label=label, zorder=3)
    targets = [row["target"] for row in rows]
    axis.scatter(targets, places, color="black", marker="|", s=80, label="target", zorder=4)
    axis.set_yticks(list(places), [row["case"] for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xscale("log")
    _plain_logarithm(axis, "x")
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.legend(loc="best", fontsize=8)


def growth(curve: Mapping[str, Any]) -> str:
    """The lines of a growth; the one that the others are compared with is dashed."""
    lines = [line_of(fields) for fields in curve["lines"]]
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(9, 4.2), layout="constrained")
        axis = drawing.subplots()
        for number, line in enumerate(lines):
            _line(axis, line, number)
        axis.set_title(textwrap.fill(curve["title"], 80), fontsize=10)
        axis.set_xlabel(curve["x"])
        axis.set_ylabel(curve["y"])
        _scales(axis, lines, curve["logarithmic"])
        axis.grid(color="#dddddd", linewidth=0.6)
        # Beside the lines: in the plot it would hide some of them.
        drawing.legend(loc="outside right upper", fontsize=8)
        return _svg(drawing, curve_words(curve))


def _line(axis: Axes, line: Line, number: int) -> None:
    sizes = [point.x for point in line.points]
    colour = REFERENCE if line.reference else COLOURS[number % len(COLOURS)]
    least, greatest = ([getattr(p, name) for p in line.points] for name in ("least", "greatest"))
    axis.fill_between(sizes, least, greatest, color=colour, alpha=0.15, linewidth=0)
    axis.plot(
        sizes,
        [point.median for point in line.points],
        color=colour,
        linestyle="--" if line.reference else "-",
        marker=None if len(sizes) > MANY else MARKERS[number % len(MARKERS)],
        markersize=4,
        label=f"{line.label} (reference)" if line.reference else line.label,
    )


def _scales(axis: Axes, lines: Sequence[Line], logarithmic: bool) -> None:
    points = [point for line in lines for point in line.points]
    if not logarithmic or not points:
        axis.set_ylim(bottom=0)
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(FuncFormatter(lambda number, _: figure(number)))
        return
    sizes = sorted({point.x for point in points})
    # A tail of nothing has a place too.
    axis.set_xscale("symlog", linthresh=1) if sizes[0] == 0 else axis.set_xscale("log")
    if len(sizes) <= MANY:
        axis.set_xticks(sizes, [figure(size) for size in sizes])
        axis.xaxis.set_minor_locator(NullLocator())
    if min(point.least for point in points) > 0:
        axis.set_yscale("log")
        _plain_logarithm(axis, "y")


def _plain_logarithm(axis: Axes, which: str) -> None:
    """Numbers instead of powers; also within one power of ten."""
    scale = axis.xaxis if which == "x" else axis.yaxis
    scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    scale.set_major_formatter(FuncFormatter(lambda number, _: figure(number)))
    scale.set_minor_formatter(NullFormatter())


def _svg(drawing: Figure, words: str) -> str:
    """No date, no version of what draws: the same figures give the same file. No indentation."""
    text = StringIO()
    metadata = {"Date": None, "Creator": None, "Title": words}
    drawing.savefig(text, format="svg", facecolor="white", metadata=metadata)
    return "\n".join(line.strip() for line in text.getvalue().splitlines()) + "\n"
