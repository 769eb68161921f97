"""The common part of tables whose rows belong to a counter with a measure.

A table says here whose rows it has. Jobs that delete them ask `OfCounter.tables`, and list none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from django.apps import apps
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.measure import Kind, Measure
from django_counters.tables.measure import CounterMeasure
from django_counters.tables.schema import KeyField

CELL_KEY_LENGTH = 255


class Period(models.IntegerChoices):
    """The periods; the meaning of the numbers is for ever."""

    MINUTE = 1, _("minute")
    HOUR = 2, _("hour")
    DAY = 3, _("day")
    WEEK = 4, _("week")
    MONTH = 5, _("month")


class OfCounter(models.Model):
    """What belongs to one counter. It is deleted with the record of the counter."""

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

    class Meta:
        abstract = True

    @classmethod
    def tables(cls) -> Iterator[type[Self]]:
        """All tables whose rows are such."""
        return (
            model for model in apps.get_models() if issubclass(model, cls) and not model._meta.proxy
        )

    @classmethod
    def of_keys(
        cls,
        measure: Measure | None,  # noqa: ARG003 - where rows are found in another way
        number: int,
        keys: Sequence[str],
        using: str,
    ) -> list[models.QuerySet[Self]]:
        """The rows of some keys of a measure, which has a number."""
        return [cls._base_manager.using(using).filter(measure_id=number, key__in=keys)]


class OfPeriod(OfCounter):
    """What belongs to one counter and one period. It is deleted when that is kept no longer.

    Attributes:
        of_kind: the kind of its rows, or of those that they are made of.
    """

    of_kind: ClassVar[Kind]

    period = models.SmallIntegerField(_("period"), choices=Period.choices)
    start = models.DateTimeField(_("start"))

    class Meta:
        abstract = True

    @classmethod
    def before_pruning(cls, using: str) -> None:
        """Prepare rows to be found by the start of their period. Called outside of transactions."""
