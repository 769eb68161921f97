"""Counts by period and by tag, and recorded totals."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.options import OCCURRENCE, SUM, TAGS_LENGTH, TAGS_TABLE
from django_counters.event import TAG_LENGTH
from django_counters.features import needs
from django_counters.measure import Kind
from django_counters.tables.schema import CounterMeasure, KeyField, OfCounter
from django_counters.types import KEY_LENGTH

needs("django_counters.contrib.series")


class Period(models.IntegerChoices):
    """The periods; their numbers never change."""

    MINUTE = 1, _("minute")
    HOUR = 2, _("hour")
    DAY = 3, _("day")
    WEEK = 4, _("week")
    MONTH = 5, _("month")


class OfPeriod(OfCounter):
    """What belongs to one counter and one period. It is deleted when that is kept no longer."""

    of_kind: ClassVar[Kind]

    period = models.SmallIntegerField(_("period"), choices=Period.choices)
    start = models.DateTimeField(_("start"))

    class Meta:
        abstract = True

    @classmethod
    def before_pruning(cls, using: str) -> None:
        """Prepare rows to be found by the start of their period. Called outside of transactions."""


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
        db_table = SUM.table
        # For pruning, which finds old rows of all counters.
        indexes = (
            models.Index(fields=["measure", "period", "start"], name="counters_cells_by_start"),
        )


class CounterTag(models.Model):
    """A value of a tag that is counted apart."""

    pk = models.CompositePrimaryKey("measure_id", "name", "value")
    measure = models.ForeignKey(
        CounterMeasure,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        verbose_name=_("measure"),
    )
    name = KeyField(_("name"), max_length=TAG_LENGTH)
    value = KeyField(_("value"), max_length=TAG_LENGTH)

    class Meta:
        verbose_name = _("counter tag")
        verbose_name_plural = _("counter tags")
        db_table = TAGS_TABLE

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


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
