"""How much was counted in a period, with certain tags."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.measure import SUM, TAGS_LENGTH, Kind
from django_counters.tables.measured import OfPeriod, Period
from django_counters.tables.schema import KeyField


class ShardedNumber(OfPeriod):
    """A number of one counter, one period, one set of tags.

    Writers who do not wait for each other have rows of their own, by ``shard``: the number is the
    sum of their values.
    """

    tags = KeyField(_("tags"), max_length=TAGS_LENGTH, default="", blank=True)
    shard = models.SmallIntegerField(_("shard"), default=0)
    # Never indexed: PostgreSQL then updates the row within its page.
    value = models.BigIntegerField(_("value"))

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.key} {self.start} {self.value}"


class CounterCell(ShardedNumber):
    """One counter, one period, one set of tags. Change it by counting; read it with ``series``.

    Writers who do not wait for each other have rows of their own, by ``shard``: the value of a
    cell is their sum.
    """

    Period = Period
    of_kind: ClassVar[Kind] = SUM

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "shard")

    class Meta:
        verbose_name = _("counter cell")
        verbose_name_plural = _("counter cells")
        # For pruning, which finds old rows of all counters.
        indexes = (
            models.Index(fields=["measure", "period", "start"], name="counters_cells_by_start"),
        )
