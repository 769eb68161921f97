"""Rows of named counters, for those who change many at once."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from django.db import connections, models

from django_counters.projections.event import Tags, Who, event_of
from django_counters.tables.core import CounterColumns
from django_counters.twins import alters_data, twin
from django_counters.types import check_integer
from django_counters.write import pipeline

Row = TypeVar("Row", bound=CounterColumns)


class CounterRows(models.QuerySet[Row]):
    """Rows of named counters."""

    @alters_data
    def increment(
        self, by: int = 1, *, at: datetime | None = None, tags: Tags | None = None, who: Who = None
    ) -> int:
        """Add ``by`` to every counter of the queryset, all or none, and return how many there were.

        The rows are locked in the order of their keys, then changed by one statement. Bounds of
        the namespaces hold. Counters that come into the queryset meanwhile are left alone. ``at``
        and ``tags`` say what all of them are counted by.

        Raises:
            InsufficientCount, CeilingExceeded: a bound would be crossed; the error lists each key.
            CounterOverflow: a sum does not fit.
            InvalidMoment, InvalidTags, UnsupportedSeries: as `CounterManager.increment`.
        """
        delta = check_integer(by)
        if not delta:
            return self.count()
        # Locking makes the router name the database for writing.
        rows = self.select_for_update().order_by("key").values_list("key", flat=True)
        with pipeline.all_or_nothing(rows.db):
            if not connections[rows.db].features.has_select_for_update:
                # SQLite gives up at once where a reader becomes a writer: be one from the start.
                self.model._base_manager.using(rows.db).filter(key="").update(value=0)
            keys = list(rows)
            pipeline.change_many(dict.fromkeys(keys, delta), rows.db, None, event_of(at, tags, who))
        return len(keys)

    @alters_data
    def decrement(
        self, by: int = 1, *, at: datetime | None = None, tags: Tags | None = None, who: Who = None
    ) -> int:
        """Subtract ``by`` from every counter of the queryset; see `increment`."""
        return self.increment(check_integer(-check_integer(by)), at=at, tags=tags, who=who)

    aincrement = twin(increment)
    adecrement = twin(decrement)


RowsManager = models.Manager.from_queryset(CounterRows)
