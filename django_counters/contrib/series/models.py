"""How often counters were changed by period, and their recorded totals."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.options import OCCURRENCE
from django_counters.features import needs
from django_counters.measure import Kind
from django_counters.tables.cell import ShardedNumber
from django_counters.tables.schema import KeyField
from django_counters.types import KEY_LENGTH

needs("django_counters.contrib.series")


class CounterOccurrence(ShardedNumber):
    """One counter, one period, one set of tags: how many changes. Beside each there is a cell.

    It is written where the cell is. Change it by counting; read it with ``occurrences()``.
    """

    of_kind: ClassVar[Kind] = OCCURRENCE

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "shard")

    class Meta:
        verbose_name = _("counter occurrence")
        verbose_name_plural = _("counter occurrences")
        db_table = OCCURRENCE.table
        # For pruning, which finds old rows of all counters.
        indexes = (
            models.Index(
                fields=["measure", "period", "start"], name="counters_occurrences_by_start"
            ),
        )


class CounterSample(models.Model):
    """The total of a named counter at the end of a period, for namespaces with ``HISTORY``.

    ``moment`` is when the period begins, ``value`` the last total that was seen in it. The row of
    the present period follows the total until the period is over. A period without a row has the
    value of the row before it.
    """

    pk = models.CompositePrimaryKey("key", "moment")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    moment = models.DateTimeField(_("moment"), db_index=True)
    value = models.BigIntegerField(_("value"))

    class Meta:
        db_table = "django_counters_countersample"
        verbose_name = _("counter sample")
        verbose_name_plural = _("counter samples")

    def __str__(self) -> str:
        return f"{self.key} {self.value}"
