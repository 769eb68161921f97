"""The places of a counter on its page, and the counters that count most in the overview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from django.apps import apps
from django.db import router
from django.http import HttpRequest

from django_counters.contrib.series import Series, of
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.top.apps import RANK
from django_counters.contrib.top.reading import Placed, Ranked, largest, place
from django_counters.errors import CounterError, InvalidConfiguration
from django_counters.features import OnPage, Panel
from django_counters.fields.columns import counter_fields
from django_counters.measure import Measure
from django_counters.metrics.facts import Away, attempt
from django_counters.registry import registry
from django_counters.tables.schema import COUNTERS
from django_counters.write.chosen import Rows

# Counters of each ranking.
_MOST = 5


class PlacesPanel(Panel):
    """Shows the place of a named counter in each present period that is ranked."""

    template = "django_counters_top/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the known places; None if there are none."""
        measure = None if counter.owner else registry.policy(counter.key).measure
        places: list[tuple[Any, Placed]] = []
        for by in measure.declared(RANK.option) if measure else ():
            with suppress(CounterError):
                placed = place(of(counter.key).per(by))
                places.append((CounterCell.Period[by.upper()].label, placed))
        return {"places": places} if places else None


class LargestSection:
    """Shows the largest counters of the longest ranked period of each namespace and field.

    A record is its primary key: who may see counters may not see the records.
    """

    template = "django_counters_top/section.html"

    def context(self, request: HttpRequest, using: str) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the rankings; None if there are none."""
        tops = [_top_of(ranks, using) for ranks in _rankings(using)]
        return {"tops": tops} if tops else None


class LargestRows(NamedTuple):
    """The largest counters of the present period, of a namespace or of a field.

    Each row has the number of different people, if they are counted by this period.
    """

    subject: str
    period: Any
    rows: Sequence[tuple[Ranked, int | None]]
    problem: str


class _Ranks(NamedTuple):
    """A ranking: all counters of a namespace or of a field, and a function for some of them."""

    subject: str
    measure: Measure
    series: Series
    some: Callable[[Sequence[Any]], Series]


def _rankings(using: str) -> list[_Ranks]:
    try:
        policies = registry.policies()
    except InvalidConfiguration:
        # The overview reports that, too.
        return []
    rankings = [
        _Ranks(name, policy.measure, of_namespace, of)
        for name, policy in policies.items()
        if policy.measure and policy.measure.declared(RANK.option) and COUNTERS.stands_in(using)
        for of_namespace in [of(namespace=name)]
    ]
    for model in apps.get_models():
        for field in counter_fields(model) if router.allow_migrate_model(using, model) else ():
            if field.model is model and field.measure and field.measure.declared(RANK.option):
                label, counter = f"{model._meta.label}.{field.name}", getattr(model, field.name)
                some = partial(_of_some, counter, model._base_manager.using(using))
                rankings.append(_Ranks(label, field.measure, of(counter), some))
    return rankings


def _top_of(ranks: _Ranks, using: str) -> LargestRows:
    period = CounterCell.Period[ranks.measure.declared(RANK.option)[-1].upper()].label
    rows = attempt(ranks.subject, using, partial(_rows, ranks, using))
    if isinstance(rows, Away):
        return LargestRows(ranks.subject, period, (), rows.reason)
    return LargestRows(ranks.subject, period, rows, "")


def _of_some(counter: Any, rows: Rows, keys: Sequence[Any]) -> Series:
    return of(counter, rows.filter(pk__in=keys))


def _rows(ranks: _Ranks, using: str) -> list[tuple[Ranked, int | None]]:
    """Return the largest counters, and the number of different people of each."""
    by = ranks.measure.declared(RANK.option)[-1]
    ranked = largest(ranks.series.using(using).per(by), _MOST)
    if by not in ranks.measure.declared("unique") or not ranked:
        return [(one, None) for one in ranked]
    some = ranks.some([one.key for one in ranked])
    # The option is that of an app, which this one can do without.
    uniques = import_module("django_counters.contrib.uniques")
    people = uniques.each(some.using(using).per(by).last(1))
    return [(one, people.get(one.key)) for one in ranked]
