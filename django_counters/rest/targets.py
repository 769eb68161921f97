"""The counters of requests: named ones, and fields of records that `expose` adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models, router
from django.db.models.query import ModelIterable

from django_counters import errors, features
from django_counters.access import ACTIONS, CLOSED, Access, access_of, access_problems
from django_counters.adjustments.adjustment import adjust
from django_counters.adjustments.approval import ask
from django_counters.effects import names_members
from django_counters.event import PLAIN, Event, actor_of, event_of
from django_counters.fields import CounterField, counter_fields
from django_counters.fields.values import CounterValue, NotLoaded
from django_counters.measure import Measure
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.registry import registry
from django_counters.strategies.declaring import MAX_AGE, Recipe
from django_counters.types import Reading, Result, check_key, namespace_of
from django_counters.write import changes, records

# Counter fields in the API.


@dataclass(frozen=True, slots=True)
class Exposed:
    """One counter field in the API, its access, and its records."""

    field: CounterField
    access: Access
    model: type[models.Model]
    records: models.QuerySet[Any] | None

    @property
    def label(self) -> str:
        """The part of its keys before the colon."""
        return f"{self.model._meta.label}.{self.field.name}"

    def queryset(self) -> models.QuerySet[Any]:
        """The records in the API. Each request needs a new queryset."""
        return (self.model._default_manager if self.records is None else self.records).all()


_exposed: dict[str, Exposed] = {}


def expose(
    model: type[models.Model],
    *names: str,
    read: str | None = None,
    increment: str | None = None,
    decrement: str | None = None,
    adjust: str | None = None,
    approve: str | None = None,
    max_delta: int | None = None,
    origins: tuple[str, ...] | list[str] = (),
    limit: str | None = None,
    burst: int | None = None,
    who: str | None = None,
    records: models.QuerySet[Any] | None = None,
    **further: str,
) -> None:
    """Add counter fields of a model to the API: ``expose(Post, "views", read="anyone")``.

    The key of such a counter is ``<app>.<Model>.<field>:<primary key>``. The arguments are those of
    the ``API`` option of a namespace; actions that are not named are forbidden. Call it where the
    URLs are; a second call for the same field replaces the first.

    Args:
        names: counter fields.
        records: the records in the API, as in ``Post.objects.filter(published=True)``. All others
            look as if they did not exist. Each request evaluates it again.
        further: actions of other apps, as in ``cheer="authenticated"``.

    Raises:
        InvalidConfiguration: there is no such field, or it has decimal places, an argument is
            invalid, or no record can be looked up in ``records``.
    """
    given: dict[str, Any] = {
        "read": read,
        "increment": increment,
        "decrement": decrement,
        "adjust": adjust,
        "approve": approve,
        "max_delta": max_delta,
        "origins": origins,
        "limit": limit,
        "burst": burst,
        "who": who,
        **further,
    }
    # Arguments that were not given are left out; a zero or an empty text was given, and is wrong.
    given = {name: value for name, value in given.items() if value not in (None, ())}
    access = _checked(model._meta.label, given)
    _check_records(model, records)
    fields = {field.name: field for field in counter_fields(model)}
    # Expose all or none of them.
    for name in names or ("",):
        if name not in fields:
            problem = f"{model._meta.label} has no counter field {name!r}."
            raise errors.InvalidConfiguration(problem=problem)
        if not fields[name].is_whole:
            problem = f"{model._meta.label}.{name} has decimal places, and the API has integers."
            raise errors.InvalidConfiguration(problem=problem)
    for name in names:
        exposed = Exposed(fields[name], access, model, records)
        _exposed[exposed.label] = exposed


def _check_records(model: type[models.Model], records: Any) -> None:
    """Refuse records of another model, and those that would fail at each request."""
    if records is None:
        return
    problem = ""
    concrete = model._meta.concrete_model
    is_queryset = isinstance(records, models.QuerySet)
    # A child model may have another primary key.
    if not is_queryset or records.model._meta.concrete_model is not concrete:
        problem = f"records are a queryset of {model._meta.label}"
    elif records.query.is_sliced or records.query.combinator:
        problem = "records that are sliced or a union cannot be looked up by their key"
    elif not issubclass(records._iterable_class, ModelIterable):
        problem = "records are instances, not their values"
    elif records.query.select_for_update:
        problem = "records are looked up outside of transactions, where none can be locked"
    if problem:
        raise errors.InvalidConfiguration(problem=f"expose({model._meta.label}): {problem}")


def _checked(label: str, given: dict[str, Any]) -> Access:
    for problem in access_problems(given):
        raise errors.InvalidConfiguration(problem=f"expose({label}): {problem}")
    if not {*ACTIONS, *features.actions()} & set(given):
        problem = f"expose({label}): say who may do what, as in read='anyone'."
        raise errors.InvalidConfiguration(problem=problem)
    return access_of(given)


def labels_of(owner: str) -> list[str]:
    """The labels under which a field is in the API: that of its model, or of a child or proxy."""
    return [label for label, one in _exposed.items() if one.field.table.label == owner]


def exposed_as(label: str) -> Exposed | None:
    """The field whose keys begin with this label."""
    return _exposed.get(label)


# The counters that a request names.


def told(event: Event) -> dict[str, Any]:
    """What was given of an event, for JSON."""
    moment = None if event.at is None else event.at.isoformat()
    whose = None if event.who is None else actor_of(event.who)
    given = {"tags": event.tags, "at": moment, "who": whose}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Target(ABC):
    """One counter that a request is about.

    Attributes:
        key: its name in the API.
        access: who may do what with it.
        recipe: how it is kept.
        measure: the periods and tags that it is counted by, if any.
        max_age: how old a value from a cache may be, in seconds.
    """

    key: str
    access: Access
    recipe: Recipe
    measure: Measure | None
    max_age: float

    @property
    def joins(self) -> bool:
        """Whether a change of it is part of a transaction of the database."""
        return self.recipe.can.joins

    @property
    def counts_actors(self) -> bool:
        """Return whether it has to know who counts: for its condition, or distinct actors."""
        return self.has_condition or (self.measure is not None and names_members(self.measure))

    @property
    def has_condition(self) -> bool:
        """Return whether its changes have a condition, as that each actor counts once."""
        return self.measure is not None and self.measure.condition is not None

    @property
    @abstractmethod
    def alias(self) -> str:
        """The database that it is written to."""

    def check(self, event: Event) -> None:
        """Check the tags and the moment of a change, before anything is created for it.

        Raises:
            UnsupportedSeries, InvalidTags, InvalidMoment: it cannot be counted so.
        """
        if self.has_condition and self.measure and not names_members(self.measure):
            # The condition takes the actor, and no set does.
            event = event_of(event.at, event.tags)
        if event is not PLAIN:
            changes.effects_of(self.measure, self.key, 0, event, using=self.alias, admits=False)

    @abstractmethod
    def change(self, by: int, token: UUID | None = None, event: Event = PLAIN) -> Result:
        """Change it, and return its value."""

    def read(self, *, exact: bool) -> Reading:
        """Read its value."""
        return self._read("exact" if exact or self.joins else "cached")

    @abstractmethod
    def _read(self, consistency: str) -> Reading: ...

    @property
    @abstractmethod
    def ref(self) -> changes.Ref:
        """The counter, to be adjusted, or for a call of another app."""

    @property
    def can_be_asked_for(self) -> bool:
        """Whether it is in the database of the requests: their addresses are those of one."""
        return self.alias == router.db_for_write(AdjustmentRequest)

    def ask(self, **order: Any) -> AdjustmentRequest:
        """Ask a second person to adjust it."""
        return ask(self.ref, **order)

    def adjust(self, **order: Any) -> CounterAdjustment:
        """Adjust it."""
        return adjust(self.ref, **order)


@dataclass(frozen=True, slots=True)
class NamedTarget(Target):
    """A counter by key."""

    @property
    def alias(self) -> str:
        return router.db_for_write(Counter)

    @property
    def ref(self) -> changes.Ref:
        return changes.named(self.key, None)

    def change(self, by: int, token: UUID | None = None, event: Event = PLAIN) -> Result:
        return Counter.objects.increment(
            self.key, by, token=token, immediately=not self.joins, **event._asdict()
        )

    def _read(self, consistency: str) -> Reading:
        return Counter.objects.read(self.key, consistency=consistency)


@dataclass(frozen=True, slots=True)
class OfRecord(Target):
    """A counter field of a record."""

    exposed: Exposed
    record: models.Model

    @property
    def alias(self) -> str:
        return router.db_for_write(self.record._meta.model, instance=self.record)

    @property
    def ref(self) -> changes.Ref:
        return records.of_record(self.record, self.exposed.field.name)

    @property
    def _value(self) -> CounterValue | NotLoaded:
        value: CounterValue | NotLoaded = getattr(self.record, self.exposed.field.name)
        return value

    def change(self, by: int, token: UUID | None = None, event: Event = PLAIN) -> Result:
        immediately = not self.joins
        return self._value.increment(by, token=token, immediately=immediately, **event._asdict())

    def _read(self, consistency: str) -> Reading:
        return self._value.read(consistency=consistency)


def access_to(key: object) -> Access:
    """The access that is declared for a counter; closed where none is."""
    if not isinstance(key, str):
        return CLOSED
    namespace = namespace_of(key)
    exposed = exposed_as(namespace)
    if exposed is not None:
        return exposed.access
    declared = registry.policies().get(namespace)
    return declared.access if declared and namespace else CLOSED


def targets_of(keys: Iterable[str]) -> dict[str, Target]:
    """The counters with these keys. Those of one model take one query. Leaves out missing records.

    Raises:
        InvalidKey: a key is invalid.
    """
    found: dict[str, Target] = {}
    groups: dict[Exposed, list[str]] = {}
    for key in keys:
        if exposed := exposed_as(namespace_of(check_key(key))):
            groups.setdefault(exposed, []).append(key)
        else:
            found[key] = named(key)
    for exposed, group in groups.items():
        found.update(_of_records(exposed, group))
    return found


def named(key: str) -> NamedTarget:
    """The named counter with this key, as its namespace declares it."""
    policy = registry.policy(key)
    return NamedTarget(key, access_to(key), policy.recipe, policy.measure, policy.max_age)


def _of_records(exposed: Exposed, keys: list[str]) -> dict[str, Target]:
    natives = {}
    for key in keys:
        native = _native(exposed, key[len(exposed.label) + 1 :])
        if native is not None:
            natives[key] = native
    # A record may be an instance of a child, with another primary key.
    own: Any = exposed.model._meta.pk
    records = exposed.queryset().in_bulk(list(set(natives.values())), field_name=own.attname)
    field = exposed.field
    declared = (exposed.access, field.recipe, field.measure, MAX_AGE)
    return {
        key: OfRecord(key, *declared, exposed, records[native])
        for key, native in natives.items()
        if native in records
    }


def _native(exposed: Exposed, text: str) -> Any:
    """The primary key that a text means; None where it is not in the canonical form."""
    field: Any = exposed.model._meta.pk
    try:
        native = field.to_python(text)
        field.run_validators(native)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None
    # One record has one name: ``5`` is not ``05``.
    return native if str(native) == text else None
