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
from django_counters.querysets import CounterQuerySet
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.rest.base import CounterView
from django_counters.rest.bodies import ChangeManyBody, ReadManyBody
from django_counters.rest.describing import described
from django_counters.rest.permissions import MayIncrement, MayRead
from django_counters.rest.problems import Refused
from django_counters.rest.targets import Circumstances, Named, OfRecord, Target
from django_counters.rest.views import change_body, reading_body
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.strategies.declaring import MAX_AGE
from django_counters.types import Reading
from django_counters.values import Result
from django_counters.write import pipeline

Changes = Mapping[str, tuple[Target, int]]


@described("read_many")
class ReadManyView(CounterView):
    """``POST bulk/read``: the values of up to 500 counters."""

    may = MayRead

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Read. Unknown and forbidden counters are listed alike."""
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
    named = [key for key, target in targets.items() if isinstance(target, Named)]
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
    rows: CounterQuerySet[Any] = CounterQuerySet(exposed.model, using=alias).filter(
        pk__in=[target.record.pk for target in group]
    )
    values = {row.pk: int(getattr(row, name)) for row in rows.with_counts(name)}
    return {
        target.key: Reading(values[target.record.pk], 0, 0, as_of, "exact")
        for target in group
        if target.record.pk in values
    }


@described("increment_many")
class IncrementManyView(CounterView):
    """``POST bulk/increment``: up to 500 counters, all or none of them."""

    may = MayIncrement

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Count. Each counter is checked for its own permission."""
        asked = self.checked(ChangeManyBody)
        items = {item["key"]: item["by"] for item in asked.pop("counters")}
        circumstances = Circumstances(**asked)
        targets = self.targets(list(items))
        changes = {key: (targets[key], by) for key, by in items.items()}
        joins, using = _place(targets)
        self.admit_changes(changes, circumstances)

        def work(_: object) -> dict[str, Any]:
            counters = _changed(changes, circumstances, using, joins=joins)
            return {"counters": counters, "replayed": False}

        # No counter can be mistaken for ``tags`` or ``at``: amounts are numbers.
        told = circumstances.told()
        return self.answered(
            {**told, "counters": items} if told else items, work, using, joins=joins
        )

    def marked(self, body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
        """Mark each counter of the answer, too."""
        counters = [{**part, "replayed": replayed} for part in body["counters"]]
        return {"counters": counters, "replayed": replayed}


def _place(targets: Mapping[str, Target]) -> tuple[bool, str]:
    """Whether one transaction changes these counters, and its database."""
    joining = {target.joins for target in targets.values()}
    places = {target.alias for target in targets.values()}
    recipes = {target.recipe for target in targets.values() if isinstance(target, Named)}
    records = sum(not isinstance(target, Named) for target in targets.values())
    # Cached counters need one step in Redis.
    is_one_step = joining == {True} or len(recipes) + records == 1
    if len(joining) > 1 or len(places) > 1 or not is_one_step:
        says = "These counters are kept in several places, which no step changes together."
        raise Refused(400, "unsupported", says)
    return joining.pop(), places.pop()


def _changed(
    changes: Changes, circumstances: Circumstances, using: str, *, joins: bool
) -> list[dict[str, Any]]:
    if not joins:
        values = _counted(changes, circumstances)
    else:
        with pipeline.all_or_nothing(using):
            values = _counted(changes, circumstances)
    return [change_body(target, by, values[key]) for key, (target, by) in changes.items()]


def _counted(changes: Changes, circumstances: Circumstances) -> dict[str, Result]:
    """Change records first and in one order, so that two requests cannot deadlock."""
    values: dict[str, Result] = {}
    named: dict[str, int] = {}
    for key in sorted(changes):
        target, by = changes[key]
        if isinstance(target, Named):
            named[key] = by
        else:
            values[key] = target.change(by, None, circumstances)
    if named:
        tags, at = circumstances
        values.update(Counter.objects.increment_many(named, at=at, tags=tags))
    return values
