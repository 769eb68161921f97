"""How much was counted in a period, with certain tags."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.measure import TAGS_LENGTH
from django_counters.tables.counter import KeyField
from django_counters.tables.measure import CounterMeasure

CELL_KEY_LENGTH = 255


class CounterCell(models.Model):
    """One counter, one period, one set of tags. Change it by counting; read it with ``series``.

    Writers who do not wait for each other have rows of their own, by ``shard``: the value of a
    cell is their sum.
    """

    class Period(models.IntegerChoices):
        """The periods; what the numbers mean is for ever."""

        MINUTE = 1, _("minute")
        HOUR = 2, _("hour")
        DAY = 3, _("day")
        WEEK = 4, _("week")
        MONTH = 5, _("month")

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "shard")
    # Without a constraint: checking it would have every increment lock the row of the measure.
    measure = models.ForeignKey(
        CounterMeasure,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
        verbose_name=_("measure"),
    )
    key = KeyField(_("key"), max_length=CELL_KEY_LENGTH)
    period = models.SmallIntegerField(_("period"), choices=Period.choices)
    start = models.DateTimeField(_("start"))
    tags = KeyField(_("tags"), max_length=TAGS_LENGTH, default="", blank=True)
    shard = models.SmallIntegerField(_("shard"), default=0)
    # Never indexed: PostgreSQL then updates the row within its page.
    value = models.BigIntegerField(_("value"))

    class Meta:
        verbose_name = _("counter cell")
        verbose_name_plural = _("counter cells")

    def __str__(self) -> str:
        return f"{self.key} {self.start} {self.value}"
