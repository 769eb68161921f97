"""What a key of a request means: a named counter, or a field of a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models, router

from django_counters.access import CLOSED, Access
from django_counters.conf import MAX_AGE
from django_counters.measure import Measure
from django_counters.models import Counter, CounterAdjustment
from django_counters.projections.cells import Tags, effects_of
from django_counters.read.series import Series
from django_counters.registry import registry
from django_counters.rest.exposed import Exposed, exposed_as
from django_counters.types import Reading, check_key, namespace_of
from django_counters.values import Result


class Circumstances(NamedTuple):
    """What is said of a change beside by how much: what it is counted by, and when it happened."""

    tags: Tags | None = None
    at: datetime | None = None

    def told(self) -> dict[str, Any]:
        """What was given, as it stands in JSON."""
        moment = None if self.at is None else self.at.isoformat()
        given = {"tags": self.tags, "at": moment}
        return {name: value for name, value in given.items() if value is not None}


PLAIN = Circumstances()


@dataclass(frozen=True, slots=True)
class Target(ABC):
    """One counter that a request is about.

    Attributes:
        key: how the API names it.
        access: who may do what with it.
        max_age: how old a value may be that is read from a cache, in seconds.
    """

    key: str
    access: Access

    @property
    @abstractmethod
    def joins(self) -> bool:
        """Whether a change of it is part of a transaction of the database."""

    @property
    @abstractmethod
    def alias(self) -> str:
        """The database that it is written in."""

    @property
    @abstractmethod
    def max_age(self) -> float: ...

    @property
    @abstractmethod
    def measure(self) -> Measure | None:
        """By which periods and tags it is counted; None where it is by none."""

    @property
    @abstractmethod
    def series(self) -> Series:
        """What was counted over time."""

    def check(self, circumstances: Circumstances) -> None:
        """Refuse what cannot be said of a change of it, before anything is made for it.

        Raises:
            UnsupportedSeries, InvalidTags, InvalidMoment: it cannot be counted so.
        """
        tags, at = circumstances
        if tags is not None or at is not None:
            effects_of(self.measure, self.key, 0, at, tags, using=self.alias, admits=False)

    @abstractmethod
    def change(
        self, by: int, token: UUID | None = None, circumstances: Circumstances = PLAIN
    ) -> Result:
        """Change it, and return its value."""

    @abstractmethod
    def read(self, *, exact: bool) -> Reading:
        """Its value, and what is known of it."""

    @abstractmethod
    def adjust(self, **order: Any) -> CounterAdjustment:
        """Correct it."""

    @property
    def takes_tokens(self) -> bool:
        """Whether a change of it that is not part of a transaction counts once with a token."""
        return False


@dataclass(frozen=True, slots=True)
class Named(Target):
    """A counter by key."""

    @property
    def joins(self) -> bool:
        return registry.policy(self.key).recipe.can.joins

    @property
    def alias(self) -> str:
        return router.db_for_write(Counter)

    @property
    def max_age(self) -> float:
        return registry.policy(self.key).max_age

    @property
    def measure(self) -> Measure | None:
        return registry.policy(self.key).measure

    @property
    def series(self) -> Series:
        return Counter.objects.series(self.key)

    @property
    def takes_tokens(self) -> bool:
        return True

    def change(
        self, by: int, token: UUID | None = None, circumstances: Circumstances = PLAIN
    ) -> Result:
        tags, at = circumstances
        return Counter.objects.increment(
            self.key, by, token=token, immediately=not self.joins, at=at, tags=tags
        )

    def read(self, *, exact: bool) -> Reading:
        cached = not exact and not self.joins
        return Counter.objects.read(self.key, consistency="cached" if cached else "exact")

    def adjust(self, **order: Any) -> CounterAdjustment:
        return Counter.objects.adjust(self.key, **order)


@dataclass(frozen=True, slots=True)
class OfRecord(Target):
    """A counter field of a record."""

    exposed: Exposed
    record: models.Model

    @property
    def joins(self) -> bool:
        return self.exposed.field.recipe.can.joins

    @property
    def alias(self) -> str:
        return router.db_for_write(type(self.record), instance=self.record)

    @property
    def max_age(self) -> float:
        return MAX_AGE

    @property
    def measure(self) -> Measure | None:
        return self.exposed.field.measure

    @property
    def series(self) -> Series:
        series: Series = self._value.series
        return series

    @property
    def _value(self) -> Any:
        return getattr(self.record, self.exposed.field.name)

    def change(
        self, by: int, token: UUID | None = None, circumstances: Circumstances = PLAIN
    ) -> Result:
        tags, at = circumstances
        result: Result = self._value.increment(
            by, token=token, immediately=not self.joins, at=at, tags=tags
        )
        return result

    def read(self, *, exact: bool) -> Reading:
        cached = not exact and not self.joins
        reading: Reading = self._value.read(consistency="cached" if cached else "exact")
        return reading

    def adjust(self, **order: Any) -> CounterAdjustment:
        adjusted: CounterAdjustment = self._value.adjust(**order)
        return adjusted


def access_to(key: object) -> Access:
    """Who may do what with a counter; nobody where it is not declared."""
    if not isinstance(key, str):
        return CLOSED
    namespace = namespace_of(key)
    exposed = exposed_as(namespace)
    if exposed is not None:
        return exposed.access
    declared = registry.policies().get(namespace)
    return declared.access if declared and namespace else CLOSED


def targets_of(keys: Iterable[str]) -> dict[str, Target]:
    """The counters with these keys, those of one model in one query; without what is not there.

    Raises:
        InvalidKey: one of them is none.
    """
    found: dict[str, Target] = {}
    groups: dict[str, list[str]] = {}
    for key in keys:
        if exposed_as(namespace_of(check_key(key))):
            groups.setdefault(namespace_of(key), []).append(key)
        else:
            found[key] = Named(key, access_to(key))
    for namespace, group in groups.items():
        exposed = exposed_as(namespace)
        assert exposed is not None
        found.update(_of_records(exposed, group))
    return found


def _of_records(exposed: Exposed, keys: list[str]) -> dict[str, Target]:
    natives = {}
    for key in keys:
        native = _native(exposed, key[len(exposed.label) + 1 :])
        if native is not None:
            natives[key] = native
    records = exposed.queryset().in_bulk(list(set(natives.values())))
    return {
        key: OfRecord(key, exposed.access, exposed, records[native])
        for key, native in natives.items()
        if native in records
    }


def _native(exposed: Exposed, text: str) -> Any:
    """The primary key that a text means; None where it is not written as we would write it."""
    field: Any = exposed.model._meta.pk
    try:
        native = field.to_python(text)
        field.run_validators(native)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None
    # One record has one name: ``5`` is not ``05``.
    return native if str(native) == text else None
