"""What the counters of a page were in the last hours, from what was written down of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Sum
from django.db.models.functions import TruncHour

from django_counters import clock
from django_counters.models import CounterDelta, CounterSample
from django_counters.read.series import series
from django_counters.registry import registry
from django_counters.types import Reading, why_no_key

HOURS = 24
# With more entries than that, a list would wait for its lines: half a second for each million.
MOST_ENTRIES = 200_000
_HOUR = timedelta(hours=1)
_Line = list[int | None]


def recent_of(readings: Mapping[str, Reading], using: str | None) -> dict[str, _Line]:
    """Values at the end of each of the last hours, one before them, and the present one at last.

    In two queries for those that are in the ledger, unless they have too many entries, in one for
    each namespace that is counted by the hour, and in one for those whose totals are recorded by
    the hour. Others are not in the answer.
    """
    since = clock.utc().replace(minute=0, second=0, microsecond=0) - (HOURS - 1) * _HOUR
    entered = [key for key in readings if registry.policy(key).recipe.can.entries]
    counted = [key for key in readings if _is_counted(key)]
    recorded = [
        key for key in readings if registry.policy(key).history == "hour" and not _is_counted(key)
    ]
    changes = _changes(entered, since, using) if entered else None
    samples = _samples(recorded, since, using) if recorded else {}
    lines = {key: _from_samples(readings[key].value, found) for key, found in samples.items()}
    for key, found in _counted(counted, using):
        lines[key] = _from_changes(readings[key].value, found)
    if changes is not None:
        for key in entered:
            lines[key] = _from_changes(readings[key].value, changes.get(key, {}))
    return lines


def _is_counted(key: str) -> bool:
    measure = registry.policy(key).measure
    return measure is not None and not {"minute", "hour"}.isdisjoint(measure.per)


def _counted(keys: Sequence[str], using: str | None) -> Iterator[tuple[str, dict[int, int]]]:
    """What was counted in each hour, by the number of it; keys that are none are left out."""
    of: dict[object, list[str]] = {}
    for key in keys:
        if why_no_key(key) is None:
            of.setdefault(registry.policy(key).measure, []).append(key)
    for group in of.values():
        found = series(group, using).per("hour").last(HOURS).each()
        for key, points in found.items():
            yield key, {number: point.value for number, point in enumerate(points, 1)}


def _changes(
    keys: Sequence[str], since: datetime, using: str | None
) -> dict[str, dict[int, int]] | None:
    """The sums of entries, by key and by the number of the hour; None where there are too many."""
    entries = CounterDelta._base_manager.using(using).filter(
        key__in=keys, created_at__gte=clock.shown(since)
    )
    if entries.order_by()[: MOST_ENTRIES + 1].count() > MOST_ENTRIES:
        return None
    hours = entries.annotate(hour=TruncHour("created_at", tzinfo=UTC)).order_by()
    rows = hours.values_list("key", "hour").annotate(change=Sum("delta"))
    return _by_hour(rows, since)


def _samples(keys: Sequence[str], since: datetime, using: str | None) -> dict[str, dict[int, int]]:
    """The recorded totals, by key and by the number of the hour."""
    rows = (
        CounterSample._base_manager.using(using)
        .filter(key__in=keys, moment__gte=clock.shown(since))
        .values_list("key", "moment", "value")
    )
    return _by_hour(rows, since)


def _by_hour(
    rows: Iterable[tuple[str, datetime, int]], since: datetime
) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for key, moment, number in rows:
        # A token may be of a little later than now.
        hour = min((clock.meant(moment) - since) // _HOUR + 1, HOURS)
        hours = found.setdefault(key, {})
        hours[hour] = hours.get(hour, 0) + int(number)
    return found


def _from_changes(value: int, changes: Mapping[int, int]) -> _Line:
    """Back from the present value, hour by hour."""
    line: _Line = [value]
    for hour in range(HOURS, 0, -1):
        value -= changes.get(hour, 0)
        line.append(value)
    return line[::-1]


def _from_samples(value: int, samples: Mapping[int, int]) -> _Line:
    """An hour without a sample has the value of the one before."""
    line: _Line = [None]
    for hour in range(1, HOURS):
        line.append(samples.get(hour, line[-1]))
    return [*line, value]
