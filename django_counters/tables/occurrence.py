"""How often a counter was changed in a period, with certain tags."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.measure import OCCURRENCE, Kind
from django_counters.tables.cell import ShardedNumber


class CounterOccurrence(ShardedNumber):
    """One counter, one period, one set of tags: how many changes. Beside each there is a cell.

    It is written where the cell is. Change it by counting; read it with ``series…occurrences()``.
    """

    of_kind: ClassVar[Kind] = OCCURRENCE

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "shard")

    class Meta:
        verbose_name = _("counter occurrence")
        verbose_name_plural = _("counter occurrences")
        # For pruning, which finds old rows of all counters.
        indexes = (
            models.Index(
                fields=["measure", "period", "start"], name="counters_occurrences_by_start"
            ),
        )
