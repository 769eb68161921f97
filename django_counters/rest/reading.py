"""Reads many counters in few steps: those of one kind together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import router

from django_counters import clock
from django_counters.conf import MAX_AGE
from django_counters.exceptions import CounterUnavailable
from django_counters.models import Counter
from django_counters.querysets import CounterQuerySet
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.rest.targets import Named, OfRecord, Target
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.types import Reading


def readings(targets: Mapping[str, Target], *, exact: bool) -> dict[str, Reading]:
    """The readings of counters, by key. A record that is gone meanwhile is left out.

    Raises:
        CounterUnavailable: an exact value cannot be told.
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


def _exactly(keys: list[str]) -> dict[str, Reading]:
    return readings_of(keys) if keys else {}


def _known_exactly(keys: list[str]) -> dict[str, Reading]:
    found = _exactly(keys)
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
    found = _exactly(inside)
    for (strategy, max_age), group in groups.items():
        found.update({str(key): one for key, one in strategy.readings(group, max_age).items()})
    return found


def _of_records(group: list[OfRecord], *, exact: bool) -> dict[str, Reading]:
    exposed = group[0].exposed
    alias = group[0].alias
    field: Any = exposed.field
    strategy = registry.outside(field.recipe, field.table, alias)
    if strategy is None or exact:
        return _counted(group)
    natives = {field._key(target.record, alias): target.key for target in group}
    return {natives[key]: found for key, found in strategy.readings(natives, MAX_AGE).items()}


def _counted(group: list[OfRecord]) -> dict[str, Reading]:
    exposed, as_of = group[0].exposed, clock.now()
    name = exposed.field.name
    # The records may be those of another database than that of their model.
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
