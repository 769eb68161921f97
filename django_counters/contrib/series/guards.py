"""Quotas: ceilings of the counts in a period. They are looked at after the period's cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from django_counters.contrib.series.calendar import PERIODS, period_of
from django_counters.contrib.series.cells import booked, in_period
from django_counters.contrib.series.options import SUM, period_in, with_tags
from django_counters.contrib.series.sql import used
from django_counters.errors import QuotaExceeded, Shortfall
from django_counters.measure import Measure
from django_counters.projector import GuardsStore
from django_counters.registry import registry
from django_counters.stores.sql.dialects.cells import array
from django_counters.types import Cell, Delta, Effect


class Quota(NamedTuple):
    """How much a counter may be increased by in one period, regardless of the tags.

    Attributes:
        cell: names the period; its tags are empty.
        most: the ceiling of the counts in the period.
        zone: the name of the time zone by whose clocks the period begins and ends.
    """

    cell: Cell
    most: int
    zone: str

    @property
    def period(self) -> str:
        """The word for its period."""
        return PERIODS[period_in(self.cell).number - 1]

    @property
    def ends_at(self) -> datetime:
        """When its period ends, in UTC."""
        return period_of(self.period, period_in(self.cell).start, ZoneInfo(self.zone))[1]


class QuotaEffect(NamedTuple):
    """The used part of a quota before and after a change."""

    period: str
    before: int
    after: int
    ceiling: int

    @property
    def label(self) -> str:
        """What people call the quota."""
        return _("Quota per %(period)s") % {"period": self.period}


class QuotaLimits(NamedTuple):
    """The declared quotas of a counter, the finest period first; see `projector.Guarding`."""

    limits: tuple[tuple[str, int], ...]

    @property
    def shown(self) -> Sequence[tuple[str, int]]:
        """Return what people call each quota, and its number."""
        quota = _("Quota")
        return [(f"{quota}, {period}", most) for period, most in self.limits]

    def guard(self, measure: Measure, effects: Sequence[Effect], using: str) -> Quotas | None:
        """Return the quotas of the periods that a change counts in, longer periods last."""
        declared, zone = dict(self.limits), registry.measures(using).ensure(measure).zone
        sums = (cell for cell, _ in effects if cell.kind is SUM)
        named = ((PERIODS[period_in(cell).number - 1], cell) for cell in sums)
        quotas = Quotas(
            Quota(with_tags(cell, SUM, ""), declared[period], zone)
            for period, cell in named
            if period in declared
        )
        return quotas or None


class Quotas(tuple[Quota, ...]):
    """The quotas of one change, longer periods last; see `projector.ChangeGuard`."""

    __slots__ = ()
    call: ClassVar[str] = "django_counters_within({}, %s, %s, %s, %s, %s)"
    # A decrease gives back room. None of its periods loses more than it has counted.
    taken = staticmethod(in_period)

    def parameters(self, key: str, shown: Callable[[datetime], Any]) -> tuple[Any, ...]:
        """Return the parameters of the call."""
        periods = [period_in(quota.cell) for quota in self]
        return (
            periods[0].measure,
            array(period.number for period in periods),
            array(shown(period.start) for period in periods),
            array(quota.most for quota in self),
            key,
        )

    def refusal(
        self, delta: Delta, numbers: Sequence[int], label: Callable[[Hashable], str]
    ) -> QuotaExceeded:
        """Return the error for an increase; ``numbers`` are the sums of the periods with it."""
        refused = _refusal([(delta, quota) for quota in self], numbers, label)
        assert refused, "the statement says which sum is beyond its quota"
        return refused

    @staticmethod
    def check(deltas: Sequence[Any], store: GuardsStore, *, counted: bool) -> None:
        """Refuse increases for which a period has not enough room.

        Raises:
            QuotaExceeded: for the first counter without enough room.
        """
        asked = [(delta, quota) for delta in deltas for quota in delta.guard]
        sums = used([(delta.key, quota.cell) for delta, quota in asked], store.using)
        ahead = [0 if counted else delta.by for delta, _ in asked]
        totals = [a + b for a, b in zip(sums, ahead, strict=True)]
        refused = _refusal(asked, totals, store.label)
        if refused is not None:
            raise refused

    def foreseen(self, key: Hashable, by: int, store: GuardsStore) -> Sequence[QuotaEffect]:
        """Return the used part of each quota before and after a change."""
        sums = used([(key, quota.cell) for quota in self], store.using)
        return tuple(
            QuotaEffect(quota.period, before, before + booked(by, before), quota.most)
            for quota, before in zip(self, sums, strict=True)
        )


def _refusal(
    asked: Sequence[tuple[Delta, Quota]], sums: Sequence[int], label: Callable[[Hashable], str]
) -> QuotaExceeded | None:
    """Return the error for increases beyond their quotas; None if there is room for all of them.

    ``sums``: the sum of the period of each quota with the increase.
    """
    beyond: dict[Hashable, tuple[Delta, Quota, int]] = {}
    for (delta, quota), total in zip(asked, sums, strict=True):
        # Longer periods come last: of several the one stays that lets the counter go on last.
        if total > quota.most:
            beyond[delta.key] = delta, quota, max(0, quota.most - total + delta.by)
    if not beyond:
        return None
    refused = list(beyond.values())
    full = tuple(
        Shortfall(label(delta.key), delta.by, left, quota.most) for delta, quota, left in refused
    )
    key, requested, available, ceiling = full[0]
    quota = refused[0][1]
    return QuotaExceeded(
        key=key,
        requested=requested,
        available=available,
        ceiling=ceiling,
        period=quota.period,
        resets_at=quota.ends_at,
        shortfalls=full,
    )
