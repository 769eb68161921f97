"""The counters of a series: named ones, all of a namespace, or records of a field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db import connections, models, router
from django.db.models.functions import Cast

from django_counters import clock
from django_counters.conf import Policy
from django_counters.contrib.series.options import recorded_period
from django_counters.effects import has_cells
from django_counters.errors import InvalidKey, UnsavedInstance, UnsupportedSeries
from django_counters.measure import Measure
from django_counters.reading import check_keys
from django_counters.redis.keys import SLOTS, slot_of
from django_counters.registry import registry
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.declaring import Recipe
from django_counters.tables import CounterBatch
from django_counters.tables.schema import COUNTERS, ENTRIES
from django_counters.tables.total import TotalField
from django_counters.tokens import moment_of
from django_counters.types import check_key, counter_of
from django_counters.write.records import CounterColumn

Cells = models.QuerySet[Any]
COUNTED, LEDGER, RECORDED, NONE = "counted", "ledger", "recorded", "none"
UNDECLARED = "name periods in PER, or record its totals with HISTORY, or make it a ledger"


class CellSource(Protocol):
    """The counters whose cells are read."""

    @property
    def label(self) -> str:
        """Their name in errors."""

    @property
    def measure(self) -> Measure | None:
        """Their declaration, if they are counted by period."""

    @property
    def kind(self) -> str:
        """Where their history is: `COUNTED`, `LEDGER` or `RECORDED`; else `NONE`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of named counters."""

    @property
    def is_one(self) -> bool:
        """Whether it is exactly one counter."""

    @property
    def recipe(self) -> Recipe:
        """Their strategy, and what it can do."""

    def database(self, using: str | None) -> str:
        """Return the database of the cells."""

    def slots(self, using: str) -> Iterable[int]:
        """Return the slots with pending increments of cached counters."""

    def has_entries(self, using: str) -> bool:
        """Return whether a ledger has entries of them."""

    def among(self, rows: Cells, using: str) -> Cells:
        """Filter a queryset of cells or ranks by these counters."""

    def names(self, using: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return the name of each counter by the key of its cells. ``keys`` has those with some."""

    def found(self, using: str, keys: Sequence[str]) -> dict[str, tuple[Any, Any]]:
        """Return name and record of each counter, by the key of its cells; None for no record."""


def _by_period(measure: Measure | None) -> Measure | None:
    return measure if measure is not None and has_cells(measure) else None


def kind_of(key: str) -> str:
    """Return where the history of a named counter is. Cells are exact, so they come first."""
    policy = registry.policy(key)
    if policy.measure is not None and policy.measure.declared("per"):
        return COUNTED
    if policy.recipe.can.entries:
        return LEDGER
    return RECORDED if recorded_period(policy.options) else NONE


@dataclass(frozen=True, slots=True)
class NamedSource:
    """Named counters of one policy."""

    keys: tuple[str, ...]

    @property
    def label(self) -> str:
        return ", ".join(self.keys[:3]) + (" …" if len(self.keys) > 3 else "")

    @property
    def measure(self) -> Measure | None:
        return _by_period(registry.policy(self.keys[0]).measure)

    @property
    def kind(self) -> str:
        return kind_of(self.keys[0])

    @property
    def is_one(self) -> bool:
        return len(self.keys) == 1

    @property
    def recipe(self) -> Recipe:
        return registry.policy(self.keys[0]).recipe

    def slots(self, using: str) -> Iterable[int]:  # noqa: ARG002
        return set(map(slot_of, self.keys))

    def database(self, using: str | None) -> str:
        return COUNTERS.reading(using)

    def has_entries(self, using: str) -> bool:
        return ENTRIES.rows(using).filter(key__in=self.keys).exists()

    def among(self, rows: Cells, using: str) -> Cells:  # noqa: ARG002
        return _of_keys(rows, self.keys)

    def names(self, using: str, keys: Iterable[str]) -> dict[str, Any]:  # noqa: ARG002
        return {key: key for key in self.keys}

    def found(self, using: str, keys: Sequence[str]) -> dict[str, tuple[Any, Any]]:  # noqa: ARG002
        return {key: (key, None) for key in keys}


@dataclass(frozen=True, slots=True)
class Namespace:
    """All counters of a namespace that declares periods."""

    name: str

    @property
    def label(self) -> str:
        return self.name

    @property
    def measure(self) -> Measure | None:
        return self._policy.measure

    @property
    def kind(self) -> str:
        return NONE if self.measure is None else COUNTED

    @property
    def keys(self) -> tuple[str, ...]:
        return ()

    @property
    def is_one(self) -> bool:
        return False

    @property
    def recipe(self) -> Recipe:
        return self._policy.recipe

    @property
    def _policy(self) -> Policy:
        return registry.policies()[self.name]

    def slots(self, using: str) -> Iterable[int]:  # noqa: ARG002
        return range(SLOTS)

    def database(self, using: str | None) -> str:
        return COUNTERS.reading(using)

    def has_entries(self, using: str) -> bool:
        return ENTRIES.of_namespace(self.name, using).exists()

    def among(self, rows: Cells, using: str) -> Cells:  # noqa: ARG002
        return rows

    def names(self, using: str, keys: Iterable[str]) -> dict[str, Any]:  # noqa: ARG002
        return {key: key for key in keys}

    def found(self, using: str, keys: Sequence[str]) -> dict[str, tuple[Any, Any]]:  # noqa: ARG002
        return {key: (key, None) for key in keys}


def flushed_until(source: CellSource, using: str) -> datetime | None:
    """Return the moment before which all counts are in the database; None if it isn't known.

    For cached counters it is when the last flushed generation was opened. The amount counted before
    it was flushed earlier, or lost.
    """
    outside = registry.outside(source.recipe, NAMED, using)
    if outside is None:
        return clock.now()
    batches = CounterBatch._base_manager.using(using).filter(source=outside.source)
    landed = batches.order_by("-generation")
    with Session(using).translated():
        last = [landed.filter(slot=slot).first() for slot in source.slots(using)]
    opened = [moment_of(batch.generation) for batch in last if batch is not None]
    return clock.shown(min(opened)) if opened and len(opened) == len(last) else None


def of_keys(keys: object) -> NamedSource:
    """Return the source of one key, or of several.

    Raises:
        InvalidKey: a key is invalid, or there is none.
        UnsupportedSeries: they aren't counted by the same periods, so no statement reads them all.
    """
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        return NamedSource((check_key(keys),))
    names = tuple(check_keys(keys))
    if not names:
        raise InvalidKey(key=keys, reason="a series needs at least one")
    policies = [registry.policy(key) for key in names]
    ways = {(kind_of(key), policy.measure) for key, policy in zip(names, policies, strict=True)}
    if len(ways | {recorded_period(policy.options) for policy in policies}) > 2:
        reason = "these keys are of several namespaces, and one series is of one"
        raise UnsupportedSeries(key=NamedSource(names).label, reason=reason)
    return NamedSource(names)


def of_namespace(name: object) -> Namespace:
    """Return the source of all counters of a namespace.

    Raises:
        UnsupportedSeries: it isn't declared, or declares no periods.
    """
    known = registry.policies()
    if not isinstance(name, str) or name not in known:
        raise UnsupportedSeries(key=str(name), reason="COUNTERS has no namespace of that name")
    if known[name].measure is None:
        raise UnsupportedSeries(key=name, reason="name periods in PER")
    return Namespace(name)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a model with a field.

    Attributes:
        field: the counter.
        model: the field's model, or a child of it.
        chosen: which of its records; None for all that were ever counted.
    """

    field: TotalField
    model: type[models.Model]
    chosen: models.QuerySet[Any] | tuple[models.Model, ...] | None = None

    @property
    def label(self) -> str:
        return f"{self.field.model._meta.label}.{self.field.name}"

    @property
    def measure(self) -> Measure | None:
        return _by_period(self.field.measure)

    @property
    def kind(self) -> str:
        return COUNTED

    @property
    def keys(self) -> tuple[str, ...]:
        return ()

    @property
    def is_one(self) -> bool:
        return isinstance(self.chosen, tuple) and len(self.chosen) == 1

    @property
    def recipe(self) -> Recipe:
        place: CounterColumn = self.field.declared()
        return place.recipe

    def slots(self, using: str) -> Iterable[int]:
        if not isinstance(self.chosen, tuple):
            return range(SLOTS)
        return {slot_of(counter_of(self.label, key)) for key in self.names(using, ())}

    @property
    def _pk(self) -> Any:
        return self.field.model._meta.pk

    def database(self, using: str | None) -> str:
        if using is not None:
            return using
        if isinstance(self.chosen, models.QuerySet):
            return self.chosen.db
        # Loaded together, they are in one database.
        hints = {"instance": self.chosen[0]} if self.chosen else {}
        return router.db_for_read(self.model, **hints)

    def has_entries(self, using: str) -> bool:  # noqa: ARG002 - these are of named counters
        return False

    def among(self, rows: Cells, using: str) -> Cells:
        if self.chosen is None:
            return rows
        # On MySQL a sliced queryset can't be part of another one.
        slices = connections[using].features.allow_sliced_subqueries_with_in
        if isinstance(self.chosen, models.QuerySet) and (slices or not self.chosen.query.is_sliced):
            text = Cast(self._pk.attname, models.TextField())
            return rows.filter(key__in=self.chosen.using(using).values_list(text))
        return _of_keys(rows, tuple(self.names(using, ())))

    def names(self, using: str, keys: Iterable[str]) -> dict[str, Any]:
        if self.chosen is None:
            return self._natives(keys)
        if isinstance(self.chosen, models.QuerySet):
            pairs: Any = self.chosen.using(using).values_list(self._pk.attname, "pk")
        else:
            pairs = ((self._saved(record), record.pk) for record in self.chosen)
        prepared, connection = self._pk.get_db_prep_value, connections[using]
        return {str(prepared(key, connection)): pk for key, pk in pairs}

    def found(self, using: str, keys: Sequence[str]) -> dict[str, tuple[Any, Any]]:
        found: Iterable[Any]
        if isinstance(self.chosen, tuple):
            found = self.chosen
        else:
            chosen = self.model._base_manager.all() if self.chosen is None else self.chosen.all()
            # Of a part of the rows these are some: to choose them again needs no limits.
            chosen.query.clear_limits()
            some = {f"{self._pk.attname}__in": list(self._natives(keys).values())}
            found = chosen.using(using).filter(**some)
        prepared, connection = self._pk.get_db_prep_value, connections[using]
        records = {str(prepared(getattr(one, self._pk.attname), connection)): one for one in found}
        return {key: (records[key].pk, records[key]) for key in keys if key in records}

    def _natives(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return primary keys by their texts."""
        key: Any = self._pk
        while key.is_relation:
            key = key.target_field
        return {text: key.to_python(text) for text in texts}

    def _saved(self, record: models.Model) -> Any:
        key = getattr(record, self._pk.attname)
        if record._state.adding or key is None:
            raise UnsavedInstance(key=f"{self.label}:{key}")
        return key


def _of_keys(rows: Cells, keys: tuple[str, ...]) -> Cells:
    return rows.filter(key=keys[0]) if len(keys) == 1 else rows.filter(key__in=keys)


def of_records(field: TotalField, model: type[models.Model], records: object) -> Records:
    """Return the source of a queryset, of loaded records, or of one.

    Raises:
        InvalidKey: something else is among them.
    """
    chosen: Any
    if isinstance(records, models.QuerySet):
        wrong = None if issubclass(records.model, field.model) else records.model
        chosen = records.all()
    else:
        # A lazy object such as request.user has a method for everything.
        is_record = isinstance(records, models.Model)
        several = isinstance(records, Iterable) and not is_record
        chosen = tuple(records) if several else (records,)  # type: ignore[arg-type]
        wrong = next((record for record in chosen if not isinstance(record, field.model)), None)
    if wrong is not None:
        raise InvalidKey(key=wrong, reason=f"it is no record of {field.model._meta.label}")
    return Records(field, model, chosen)
