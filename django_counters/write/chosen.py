"""Several fields of many records: all that a queryset has is counted, or nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import Error, connections, models

from django_counters.errors import CounterError, CounterOverflow, OutcomeUnknown, RecordMissing
from django_counters.event import Event
from django_counters.projector import ChangeGuard
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.totals import Column, SqlHeld, add_at_once
from django_counters.strategies.base import AT_ONCE, Strategy, refusal, refuse_guarded
from django_counters.tables.schema import SLOTS
from django_counters.tables.total import TotalField
from django_counters.types import Batch, Delta, Effect, NewValues
from django_counters.write.changes import applied, effects_of, refuse_without_condition, tell
from django_counters.write.pipeline import all_or_nothing
from django_counters.write.records import CounterColumn, check_record_id

Rows = models.QuerySet[Any, Any]
Owner = type[models.Model]


class FieldChange(NamedTuple):
    """By how much one field of each record changes, and the cells of each."""

    field: TotalField
    by: int
    effects: tuple[Effect, ...]
    guard: ChangeGuard | None

    @property
    def place(self) -> CounterColumn:
        """Where its totals stand, and the declaration for it."""
        place: CounterColumn = self.field.declared()
        return place

    @property
    def owner(self) -> Owner:
        """The model whose table has the column."""
        return self.field.model

    @property
    def is_exact(self) -> bool:
        """Whether the column alone is changed, while the row is held."""
        return self.place.recipe.can.in_place

    def strategy(self, using: str) -> Strategy:
        """The strategy that counts it."""
        return registry.strategy(self.place.recipe, self.place.table, using)

    def batch(self, keys: Iterable[Hashable]) -> Batch:
        """The changes of all records, and of their cells."""
        bounds, effects = self.place.bounds, self.effects
        return Batch(tuple(Delta(key, self.by, bounds, None, effects, self.guard) for key in keys))


def field_change(field: TotalField, by: int, using: str, event: Event) -> FieldChange:
    """The change of one field, counted by when it happened and by tag.

    Raises:
        InvalidMoment, InvalidTags, UnsupportedSeries: it cannot be.
        CounterError: its changes have a condition.
    """
    place: CounterColumn = field.declared()
    admits, label = not place.recipe.can.outside, place.table.label
    refuse_without_condition(place.measure, label)
    effects = effects_of(place.measure, label, by, event, using=using, admits=admits)
    guarding = place.measure and place.measure.guard
    guard = guarding.guard(place.measure, effects, using) if guarding and place.measure else None
    return FieldChange(field, by, effects, guard)


def count(rows: Rows, using: str, changes: Sequence[FieldChange]) -> int:
    """Change fields of all records of a queryset, or of none; how many records there are.

    Cached counters come last, as it is counted anywhere: at once, or when the caller commits.
    """
    changes = [change for change in changes if change.by]
    if not changes:
        model: Any = rows.model._meta.concrete_model
        return _rows_of(model, rows, using).count()
    found = _in_one_statement(rows, using, changes)
    if found is not None:
        for at, change in enumerate(changes, 1):
            _tell(change, {row[0]: row[at] for row in found}, using)
        return len(found)
    cached = [change for change in changes if not change.place.recipe.can.joins]
    # In one order for all writers. What may be refused comes first.
    joining = sorted(
        (change for change in changes if change not in cached),
        key=lambda change: (not change.is_exact, change.place.table.label),
    )
    with all_or_nothing(using):
        if joining:
            _begin_writing(using)
        keys = _chosen_keys(rows, using, changes)
        values = {change: _apply(change, keys[change.owner], using) for change in joining}
    # Not before all of them are applied: one that is refused takes the others with it.
    for change in changes:
        _tell(change, values.get(change, {}), using)
    _count_cached(cached, keys, using, counted=any(values.values()))
    return len(keys[changes[0].owner])


def _in_one_statement(
    rows: Rows, using: str, changes: Sequence[FieldChange]
) -> list[tuple[Any, ...]] | None:
    """Change exact fields of one table; None where that cannot be, or is refused."""
    owner = changes[0].owner
    if not all(change.is_exact and change.owner is owner for change in changes):
        return None
    if any(change.effects for change in changes):
        return None
    session = Session(using)
    session.connect()
    columns = [Column(change.place.table, change.by, change.place.bounds) for change in changes]
    names = [change.field.attname for change in changes]
    try:
        query = _rows_of(owner, rows, using).values_list("pk", *names).query
        return add_at_once(session, query.get_compiler(using).as_sql(), columns)
    except EmptyResultSet:
        return []


def _rows_of(owner: Owner, rows: Rows, using: str) -> Rows:
    """The rows that a queryset chooses in one table, each of them once, in the order of keys.

    Where nothing else is joined, they are chosen again once they are held: who has left the
    queryset meanwhile is left out.
    """
    chosen = rows.using(using).order_by()
    chosen.query.select_for_update = False
    inner = chosen.values(_key_of(owner))
    if owner is rows.model._meta.concrete_model and _is_plain(inner.query):
        return chosen.order_by("pk")
    return models.QuerySet(owner, using=using).filter(pk__in=inner).order_by("pk")


def _is_plain(query: Any) -> bool:
    """Whether a query selects from one table, and whole rows of it."""
    joined = [alias for alias, used in query.alias_refcount.items() if used]
    special = query.extra or query.extra_tables or query.distinct or query.group_by is not None
    return len(joined) < 2 and not special and not query.where.contains_over_clause


def _key_of(owner: Owner) -> str:
    """The name by which a model and its children know the key of its rows."""
    pk: Any = owner._meta.pk
    return str(pk.attname)


def _begin_writing(using: str) -> None:
    """SQLite gives up at once where a reader becomes a writer: be one from the start."""
    if not connections[using].features.has_select_for_update:
        SLOTS.rows(using).filter(name="").update(count=0)


def _chosen_keys(
    rows: Rows, using: str, changes: Sequence[FieldChange]
) -> dict[Owner, list[Hashable]]:
    """The keys of all records in each table; rows with exact fields are held."""
    model: Any = rows.model._meta.concrete_model
    owners = list(dict.fromkeys(change.owner for change in changes))
    held = {change.owner for change in changes if change.is_exact}
    chosen = _rows_of(model, rows, using)
    if held == {model}:
        chosen = _held(chosen, using)
        held = set()
    names = [_key_of(owner) for owner in owners]
    found = [dict(zip(owners, keys, strict=True)) for keys in chosen.values_list(*names)]
    # Parents first, as save() does it.
    for owner in sorted(held, key=model.__mro__.index, reverse=True):
        table: Rows = models.QuerySet(owner, using=using).filter(
            pk__in=[keys[owner] for keys in found]
        )
        locked = _held(table.order_by("pk"), using)
        there = set(locked.values_list("pk", flat=True))
        found = [keys for keys in found if keys[owner] in there]
    return {owner: _natives(owner, [keys[owner] for keys in found], using) for owner in owners}


def _held(rows: Rows, using: str) -> Rows:
    """Rows that others may refer to, where the database can tell, but not change."""
    no_key = connections[using].features.has_select_for_no_key_update
    return rows.select_for_update(no_key=no_key)


def _natives(owner: Owner, keys: Iterable[Any], using: str) -> list[Hashable]:
    """Keys as their column holds them."""
    pk: Any = owner._meta.pk
    return [pk.get_db_prep_value(key, connections[using]) for key in keys]


def _apply(change: FieldChange, keys: Sequence[Hashable], using: str) -> NewValues:
    if not keys:
        return {}
    if change.is_exact:
        return _apply_held(change, keys, using)
    for key in keys:
        check_record_id(key)
    return change.strategy(using).apply(change.batch(keys))


def _apply_held(change: FieldChange, keys: Sequence[Hashable], using: str) -> NewValues:
    """Look at the values of rows that are held, refuse for all of them at once, or add."""
    place, by = change.place, change.by
    column = SqlHeld(place.table, using)
    amounts = column.read(keys)
    for key in keys:
        if key not in amounts:
            raise RecordMissing(key=column.label(key))
    deltas = change.batch(keys).deltas
    refused = [
        (delta, amounts[delta.key].value)
        for delta in deltas
        if not place.bounds.admits(amounts[delta.key].value, by)
    ]
    if refused:
        raise refusal(refused, column.label)
    low, high = place.table.capacity
    for key, (total, pending) in amounts.items():
        if not (low <= (total or 0) + by <= high and low <= (total or 0) + pending + by <= high):
            raise CounterOverflow(key=column.label(key), low=low, high=high)
    column.add(change.owner._meta.pk, keys, by)
    column.add_cells(change.guard.taken(deltas, column) if change.guard else deltas)
    refuse_guarded(deltas, column, counted=True)
    return {key: found.value + by for key, found in amounts.items()}


def _count_cached(
    changes: Sequence[FieldChange],
    keys: Mapping[Owner, list[Hashable]],
    using: str,
    *,
    counted: bool,
) -> None:
    """Hand the keys to Redis: a round trip for each field and page, within its time limit."""
    for change in changes:
        label, of_field = change.place.table.label, keys[change.owner]
        for start in range(0, len(of_field), AT_ONCE):
            batch = change.batch(of_field[start : start + AT_ONCE])
            try:
                applied(change.strategy(using), batch, using, label)
            except (CounterError, Error) as error:
                if not counted:
                    raise
                # Any other error would say that nothing was counted.
                raise OutcomeUnknown(using=using) from error
            counted = True


def _tell(change: FieldChange, values: NewValues, using: str) -> None:
    if values and batch_applied.receivers:
        label = change.place.table.label
        tell(change.strategy(using), change.batch(values), values, using, label)
