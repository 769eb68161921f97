"""How many different people a counter had in its last periods, as a page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from django_counters.contrib.series.chart import last_known, readable_periods
from django_counters.contrib.series.reading import of
from django_counters.read.uniques import Distinct, UniquePoint
from django_counters.registry import registry


@dataclass(frozen=True, slots=True)
class People:
    """The last periods of a counter, the earliest first.

    Attributes:
        by: the unit of periods.
        points: how many there were in each.
        whole: how many in all of them: who came again is one.
    """

    by: str
    points: tuple[UniquePoint, ...]
    whole: Distinct


def people_of(key: str, by: str, using: str | None = None) -> People | None:
    """The numbers of a page; of longer periods where those that it asks for are not told.

    None where distinct actors are not counted, or nothing is known of a whole period.

    Raises:
        CounterError: it cannot be read.
    """
    measure = registry.policy(key).measure
    told = readable_periods(measure.unique) if measure else ()
    if not told:
        return None
    by = by if by in told else told[0]
    series = of(key).using(using)
    found = last_known(series.per(by), by, lambda known: (known.uniques(), known.unique()))
    if not found:
        return None
    points, whole = found
    return People(by, tuple(points), whole)
