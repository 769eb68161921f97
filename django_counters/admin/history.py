"""How one counter went, as its page shows it: the question in the address, and the drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format, localize
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_counters import clock
from django_counters.exceptions import CounterError
from django_counters.read.chart import (
    ALL,
    OTHERS,
    WITHOUT,
    Chart,
    TagRow,
    charted,
    periods_of,
    tags_of,
)
from django_counters.read.people import people_of
from django_counters.templatetags.counters_admin import grouped

WIDTH, HEIGHT = 640, 220
_TOP, _BOTTOM = 24, 196
# Textures tell values apart where colours do not. The last two are not for values.
TEXTURES = (
    "",
    "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6",
    "M0,4 H8",
    "M4,0 V8",
    "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2",
    "M4,0 V8 M0,4 H8",
    "M1,2 H3 M5,6 H7",
    "M0,0 L8,8 M0,8 L8,0",
    "M0,2 H8 M0,6 H8",
    "M2,0 V8 M6,0 V8",
    "M0,1 H8 M0,5 H8 M2,1 V5 M6,5 V9",
    "M0,6 L4,2 L8,6",
)
_OF_OTHERS, _OF_WITHOUT = 10, 11
_FORMATS = {"hour": "SHORT_DATETIME_FORMAT", "month": "YEAR_MONTH_FORMAT"}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar; measures are texts, as no language may change their point."""

    x: str
    y: str
    width: str
    height: str
    texture: int
    title: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A line of the legend, which is a column of the table."""

    name: str
    texture: int
    total: int


def bars_of(found: Chart) -> dict[str, Any]:
    """All that the template draws; measures are those of the view box."""
    entries = [_entry(number, row) for number, row in enumerate(found.rows)]
    labels = [label_of(start, found.by) for start in found.starts]
    scale = _Scale.of(found)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "segments": list(_segments(found, entries, labels, scale)),
        "ground": scale.at(0),
        "lines": [(scale.at(amount), amount) for amount in dict.fromkeys((scale.high, scale.low))],
        "times": _times(labels),
        "textures": [(number, TEXTURES[number]) for number in sorted({e.texture for e in entries})],
        "entries": entries,
        "rows": _table(found, labels),
    }


def numbers_of(found: Chart) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "key": found.key,
        "by": found.by,
        "source": found.source,
        "split": found.split or None,
        "moments": [clock.meant(start).isoformat() for start in found.starts],
        "labels": [label_of(start, found.by) for start in found.starts],
        "values": list(found.values) or None,
        "changes": list(found.totals),
        "rows": [
            {"kind": row.kind, "value": row.name or None, "changes": list(row.amounts)}
            for row in found.rows
        ],
    }


def label_of(start: datetime, by: str) -> str:
    """When a period begins. An hour is told by the clock of who looks at it; a day is that day."""
    if by == "hour" and timezone.is_aware(start):
        start = timezone.localtime(start)
    return date_format(start, _FORMATS.get(by, "DATE_FORMAT"))


def word_of(by: str) -> str:
    """The name of a period, at the head of its column."""
    words = {"hour": _("Hour"), "day": _("Day"), "week": _("Week from"), "month": _("Month")}
    return words[by]


@dataclass(frozen=True, slots=True)
class _Scale:
    """How far from the top an amount stands."""

    low: int
    high: int

    @classmethod
    def of(cls, found: Chart) -> _Scale:
        stacks = [list(stack) for stack in zip(*(r.amounts for r in found.rows), strict=True)]
        high = max((sum(a for a in stack if a > 0) for stack in stacks), default=0)
        low = min((sum(a for a in stack if a < 0) for stack in stacks), default=0)
        return cls(low, high if high or low else 1)

    def height(self, amount: int) -> float:
        return (self.high - amount) * (_BOTTOM - _TOP) / (self.high - self.low)

    def at(self, amount: int) -> str:
        return f"{_TOP + self.height(amount):.2f}"


def _entry(number: int, row: TagRow) -> LegendEntry:
    names = {
        ALL: pgettext("what was counted", "Counted"),
        OTHERS: pgettext("values of a tag", "(other)"),
        WITHOUT: pgettext("value of a tag", "(none)"),
    }
    texture = {OTHERS: _OF_OTHERS, WITHOUT: _OF_WITHOUT}.get(row.kind, number)
    return LegendEntry(names.get(row.kind, row.name), texture, row.total)


def _segments(
    found: Chart, entries: Sequence[LegendEntry], labels: Sequence[str], scale: _Scale
) -> Iterator[Segment]:
    """Bar after bar from the ground up; decrements, from the ground down."""
    pitch = WIDTH / max(len(labels), 1)
    for place, label in enumerate(labels):
        ends = {True: 0, False: 0}
        for row, entry in zip(found.rows, entries, strict=True):
            amount = row.amounts[place]
            if amount:
                start = ends[amount > 0]
                ends[amount > 0] = end = start + amount
                yield Segment(
                    f"{pitch * (place + 0.1):.2f}",
                    scale.at(max(start, end)),
                    f"{pitch * 0.8:.2f}",
                    f"{abs(scale.height(start) - scale.height(end)):.2f}",
                    entry.texture,
                    f"{label}, {entry.name}: {grouped(amount)}",
                )


def _times(labels: Sequence[str]) -> list[tuple[int, str, str]]:
    """Place, anchor and text of the labels below: the first and the last period."""
    if len(labels) < 2:
        return [(0, "start", label) for label in labels]
    return [(0, "start", labels[0]), (WIDTH, "end", labels[-1])]


def _table(found: Chart, labels: Sequence[str]) -> list[tuple[str, list[int], int]]:
    """Label, amounts, and at last their sum or the value; the latest first."""
    last = found.totals if found.split else found.values
    amounts = zip(*(row.amounts for row in found.rows), strict=True)
    rows = [(a, list(b), c) for a, b, c in zip(labels, amounts, last, strict=True)]
    return rows[::-1]


_PERIODS: dict[str, Callable[[], str]] = {
    "hour": lambda: _("Hours"),
    "day": lambda: _("Days"),
    "week": lambda: _("Weeks"),
    "month": lambda: _("Months"),
}


def history_of(key: str, request: HttpRequest) -> dict[str, Any]:
    """The context of the section."""
    found = _chart(key, request)
    periods = [(_query(by, found.split), _PERIODS[by](), by == found.by) for by in periods_of(key)]
    splits = [("", _("all together")), *((tag, tag) for tag in tags_of(key))]
    return {
        "series": found,
        "bars": bars_of(found) if found.starts else None,
        "period": word_of(found.by),
        "periods": periods,
        "splits": [
            (_query(found.by, tag), name, tag == found.split) for tag, name in splits if splits[1:]
        ],
        "query": _query(found.by, found.split),
        "people": _people(key, found.by),
    }


def _people(key: str, by: str) -> dict[str, Any] | None:
    """How many different people there were; None where that is not counted, or cannot be told."""
    try:
        found = people_of(key, by)
    except CounterError:
        return None
    if found is None:
        return None
    return {
        "period": word_of(found.by),
        "whole": found.whole,
        "error": localize(round(100 * found.whole.error, 2)),
        "rows": [(label_of(one.start, found.by), one.value) for one in reversed(found.points)],
    }


def numbers(key: str, request: HttpRequest) -> dict[str, Any]:
    """The numbers of the chart, as JSON has them."""
    return numbers_of(_chart(key, request))


def _query(by: str, split: str) -> str:
    return urlencode({"by": by, **({"split": split} if split else {})})


def _chart(key: str, request: HttpRequest) -> Chart:
    """As the address asks for it; nothing for a handmade text that is no key."""
    by, told = request.GET.get("by", ""), periods_of(key)
    by = by if by in told else next(iter(told), "hour")
    try:
        return charted(key, by, request.GET.get("split", ""))
    except CounterError:
        return Chart(key, by)
