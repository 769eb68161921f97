"""What recorded totals tell of a series: how much they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from django.db import models
from django.db.models import Min
from django.utils import timezone

from django_counters import clock
from django_counters.exceptions import HistoryNotKept, UnsupportedSeries
from django_counters.measure import Measure
from django_counters.read.asked import Combination, SeriesAmounts, SeriesSelection
from django_counters.read.spans import StoredSpan, plan
from django_counters.registry import registry
from django_counters.tables import CounterSample


def starts(asked: SeriesSelection, using: str, *, summed: bool) -> Sequence[datetime]:
    """Where the periods begin, as they are recorded.

    Counts before the first recorded total of a counter, and in that period, are not known.

    Raises:
        UnsupportedSeries: nothing is recorded of one.
        HistoryNotKept: nothing was, at that time.
    """
    keys = asked.source.keys
    rows = _recorded(keys, using).values("key").annotate(first=Min("moment"))
    first = {row["key"]: clock.meant(row["first"]) for row in rows.order_by()}
    for key in keys:
        if key not in first:
            reason = "nothing is recorded of it yet: run counters upkeep history every few minutes"
            raise UnsupportedSeries(key=key, reason=reason)
    by = registry.policy(keys[0]).history
    measure = Measure(asked.source.label, (by,))
    known = StoredSpan(measure, timezone.get_default_timezone(), {by: max(first.values())})
    return plan(known, asked.span, summed=summed).starts


def found(asked: SeriesSelection, using: str, *, summed: bool, each: bool) -> SeriesAmounts:
    """Subtract the totals at the end of each period from one another.

    Raises:
        UnsupportedSeries, HistoryNotKept: as `starts`.
    """
    keys, begun = asked.source.keys, starts(asked, using, summed=summed)
    between = [begun[0], begun[-1]] if summed else begun
    earlier = {key: last_total(key, using, between[0]) for key in keys}
    if asked.span.partial:
        # Before its first recorded total, a counter counts as unchanged.
        for key in (key for key, total in earlier.items() if total is None):
            earlier[key] = _recorded([key], using).earliest("moment").value
    amounts: dict[tuple[str, Combination], list[int]] = {}
    for key, totals in totals_at(keys, between, using, earlier).items():
        row = amounts.setdefault((key if each else "", ()), [0] * (len(between) - 1))
        for number, (before, after) in enumerate(pairwise(totals)):
            if before is None or after is None:
                # It was pruned in this moment.
                raise HistoryNotKept(key=key, since=clock.now())
            row[number] += after - before
    return SeriesAmounts(begun, amounts, {key: key for key in keys} if each else {})


def totals_at(
    keys: Sequence[str],
    moments: Sequence[datetime],
    using: str | None,
    earlier: Mapping[str, int | None],
) -> dict[str, list[int | None]]:
    """The totals that were seen last before each moment, in one query; None before the first one.

    Args:
        moments: when periods begin, the earliest first.
        earlier: the totals at the first of them, as far as they are known.
    """
    rows = _recorded(keys, using).order_by("moment")
    within = rows.filter(moment__gte=clock.shown(moments[0]), moment__lt=clock.shown(moments[-1]))
    seen: dict[str, list[tuple[datetime, int]]] = {key: [] for key in keys}
    for key, moment, value in within.values_list("key", "moment", "value"):
        seen[key].append((clock.meant(moment), value))
    return {key: list(_at(moments, seen[key], earlier.get(key))) for key in keys}


def _at(
    moments: Sequence[datetime], seen: Sequence[tuple[datetime, int]], last: int | None
) -> Iterator[int | None]:
    place = 0
    for moment in moments:
        # A total that was not written did not change.
        while place < len(seen) and seen[place][0] < moment:
            last = seen[place][1]
            place += 1
        yield last


def last_total(key: str, using: str | None, before: datetime | None = None) -> int | None:
    """The total that was recorded last, or last before a moment."""
    rows = _recorded([key], using)
    rows = rows if before is None else rows.filter(moment__lt=clock.shown(before))
    return rows.order_by("-moment").values_list("value", flat=True).first()


def _recorded(keys: Sequence[str], using: str | None) -> models.QuerySet[CounterSample]:
    return CounterSample._base_manager.using(using).filter(key__in=keys)
