"""The list of counters: completes the rows of a page by their values and their last 24 hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import TruncHour
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.admin.readonly import MOST, BoundedPaginator
from django_counters.admin.sparkline import sparkline
from django_counters.models import Counter, CounterDelta, CounterShard
from django_counters.read.readings import readings_of
from django_counters.read.samples import totals_at
from django_counters.read.series import series
from django_counters.registry import registry
from django_counters.templatetags.counters_admin import grouped
from django_counters.types import Reading, why_no_key

# Counters without a row that are shown above the list.
SHOWN = 20
HOURS = 24
# More entries would make a list slow: half a second for each million.
MOST_ENTRIES = 200_000
_HOUR = timedelta(hours=1)
_Line = list[int | None]


class CounterList(ChangeList):
    """Gives each counter of a page its ``reading`` and its ``line``, when they are first used.

    For any number of counters that takes one query for the readings, one round trip to each Redis,
    and one query for the lines of each source.
    """

    #: Whether the order is that of the totals, and whether that was asked for of too many counters.
    is_by_total = False
    is_too_long = False
    #: How many counters have no row yet, and the first of them, for a user who may see them all.
    not_listed = 0
    unlisted: Sequence[tuple[str, int]] = ()
    _page: Iterable[Any] = ()
    _rows: Sequence[Any] | None = None

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """The counters in their order. The total has no index, so only as many as a list pages."""
        found = super().get_queryset(request, exclude_parameters)
        if {"value", "-value"}.isdisjoint(map(str, found.query.order_by)):
            return found
        self.is_too_long = BoundedPaginator(found, self.list_per_page).is_cut
        self.is_by_total = not self.is_too_long
        return found.order_by("key") if self.is_too_long else found

    def get_results(self, request: HttpRequest) -> None:
        """The page, and the counters that are on none."""
        super().get_results(request)
        page: Any = self.model_admin
        if page.has_overview_permission(request):
            waiting = waiting_first(self.queryset.db).filter(key__icontains=self.query)
            self.not_listed = waiting[:MOST].count()
            self.unlisted = _exact(list(waiting[:SHOWN])) if self.not_listed else ()

    @property
    def result_list(self) -> Sequence[Any]:
        """The counters of the page, completed."""
        if self._rows is None:
            self._rows = completed(self._page, self.queryset._db)
        return self._rows

    @result_list.setter
    def result_list(self, page: Iterable[Any]) -> None:
        self._page, self._rows = page, None

    @property
    def is_incomplete(self) -> bool:
        """Whether the values lack what waits in a Redis that is away."""
        return any(row.reading.consistency == "landed" for row in self.result_list)


def completed(page: Iterable[Any], using: str | None) -> list[Any]:
    """Counters with their ``reading``, and their ``line`` if it is known."""
    rows = list(page)
    readings = readings_of([row.key for row in rows], using)
    recent = recent_of(readings, using)
    for row in rows:
        row.reading = readings[row.key]
        row.line = _line(row.key, recent.get(row.key, []))
    return rows


def waiting_first(using: str | None) -> QuerySet[CounterShard, str]:
    """The keys of counters that have shards and no row yet, because no rollup has run."""
    total = Counter._base_manager.filter(key=OuterRef("key"))
    waiting = CounterShard._base_manager.using(using).filter(~Exists(total))
    return waiting.order_by("key").values_list("key", flat=True).distinct()


def _exact(keys: Sequence[str]) -> list[tuple[str, int]]:
    return [(key, reading.value) for key, reading in readings_of(keys).items()]


def _line(key: str, values: Sequence[int | None]) -> SafeString:
    known = [value for value in values if value is not None]
    if not known:
        return SafeString("")
    label = _("%(key)s in the last 24 hours: from %(first)s to %(last)s") % {
        "key": key,
        "first": grouped(known[0]),
        "last": grouped(known[-1]),
    }
    return sparkline(values, label)


def recent_of(readings: Mapping[str, Reading], using: str | None) -> dict[str, _Line]:
    """The value before the last hours, the value at the end of each, and the present value.

    It takes two queries for counters in the ledger, unless they have too many entries, one for each
    namespace that is counted by the hour, and one for those whose totals are recorded by the hour.
    It leaves out other counters.
    """
    since = clock.utc().replace(minute=0, second=0, microsecond=0) - (HOURS - 1) * _HOUR
    counted = [key for key in readings if _is_counted(key)]
    others = {key: registry.policy(key) for key in readings if not _is_counted(key)}
    entered = [key for key, policy in others.items() if policy.recipe.can.entries]
    recorded = [key for key, policy in others.items() if policy.history == "hour"]
    changes = _changes(entered, since, using) if entered else None
    hours = [since + number * _HOUR for number in range(HOURS)]
    samples = totals_at(recorded, hours, using, {}) if recorded else {}
    lines: dict[str, _Line] = {
        key: [*line, readings[key].value]
        for key, line in samples.items()
        if any(total is not None for total in line)
    }
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
    """The amount counted in each hour, by its number. Leaves out invalid keys."""
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
    """The sums of entries, by key and number of the hour; None if there are too many entries."""
    entries = CounterDelta._base_manager.using(using).filter(
        key__in=keys, created_at__gte=clock.shown(since)
    )
    if entries.order_by()[: MOST_ENTRIES + 1].count() > MOST_ENTRIES:
        return None
    hours = entries.annotate(hour=TruncHour("created_at", tzinfo=UTC)).order_by()
    rows = hours.values_list("key", "hour").annotate(change=Sum("delta"))
    return _by_hour(rows, since)


def _by_hour(
    rows: Iterable[tuple[str, datetime, int]], since: datetime
) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for key, moment, number in rows:
        # The time of a token may be a little ahead.
        hour = min((clock.meant(moment) - since) // _HOUR + 1, HOURS)
        hours = found.setdefault(key, {})
        hours[hour] = hours.get(hour, 0) + int(number)
    return found


def _from_changes(value: int, changes: Mapping[int, int]) -> _Line:
    """Count back from the present value."""
    line: _Line = [value]
    for hour in range(HOURS, 0, -1):
        value -= changes.get(hour, 0)
        line.append(value)
    return line[::-1]
