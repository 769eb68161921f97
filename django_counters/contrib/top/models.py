"""How much a counter has counted in a period, to find those that counted most."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from django.apps import apps
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.top.apps import RANK
from django_counters.features import needs
from django_counters.measure import Kind, Measure

needs("django_counters.contrib.top")
# Ranks are sums of its cells.
needs("django_counters.contrib.series")

# Without these apps it cannot be imported, and the error would name one of them alone.
from django_counters.contrib.series.models import OfPeriod  # noqa: E402


class CounterRank(OfPeriod):
    """One counter, one period: the sum of its cells, in the order of these sums.

    It is written where the cells are. Change it by counting; read it with `largest`.
    """

    pk = models.CompositePrimaryKey("measure_id", "period", "start", "key")
    of_kind: ClassVar[Kind] = RANK
    value = models.BigIntegerField(_("value"))

    class Meta:
        verbose_name = _("counter rank")
        verbose_name_plural = _("counter ranks")
        db_table = RANK.table
        # For the largest: each change of a value writes here, too.
        indexes = (
            models.Index(fields=["measure", "period", "start", "-value"], name="counters_top"),
        )

    def __str__(self) -> str:
        return f"{self.key} {self.start} {self.value}"

    @classmethod
    def of_keys(
        cls, measure: Measure | None, number: int, keys: Sequence[str], using: str
    ) -> list[models.QuerySet[Self]]:
        """Return the ranks of some keys. They are found by the starts of their cells."""
        ranked = PERIODS if measure is None else measure.declared(RANK.option)
        if not ranked:
            return []
        periods = [PERIODS.index(period) + 1 for period in ranked]
        model: Any = apps.get_model("django_counters_series", "CounterCell")
        (cells,) = model.of_keys(measure, number, keys, using)
        found: dict[int, list[datetime]] = {}
        rows = cells.filter(period__in=periods).values_list("period", "start").distinct().order_by()
        for period, start in rows:
            found.setdefault(period, []).append(start)
        (ranks,) = super().of_keys(measure, number, keys, using)
        return [ranks.filter(period=period, start__in=starts) for period, starts in found.items()]
