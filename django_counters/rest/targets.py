"""What a key of a request means: a named counter, or a field of a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models, router

from django_counters.access import CLOSED, Access
from django_counters.adjustments.approval import ask
from django_counters.fields.values import CounterValue, NotLoaded
from django_counters.measure import Measure
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.projections.cells import effects_of
from django_counters.projections.event import PLAIN, Event, actor_of, event_of
from django_counters.read.series import Series
from django_counters.registry import registry
from django_counters.rest.exposed import Exposed, exposed_as
from django_counters.strategies.declaring import MAX_AGE, Recipe
from django_counters.types import Reading, check_key, namespace_of
from django_counters.values import Result
from django_counters.write import change as write
from django_counters.write.change import Ref
from django_counters.write.records import of_record


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
        """Whether it knows who counts: distinct actors are counted, or each counts once."""
        return self.counts_once or (self.measure is not None and bool(self.measure.unique))

    @property
    def counts_once(self) -> bool:
        """Whether each actor counts once."""
        return self.measure is not None and self.measure.once is not None

    @property
    @abstractmethod
    def alias(self) -> str:
        """The database that it is written to."""

    @property
    @abstractmethod
    def series(self) -> Series:
        """What was counted over time."""

    def check(self, event: Event) -> None:
        """Check the tags and the moment of a change, before anything is created for it.

        Raises:
            UnsupportedSeries, InvalidTags, InvalidMoment: it cannot be counted so.
        """
        if self.counts_once and self.measure and not self.measure.unique:
            # An actor has a row there, and is in no set.
            event = event_of(event.at, event.tags)
        if event is not PLAIN:
            known = registry.measures(self.alias)
            effects_of(self.measure, self.key, 0, event, known=known, admits=False)

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
    def ref(self) -> Ref:
        """The counter, to be adjusted, or for a call of another app."""

    @property
    def can_be_asked_for(self) -> bool:
        """Whether it is in the database of the requests: their addresses are those of one."""
        return self.alias == router.db_for_write(AdjustmentRequest)

    def ask(self, **order: Any) -> AdjustmentRequest:
        """Ask a second person to adjust it."""
        return ask(self.ref, **order)

    @abstractmethod
    def adjust(self, **order: Any) -> CounterAdjustment:
        """Adjust it."""


@dataclass(frozen=True, slots=True)
class NamedTarget(Target):
    """A counter by key."""

    @property
    def alias(self) -> str:
        return router.db_for_write(Counter)

    @property
    def ref(self) -> Ref:
        return write.named(self.key, None)

    @property
    def series(self) -> Series:
        return Counter.objects.series(self.key)

    def change(self, by: int, token: UUID | None = None, event: Event = PLAIN) -> Result:
        return Counter.objects.increment(
            self.key, by, token=token, immediately=not self.joins, **event._asdict()
        )

    def _read(self, consistency: str) -> Reading:
        return Counter.objects.read(self.key, consistency=consistency)

    def adjust(self, **order: Any) -> CounterAdjustment:
        return Counter.objects.adjust(self.key, **order)


@dataclass(frozen=True, slots=True)
class OfRecord(Target):
    """A counter field of a record."""

    exposed: Exposed
    record: models.Model

    @property
    def alias(self) -> str:
        return router.db_for_write(self.record._meta.model, instance=self.record)

    @property
    def ref(self) -> Ref:
        return of_record(self.record, self.exposed.field.name)

    @property
    def _value(self) -> CounterValue | NotLoaded:
        value: CounterValue | NotLoaded = getattr(self.record, self.exposed.field.name)
        return value

    @property
    def series(self) -> Series:
        return self._value.series

    def change(self, by: int, token: UUID | None = None, event: Event = PLAIN) -> Result:
        immediately = not self.joins
        return self._value.increment(by, token=token, immediately=immediately, **event._asdict())

    def _read(self, consistency: str) -> Reading:
        return self._value.read(consistency=consistency)

    def adjust(self, **order: Any) -> CounterAdjustment:
        return self._value.adjust(**order)


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
