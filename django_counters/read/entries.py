"""The series that the entries of a ledger give, counter by counter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone

from django_counters import clock
from django_counters.exceptions import UnsupportedSeries
from django_counters.read.asked import Combination, SeriesAmounts, SeriesSelection
from django_counters.read.history import refuse_dropped
from django_counters.read.sources import UNDECLARED
from django_counters.read.spans import within_dates
from django_counters.stores.sql.inquiry import SqlInquiry
from django_counters.stores.sql.tables import NAMED

_FIRST, _END = datetime(1970, 1, 1), datetime(9000, 1, 1)  # noqa: DTZ001


def starts(asked: SeriesSelection, *, summed: bool) -> Sequence[datetime]:
    """Where the periods begin, by the clocks of the current time zone; asks no database."""
    span, zone = asked.span, timezone.get_current_timezone()
    with within_dates(span):
        if span.by is not None:
            return span.shown(span.starts(clock.utc(), zone), zone)
        if summed and span.is_open:
            return [clock.meant(_FIRST), clock.meant(_END)]
        return span.shown(span.bounds(clock.utc()), zone)


def found(asked: SeriesSelection, using: str, *, summed: bool, each: bool) -> SeriesAmounts:
    """Sum the entries of each period.

    Raises:
        UnsupportedSeries: a counter is in no ledger, and never had an entry.
        HistoryNotKept: entries of that time are dropped.
    """
    begun = starts(asked, summed=summed)
    between = [begun[0], begun[-1]] if summed else begun
    numbers = range(1, len(between))
    inquiry = SqlInquiry(NAMED, using)
    amounts: dict[tuple[str, Combination], list[int]] = {}
    entries = [0 for _ in numbers]
    for key in asked.source.keys:
        told = inquiry.history(key, between)
        # Asked for at last: entries may be dropped meanwhile.
        _check(key, between[0], inquiry, asked)
        row = amounts.setdefault((key if each else "", ()), [0 for _ in numbers])
        for number in told:
            change, many = told[number]
            row[number - 1] += change
            entries[number - 1] += many
    names = {key: key for key in asked.source.keys} if each else {}
    return SeriesAmounts(begun, amounts, names, entries)


def check(asked: SeriesSelection, since: datetime, using: str) -> None:
    """Refuse counters of which no entry tells what was counted since a moment.

    Raises:
        UnsupportedSeries, HistoryNotKept: as `found`.
    """
    inquiry = SqlInquiry(NAMED, using)
    for key in asked.source.keys:
        _check(key, since, inquiry, asked)


def _check(key: str, since: datetime, inquiry: SqlInquiry, asked: SeriesSelection) -> None:
    if not refuse_dropped(key, clock.utc() if asked.span.partial else since, inquiry):
        raise UnsupportedSeries(key=key, reason=UNDECLARED)
