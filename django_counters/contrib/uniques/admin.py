"""The number of different people on the page of a counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.http import HttpRequest
from django.utils.formats import localize

from django_counters.contrib.series import Series, of
from django_counters.contrib.series.admin import label_of, word_of
from django_counters.contrib.series.chart import last_known, periods_of, readable_periods
from django_counters.contrib.uniques.options import MEMBER
from django_counters.contrib.uniques.reading import Distinct, UniquePoint, count, points
from django_counters.errors import CounterError
from django_counters.features import OnPage, Panel
from django_counters.registry import registry


class PeoplePanel(Panel):
    """Shows how many different people a named counter had in its last periods, and in all of them.

    The periods are those of the chart on this page. If people aren't counted by these, longer ones.
    """

    template = "django_counters_uniques/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:
        """Return the numbers; None if people aren't counted, or no whole period is known."""
        measure = None if counter.owner else registry.policy(counter.key).measure
        shown = readable_periods(measure.declared(MEMBER.option)) if measure else ()
        if not shown:
            return None
        by = _period_of(counter.key, request.GET.get("by", ""))
        by = by if by in shown else shown[0]
        people: tuple[Sequence[UniquePoint], Distinct] | Sequence[Any] = ()
        with suppress(CounterError):
            people = last_known(of(counter.key).per(by), by, _people)
        if not people:
            return None
        numbers, whole = people
        return {
            "period": word_of(by),
            "whole": whole,
            "error": localize(round(100 * whole.error, 2)),
            "rows": [(label_of(one.start, by), one.value) for one in reversed(numbers)],
        }


def _period_of(key: str, by: str) -> str:
    """Return the period of the chart on the page."""
    periods = periods_of(key)
    return by if by in periods else next(iter(periods), "hour")


def _people(series: Series) -> tuple[Sequence[UniquePoint], Distinct]:
    return points(series), count(series)
