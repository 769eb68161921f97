"""A line so small that it stands in a row of a table."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 96, 20
# So that the line is not cut off at its highest and lowest point.
_EDGE = 2


def sparkline(values: Sequence[int | None], label: str) -> SafeString:
    """An SVG of numbers at even distances; where one is not known, the line has not yet begun.

    ``label`` says it to those who do not see it. Nothing is drawn of a single number.
    """
    points = _points(values)
    if len(points) < 2:
        return SafeString("")
    return format_html(
        '<svg class="counters-sparkline" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" '
        'focusable="false" aria-label="{2}"><title>{2}</title><polyline points="{3}"/></svg>',
        str(WIDTH),
        str(HEIGHT),
        label,
        " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
    )


def _points(values: Sequence[int | None]) -> list[tuple[float, float]]:
    known = [value for value in values if value is not None]
    if not known:
        return []
    low, high = min(known), max(known)
    step = WIDTH / max(len(values) - 1, 1)
    return [
        (number * step, _height(value, low, high))
        for number, value in enumerate(values)
        if value is not None
    ]


def _height(value: int, low: int, high: int) -> float:
    """How far from the top a value stands; in the middle where all are the same."""
    if low == high:
        return HEIGHT / 2
    return _EDGE + (HEIGHT - 2 * _EDGE) * (high - value) / (high - low)
