"""Many counters in one request: all or none are changed, and the known ones are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import router
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock
from django_counters.exceptions import CounterUnavailable
from django_counters.models import Counter
from django_counters.projections.event import Event, event_of
from django_counters.querysets import CounterQuerySet
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.rest.actors import event_of_change
from django_counters.rest.base import CounterView, answer_once, reading_body
from django_counters.rest.bodies import (
    ChangeManyAnswer,
    ChangeManyBody,
    ReadManyAnswer,
    ReadManyBody,
    described,
    once,
)
from django_counters.rest.permissions import MayIncrement, MayRead
from django_counters.rest.problems import ApiError
from django_counters.rest.targets import NamedTarget, OfRecord, Target, told
from django_counters.rest.views import change_body
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.strategies.declaring import MAX_AGE
from django_counters.types import Reading
from django_counters.values import Result
from django_counters.write import pipeline

Changes = Mapping[str, tuple[Target, int]]


@described("read_many", ReadManyAnswer, body=ReadManyBody)
class ReadManyView(CounterView):
    """Read up to 500 counters."""

    may = MayRead

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Unknown and forbidden counters are listed alike."""
        asked = self.checked(ReadManyBody)
        keys = list(dict.fromkeys(asked["keys"]))
        targets = self.visible(keys)
        found = readings(targets, exact=asked["consistency"] == "exact")
        body = {
            "counters": [reading_body(key, found[key]) for key in keys if key in found],
            "unknown": [key for key in keys if key not in found],
        }
        return Response(body, headers={"Cache-Control": "no-store"})


def readings(targets: Mapping[str, Target], *, exact: bool) -> dict[str, Reading]:
    """The readings by key, in few steps. Leaves out a record that was deleted meanwhile.

    Raises:
        CounterUnavailable: an exact value cannot be read.
    """
    named = [key for key, target in targets.items() if isinstance(target, NamedTarget)]
    found = _known_exactly(named) if exact else _cached(named)
    groups: dict[str, list[OfRecord]] = {}
    for target in targets.values():
        if isinstance(target, OfRecord):
            groups.setdefault(target.exposed.label, []).append(target)
    for group in groups.values():
        found.update(_of_records(group, exact=exact))
    return found


def _known_exactly(keys: list[str]) -> dict[str, Reading]:
    found = readings_of(keys)
    for key, reading in found.items():
        if reading.consistency != "exact":
            raise CounterUnavailable(using=registry.policy(key).recipe.cache, reason="no answer")
    return found


def _cached(keys: list[str]) -> dict[str, Reading]:
    alias = router.db_for_write(Counter)
    inside: list[str] = []
    groups: dict[tuple[Outside, float], list[str]] = {}
    for key in keys:
        policy = registry.policy(key)
        strategy = registry.outside(policy.recipe, NAMED, alias)
        group = groups.setdefault((strategy, policy.max_age), []) if strategy else inside
        group.append(key)
    found = readings_of(inside)
    for (strategy, max_age), group in groups.items():
        found.update({str(key): one for key, one in strategy.readings(group, max_age).items()})
    return found


def _of_records(group: list[OfRecord], *, exact: bool) -> dict[str, Reading]:
    exposed = group[0].exposed
    alias = group[0].alias
    field: Any = exposed.field
    strategy = registry.outside(field.recipe, field.table, alias)
    if strategy is None or exact:
        return _exact_of_records(group)
    natives = {field._key(target.record, alias): target.key for target in group}
    return {natives[key]: found for key, found in strategy.readings(natives, MAX_AGE).items()}


def _exact_of_records(group: list[OfRecord]) -> dict[str, Reading]:
    exposed, as_of = group[0].exposed, clock.now()
    name = exposed.field.name
    # The queryset of the records may use another database than their model.
    alias = router.db_for_read(exposed.model, instance=group[0].record)
    own: Any = exposed.model._meta.pk
    keys = {getattr(target.record, own.attname): target.key for target in group}
    rows: CounterQuerySet[Any] = CounterQuerySet(exposed.model, using=alias).filter(pk__in=keys)
    return {
        keys[row.pk]: Reading(int(getattr(row, name)), 0, 0, as_of, "exact")
        for row in rows.with_counts(name)
    }


@described("increment_many", ChangeManyAnswer, once(), body=ChangeManyBody)
class IncrementManyView(CounterView):
    """Add to up to 500 counters."""

    may = MayIncrement

    def post(self, request: Request) -> Response:
        """All or none. No counter may be there twice."""
        asked = self.checked(ChangeManyBody)
        items = {item["key"]: item["by"] for item in asked.pop("counters")}
        targets = self.targets(list(items))
        changes = {key: (targets[key], by) for key, by in items.items()}
        event = event_of_change(request, self, targets.values(), asked)
        events = _events(targets, event, is_named="who" in asked)
        joins, using = _place(targets, events)
        self.admit_changes(changes, events)

        def work(_: object) -> dict[str, Any]:
            counters = _changed(changes, events, using, joins=joins)
            return {"counters": counters, "replayed": False}

        # No counter can be mistaken for ``tags``, ``at`` or ``who``: amounts are numbers.
        given = told(event)
        whole = {**given, "counters": items} if given else items
        return answer_once(request, whole, work, using, joins=joins, mark=_mark)


def _mark(body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
    """Mark each counter of the answer, too."""
    counters = [{**part, "replayed": replayed} for part in body["counters"]]
    return {"counters": counters, "replayed": replayed}


def _events(targets: Mapping[str, Target], event: Event, *, is_named: bool) -> dict[str, Event]:
    """What is told of each counter: who is logged in is told to those that count actors only."""
    plain = event if is_named else event_of(event.at, event.tags)
    return {key: event if target.counts_actors else plain for key, target in targets.items()}


def _place(targets: Mapping[str, Target], events: Mapping[str, Event]) -> tuple[bool, str]:
    """Whether one transaction changes these counters, and its database."""
    joining = {target.joins for target in targets.values()}
    places = {target.alias for target in targets.values()}
    recipes = {target.recipe for target in targets.values() if isinstance(target, NamedTarget)}
    records = sum(not isinstance(target, NamedTarget) for target in targets.values())
    # Cached counters need one step in Redis.
    whose = {event.who for event in events.values()}
    is_one_step = joining == {True} or len(recipes) + records == len(whose) == 1
    if len(joining) > 1 or len(places) > 1 or not is_one_step:
        says = "These counters are kept in several places, which no step changes together."
        raise ApiError(400, "unsupported", says)
    return joining.pop(), places.pop()


def _changed(
    changes: Changes, events: Mapping[str, Event], using: str, *, joins: bool
) -> list[dict[str, Any]]:
    if not joins:
        values = _counted(changes, events, in_one_step=True)
    else:
        with pipeline.all_or_nothing(using):
            values = _counted(changes, events, in_one_step=False)
    return [change_body(target, by, values[key]) for key, (target, by) in changes.items()]


def _counted(
    changes: Changes, events: Mapping[str, Event], *, in_one_step: bool
) -> dict[str, Result]:
    """Change records first and all in one order, so that two requests cannot deadlock.

    Named counters that count actors come before others, also where nobody is named.
    """
    values: dict[str, Result] = {}
    groups: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for key in sorted(changes):
        target, by = changes[key]
        if isinstance(target, NamedTarget):
            groups[0 if in_one_step or target.counts_actors else 1][key] = by
        else:
            values[key] = target.change(by, None, events[key])
    for named in filter(None, groups):
        event = events[next(iter(named))]
        values.update(Counter.objects.increment_many(named, **event._asdict()))
    return values
