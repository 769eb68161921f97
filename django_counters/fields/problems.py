"""What can be wrong with a counter field."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.db import models

from django_counters.conf import (
    FIELD_DETOURS,
    FIELD_STRATEGIES,
    bounds_problems,
    did_you_mean,
    is_duration,
    limit_problems,
    shards_problems,
)
from django_counters.fields.base import BaseCounterField
from django_counters.hints import HINTS
from django_counters.measure import measure_problems
from django_counters.types import UNBOUNDED
from django_counters.write.records import can_be_slotted


def problems(field: BaseCounterField) -> Iterator[checks.CheckMessage]:
    """Yield E010 to E018, E020, E024, E028 and W010 for one field."""
    for code, message in _all(field):
        kind = checks.Warning if code.startswith("W") else checks.Error
        yield kind(message, hint=HINTS[code], obj=field, id=f"counters.{code}")


def _all(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    yield from _strategy(field)
    yield from _bounds(field)
    if field.null:
        yield "E012", "A counter cannot be null: it starts at zero."
    if field.primary_key:
        yield "E013", "A counter cannot be a primary key."
    elif _is_indexed(field):
        yield "W010", "An index on a counter slows down every increment."
    for problem in limit_problems(field.approve_above):
        yield "E024", f"Its approve_above is wrong: {problem}"
    for problem in measure_problems(field.per, field.tags, field.keep):
        yield "E028", f"Its periods are wrong: {problem}"
    if field.per is not None and not can_be_slotted(field.model):
        yield "E028", "To be counted by period needs an integer, UUID or text as primary key."
    if len(field.model._meta.pk_fields) > 1:
        yield "E014", "Models with a composite primary key cannot count yet."


def _strategy(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    if field.strategy not in FIELD_STRATEGIES:
        guess = did_you_mean(field.strategy, FIELD_STRATEGIES)
        if field.strategy == "sharded":
            guess = " Shards belong to named counters; a field is 'slotted'."
        yield "E010", f"The strategy {field.strategy!r} is unknown.{guess}"
    elif not field.recipe.can.bounded and field.bounds != UNBOUNDED:
        yield "E016", f"{field.strategy} cannot hold a floor or a ceiling, exact can."
    elif not field.recipe.can.bounded and not can_be_slotted(field.model):
        what = "Slots need" if field.recipe.can.slots else "A cached field needs"
        yield "E018", f"{what} an integer, UUID or text as primary key."
    if field.strategy == "cached" and field.on_redis_down not in FIELD_DETOURS:
        guess = did_you_mean(field.on_redis_down, FIELD_DETOURS)
        yield "E020", f"on_redis_down cannot be {field.on_redis_down!r}.{guess}"
    if not is_duration(field.timeout):
        yield "E020", f"timeout is a number of seconds above zero, not {field.timeout!r}."
    for problem in shards_problems(field.slots):
        yield "E017", f"Its slots are wrong: {problem}"


def _bounds(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    wrong = list(bounds_problems(*field.bounds))
    for problem in wrong:
        yield "E011", f"Its bounds are wrong: {problem}"
    for name in ("default", "db_default"):
        number = getattr(field, name)
        if number is models.NOT_PROVIDED or callable(number) or hasattr(number, "as_sql"):
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            yield "E015", f"The {name} {number!r} is no integer."
        elif not wrong and not field.bounds.hold(number):
            yield "E015", f"The {name} {number} is out of its bounds."


def _is_indexed(field: BaseCounterField) -> bool:
    options = field.model._meta
    declared = (name for index in options.indexes for name, _ in index.fields_orders)
    return field.db_index or field.unique or field.name in declared
