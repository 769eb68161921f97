"""What can be wrong with a counter field."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.db import models

from django_counters import conf
from django_counters.fields.base import BaseCounterField
from django_counters.hints import HINTS
from django_counters.write.records import can_be_slotted


def problems(field: BaseCounterField) -> Iterator[checks.CheckMessage]:
    """Yield E010 to E018, E020, E024, E028, E030, E034, E037, W010 and W024 for one field."""
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
    if _is_left_behind(field):
        yield (
            "W024",
            "Its records are deleted in the database (DB_CASCADE), which sends no signals.",
        )
    for problem in _limit(field):
        yield "E024", problem
    yield from _projections(field)
    if len(field.model._meta.pk_fields) > 1:
        yield "E014", "Models with a composite primary key cannot count yet."


def _is_left_behind(field: BaseCounterField) -> bool:
    """Return whether Django 6.1's cascades can leave rows of deleted records behind."""
    cascade = getattr(models, "DB_CASCADE", None)
    if cascade is None or not field.leaves_rows:
        return False
    relations = filter(None, (one.remote_field for one in field.model._meta.fields))
    return any(relation.on_delete is cascade for relation in relations)


def _limit(field: BaseCounterField) -> Iterator[str]:
    (option,) = (one for one in conf.COMMON if one.key == "approve_above")
    return option._replace(name=option.key).problems(field.approve_above)


def _projections(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    given = conf.projected_options(field.options)
    for projection in conf.projections():
        for problem in projection.problems(**given):
            yield projection.in_fields, problem
        own = (option.name for option in projection.options)
        named = next((name for name in own if given[name] is not None), None)
        # A ceiling of the value is an option there, too, and counts nothing beside it.
        counts = any(projection.make(**given).values())
        if named and counts and not can_be_slotted(field.model):
            problem = f"{named} needs an integer, UUID or text as primary key."
            yield projection.in_fields, problem
    declared = conf.field_strategies().get(field.strategy)
    if declared is not None:
        yield from conf.conflicts(declared, field.bounds, field.options, of_field=True)
    if field.measure and field.measure.counts_actors:
        yield from _start(field)


def _start(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    for name in ("default", "db_default"):
        number = getattr(field, name)
        if number is not models.NOT_PROVIDED and number != 0:
            problem = f"The {name} {number!r} cannot be: once counts actors, and starts at 0."
            yield "E032", problem


def _strategy(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    if field.strategy not in tuple(conf.field_strategies()):
        guess = conf.other_strategy(field.strategy, conf.field_strategies())
        yield "E010", f"The strategy {field.strategy!r} is unknown.{guess}"
    else:
        offered = conf.field_strategies()
        for message in conf.unheld(field.recipe.declaration, field.bounds, offered):
            yield "E016", message
    if not field.recipe.can.in_place and not can_be_slotted(field.model):
        yield "E018", f"{field.strategy} needs an integer, UUID or text as primary key."
    for name, given in field.options.items():
        option = conf.field_options(field.strategy)[name]
        for problem in option.problems(given):
            yield option.code or "E020", problem
        if given != option.default and (owners := _others_with(name, field.strategy)):
            yield "E020", f"{name} is for {' and '.join(owners)}, not for {field.strategy}."


def _others_with(name: str, strategy: str) -> list[str]:
    """The strategies that have an option, where this one has not."""
    known = conf.field_strategies()
    owners = [one for one in known if name in {option.name for option in known[one].fields or ()}]
    return [] if strategy in owners or strategy not in known else owners


def _bounds(field: BaseCounterField) -> Iterator[tuple[str, str]]:
    wrong = list(conf.bounds_problems(*field.bounds))
    for problem in wrong:
        yield "E011", f"Its bounds are wrong: {problem}"
    for name in ("default", "db_default"):
        number = field.declared_units(getattr(field, name))
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
