"""The list of counters: the rows of a page, completed by what they do not hold themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_counters.admin.readonly import MOST
from django_counters.admin.recent import recent_of
from django_counters.admin.sparkline import sparkline
from django_counters.models import Counter, CounterShard
from django_counters.read.readings import readings_of

# Counters without a row that are shown above the list.
SHOWN = 20


class CounterList(ChangeList):
    """Gives each counter of a page its ``reading`` and its ``line``, as soon as they are asked for.

    However many there are, that is one query for the readings, one round trip to each Redis, and
    one query for the lines of each source.
    """

    #: How many counters are in no row yet, for whoever may see them all; and the first of them.
    not_listed = 0
    unlisted: Sequence[tuple[str, int]] = ()
    _page: Iterable[Any] = ()
    _rows: Sequence[Any] | None = None

    def get_results(self, request: HttpRequest) -> None:
        """The page, and how many counters cannot be on any."""
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
        """Whether a Redis could not be reached, so that what waits there is not in the values."""
        return any(row.reading.consistency == "landed" for row in self.result_list)


def completed(page: Iterable[Any], using: str | None) -> list[Any]:
    """Counters with their ``reading``, and with their ``line`` where something is known of it."""
    rows = list(page)
    readings = readings_of([row.key for row in rows], using)
    recent = recent_of(readings, using)
    for row in rows:
        row.reading = readings[row.key]
        row.line = _line(row.key, recent.get(row.key, []))
    return rows


def waiting_first(using: str | None) -> QuerySet[CounterShard, str]:
    """The keys of counters that wait in shards for their first rollup: a list is one of totals."""
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
        "first": number_format(known[0]),
        "last": number_format(known[-1]),
    }
    return sparkline(values, label)
