"""How a cost grows: what a series of measurements is, before and after it was measured.

Needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.harness import Effort

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """What was measured at one size: the median of the rounds, with the least and the greatest."""

    x: float
    median: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Line:
    """One way of doing it, over all sizes; ``reference``: what the others are compared with."""

    label: str
    points: tuple[Point, ...]
    reference: bool = False


@dataclass(frozen=True)
class Growth:
    """One plot.

    Attributes:
        name: what ``--case`` calls it, and the file of its plot.
        title: what is measured, in words.
        x: what grows, in words.
        y: what is measured, with its unit.
        durable: whether commits wait for the disk.
        measure: measures all lines, with the effort there is, and removes what it made.
        note: what a reader has to know to read the plot.
        logarithmic: whether both axes are.
    """

    name: str
    title: str
    x: str
    y: str
    durable: bool
    measure: Callable[[Effort, Progress], tuple[Line, ...]]
    note: str = ""
    logarithmic: bool = True


@dataclass(frozen=True)
class Curve:
    """A growth that was measured."""

    growth: Growth
    lines: tuple[Line, ...]

    def fields(self) -> dict[str, Any]:
        """All of it for JSON."""
        growth = self.growth
        told = ("name", "title", "x", "y", "note", "logarithmic")
        return {
            **{name: getattr(growth, name) for name in told},
            "lines": [asdict(line) for line in self.lines],
        }


def line_of(fields: Mapping[str, Any]) -> Line:
    """What was written as JSON, as it was."""
    points = tuple(Point(**point) for point in fields["points"])
    return Line(fields["label"], points, fields["reference"])


def table(curve: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The figures of a curve, as `Curve.fields` gives it: the head, then a row for each size."""
    lines = [line_of(line) for line in curve["lines"]]
    sizes = sorted({point.x for line in lines for point in line.points})
    head = (curve["x"], *(_named(line) for line in lines))
    return [head, *((figure(x), *(_cell(line.points, x) for line in lines)) for x in sizes)]


def figure(number: float) -> str:
    """A number with about three digits that count; whole ones in full."""
    if number == round(number) or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:.3g}"


def _named(line: Line) -> str:
    return f"{line.label} (reference)" if line.reference else line.label


def _cell(points: Sequence[Point], x: float) -> str:
    for point in points:
        if point.x == x:
            span = f" ({figure(point.least)} to {figure(point.greatest)})"
            return figure(point.median) + ("" if point.least == point.greatest else span)
    return ""
