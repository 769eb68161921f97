"""The content of a chart: one counter's counts in its last periods, also by a tag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django_counters import clock
from django_counters.contrib.series.amounts import last_total
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.options import OTHER, recorded_period
from django_counters.contrib.series.reading import Series, of
from django_counters.contrib.series.selection import Split
from django_counters.contrib.series.sources import COUNTED, RECORDED, of_keys
from django_counters.errors import HistoryNotKept, InvalidPeriod, UnsupportedSeries
from django_counters.reading import value_of
from django_counters.registry import registry

ALL, VALUE, WITHOUT, OTHERS = "all", "value", "without", "other"
#: The number of periods in a chart, the present one included.
SHOWN = {"hour": 24, "day": 30, "week": 26, "month": 12}
#: The number of a tag's values that are shown apart.
MOST_VALUES = 10
# At least as long as any of that name, also where clocks are set.
_LENGTHS = {
    "hour": timedelta(hours=1),
    "day": timedelta(hours=25),
    "week": timedelta(days=7, hours=2),
    "month": timedelta(days=31, hours=2),
}


@dataclass(frozen=True, slots=True)
class TagRow:
    """The counts with one value of a tag.

    Attributes:
        kind: ``"value"``; ``"without"`` for increments without such a tag, ``"other"`` for all
            values that aren't shown apart, ``"all"`` without a split.
        name: the value; empty for the other kinds.
        amounts: one for each period.
    """

    kind: str
    name: str
    amounts: tuple[int, ...]

    @property
    def total(self) -> int:
        """The sum of them."""
        return sum(self.amounts)


@dataclass(frozen=True, slots=True)
class Chart:
    """The last periods of a counter, the earliest first and without gaps.

    Attributes:
        key: the counter.
        by: the unit of periods.
        source: ``"counted"`` (by period), ``"ledger"``, ``"recorded"``, or ``"none"`` if nothing is
            known.
        split: the tag, or empty.
        starts: when each period begins.
        rows: the largest first, and the rest last.
        values: the counter's value at the end of each period; empty with a split.
    """

    key: str
    by: str
    source: str = "none"
    split: str = ""
    starts: tuple[datetime, ...] = ()
    rows: tuple[TagRow, ...] = ()
    values: tuple[int, ...] = ()

    @property
    def totals(self) -> tuple[int, ...]:
        """The count of each period, with all values of the tag."""
        return tuple(map(sum, zip(*(row.amounts for row in self.rows), strict=True)))


def periods_of(key: str) -> tuple[str, ...]:
    """Return the periods that a counter's chart can have."""
    policy = registry.policy(key)
    counted = policy.measure.declared("per") if policy.measure else ()
    if not counted and policy.recipe.can.entries:
        return tuple(SHOWN)
    stored = counted or (recorded_period(policy.options),)
    return readable_periods(stored)


def readable_periods(stored: Sequence[str]) -> tuple[str, ...]:
    """Return a chart's periods that stored ones answer for: days, hours and minutes add up."""
    nested = [PERIODS.index(by) for by in stored if by in ("minute", "hour", "day")]
    finest = min(nested, default=len(PERIODS))
    return tuple(by for by in SHOWN if by in stored or PERIODS.index(by) >= finest)


def tags_of(key: str) -> tuple[str, ...]:
    """Return the tags that split a counter."""
    measure = registry.policy(key).measure
    return tuple(name for name, _ in measure.declared("tags")) if measure else ()


def charted(key: object, by: str = "hour", split: str = "", using: str | None = None) -> Chart:
    """Read the content of a chart. It leaves out periods that aren't completely known.

    If ``by`` isn't stored, the chart has the shortest period that is. It ignores unknown tags.

    Raises:
        InvalidPeriod: ``by`` isn't a period of a chart.
        CounterError: the key is invalid, or the counter can't be read.
    """
    source = of_keys(key)
    (name,) = source.keys
    if by not in SHOWN:
        raise InvalidPeriod(period=by, known=", ".join(SHOWN))
    periods = periods_of(name)
    if not periods:
        return Chart(name, by)
    by = by if by in periods else periods[0]
    try:
        return _read(name, by, split if split in tags_of(name) else "", source.kind, using)
    except UnsupportedSeries:
        # No total is recorded yet.
        return Chart(name, by)


def _read(key: str, by: str, split: str, source: str, using: str | None) -> Chart:
    series = of(key).using(using).per(by)
    if split:
        return _split(key, by, split, series)
    points = last_known(series, by)
    if not points:
        return Chart(key, by)
    amounts = tuple(point.value for point in points)
    starts = tuple(point.start for point in points)
    # Back from the present value: the amount counted before that time stays in it.
    now = last_total(key, using) if source == RECORDED else value_of(key, using)
    values = tuple((now or 0) - sum(amounts[place + 1 :]) for place in range(len(amounts)))
    return Chart(key, by, source, "", starts, (TagRow(ALL, "", amounts),), values)


def _split(key: str, by: str, split: str, series: Series) -> Chart:
    splits: list[Split] = last_known(series.by(split), by)
    points = splits[0].points if splits else last_known(series, by)
    starts = tuple(point.start for point in points)
    return Chart(key, by, COUNTED, split, starts, tuple(_rows(splits, split, len(starts))))


def _rows(splits: Sequence[Split], tag: str, periods: int) -> list[TagRow]:
    """Return the largest ones apart, and the rest together."""
    apart = [split for split in splits if split.tags[tag] != OTHER][:MOST_VALUES]
    rows = [_row(split, split.tags[tag]) for split in apart]
    rest = [split.points for split in splits if split not in apart]
    if rest or not rows:
        amounts = [sum(points[place].value for points in rest) for place in range(periods)]
        rows.append(TagRow(OTHERS, "", tuple(amounts)))
    return rows


def _row(split: Split, value: str | None) -> TagRow:
    amounts = tuple(point.value for point in split.points)
    return TagRow(WITHOUT if value is None else VALUE, value or "", amounts)


def last_known(series: Any, by: str, read: Callable[[Any], Any] = list) -> Any:
    """Read the last periods, or those of them that are completely known; else return nothing."""
    try:
        return read(series.last(SHOWN[by]))
    except HistoryNotKept as error:
        since = clock.meant(error.since)
    # The period in which it begins may not be.
    for first in (since, since + _LENGTHS[by]):
        with suppress(HistoryNotKept):
            if first < clock.utc():
                return read(series.between(first))
    return []
