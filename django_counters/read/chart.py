"""How one counter went: from its entries or its cells, else from recorded totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

from django.db import router
from django.utils import timezone

from django_counters import clock
from django_counters.calendar import beginnings
from django_counters.exceptions import HistoryNotKept, InvalidPeriod
from django_counters.read import values
from django_counters.read.history import Bucket, history
from django_counters.read.series import series
from django_counters.registry import registry
from django_counters.stores.sql.inquiry import SqlInquiry
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterSample
from django_counters.tables.standing import COUNTERS
from django_counters.types import check_key

LEDGER, COUNTED, RECORDED, NONE = "ledger", "counted", "recorded", "none"
SPANS = {"hour": timedelta(days=1), "day": timedelta(days=30)}
_LENGTHS = {"hour": timedelta(hours=1), "day": timedelta(hours=25)}
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One period of one counter.

    Attributes:
        moment: when the period begins.
        value: the value at its end; of the present period, the last one that is known.
        change: how it differs from that of the period before; None where that one is not known.
    """

    moment: datetime
    value: int
    change: int | None


@dataclass(frozen=True, slots=True)
class Chart:
    """How one counter went, period by period, the earliest first and without gaps.

    Attributes:
        key: the counter.
        by: what a period is: ``"hour"`` or ``"day"``.
        source: ``"ledger"``, ``"counted"`` (by period), ``"recorded"``, or ``"none"`` where
            nothing is known.
        points: one for each period.
    """

    key: str
    by: str
    source: str
    points: tuple[ChartPoint, ...]


def offered(key: str) -> tuple[str, ...]:
    """The periods that a counter can be shown by: what is stored by day has no hours."""
    if stored := _stored(key):
        return stored
    return ("day",) if registry.policy(key).history == "day" else tuple(SPANS)


def charted(key: object, by: str = "hour", using: str | None = None) -> Chart:
    """The last 24 hours of a counter, or its last 30 days; what is not known is left out.

    A ledger knows what came through it, and periods know what was counted in them; what was not,
    counts as if it had always been there. What is stored by day is shown by day, whatever is asked
    for.

    Raises:
        InvalidPeriod: ``by`` is neither ``"hour"`` nor ``"day"``.
    """
    name = check_key(key)
    if by not in SPANS:
        raise InvalidPeriod(period=by, known=", ".join(SPANS))
    if registry.policy(name).recipe.can.entries:
        return Chart(name, by, LEDGER, tuple(_of_entries(name, by, using)))
    period = by if by in offered(name) else "day"
    if _stored(name):
        return Chart(name, period, COUNTED, tuple(_of_cells(name, period, using)))
    points = tuple(_of_samples(name, period, using))
    return Chart(name, period, RECORDED if points else NONE, points)


def _of_entries(key: str, by: str, using: str | None) -> Iterator[ChartPoint]:
    buckets = _kept(key, by, using)
    # Forward from the value before the first period: what is counted meanwhile changes none of it.
    inquiry = SqlInquiry(NAMED, COUNTERS.reading(using))
    start = clock.meant(buckets[0].start)
    value, later = inquiry.value_and_later(key, start - _INSTANT)
    changes = accumulate((bucket.change for bucket in buckets), initial=value - later)
    for bucket, (_, at_end) in zip(buckets, pairwise(changes), strict=True):
        yield ChartPoint(bucket.start, at_end, bucket.change)


def _kept(key: str, by: str, using: str | None) -> Sequence[Bucket]:
    """The periods of which all entries are kept, or of the first of them those that are."""
    since = clock.utc() - SPANS[by]
    try:
        return history(key, by, since, None, None, using)
    except HistoryNotKept as error:
        return history(key, by, error.since, None, None, using)


def _stored(key: str) -> tuple[str, ...]:
    """The periods that can be told from those by which a counter is counted."""
    measure = registry.policy(key).measure
    per = measure.per if measure else ()
    return tuple(by for by in SPANS if {"minute", "hour", by}.intersection(per))


def _of_cells(key: str, by: str, using: str | None) -> Iterator[ChartPoint]:
    asked, since = series(key, using).per(by), clock.utc() - SPANS[by]
    try:
        points = asked.between(since).list()
    except HistoryNotKept as error:
        # The period in which it begins may not be kept as a whole.
        points = asked.between(clock.meant(error.since) + _LENGTHS[by]).list()
    # Back from the present value: what was counted before there were periods stays in it.
    value = values.value_of(key, using) - sum(point.value for point in points)
    for point in points:
        value += point.value
        yield ChartPoint(point.start, value, point.value)


def _of_samples(key: str, by: str, using: str | None) -> Iterator[ChartPoint]:
    now = clock.utc()
    starts = list(beginnings(by, now - SPANS[by], now, timezone.get_default_timezone()))
    before, samples = _recorded(key, starts[0], using)
    for start, end in pairwise((*starts, now + _INSTANT)):
        within = [value for moment, value in samples if start <= moment < end]
        # What was not written did not change.
        value = within[-1] if within else before
        if value is not None:
            change = None if before is None else value - before
            yield ChartPoint(
                clock.shown(start.astimezone(timezone.get_default_timezone())), value, change
            )
        before = value


def _recorded(
    key: str, since: datetime, using: str | None
) -> tuple[int | None, list[tuple[datetime, int]]]:
    """The last total before a moment, and those since, the earliest first."""
    alias = using or router.db_for_read(CounterSample)
    rows = CounterSample._base_manager.using(alias).filter(key=key).order_by("-moment")
    then = clock.shown(since)
    earlier = rows.filter(moment__lt=then).values_list("value", flat=True).first()
    later = rows.filter(moment__gte=then).values_list("moment", "value")
    return earlier, [(clock.meant(moment), value) for moment, value in reversed(later)]
