"""The regional counter of a record: a named counter, because two regions can't share a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, overload
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models

from django_counters.contrib.regions.declared import is_regional
from django_counters.contrib.regions.reading import value, values_of
from django_counters.errors import InvalidKey, UnsavedInstance
from django_counters.reading import value_of
from django_counters.reading import values_of as counted_of
from django_counters.registry import registry
from django_counters.tokens import Token, optional_token
from django_counters.twins import alters_data, twin
from django_counters.types import check_integer
from django_counters.values import Result
from django_counters.write.changes import Change, named
from django_counters.write.pipeline import change


class RegionalCounter:
    """An attribute of a model: each record has a counter of a ``REGIONAL`` namespace.

    It isn't a column. The name of a record's counter is the namespace and the primary key, such as
    ``likes:42``. So the record needs the same primary key in all regions, such as a UUID. Deleting
    a record leaves its counter: other regions may still count.

    Args:
        namespace: a namespace of ``COUNTERS``, for this model alone.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    @overload
    def __get__(self, instance: None, owner: type) -> RegionalCounter: ...
    @overload
    def __get__(self, instance: models.Model, owner: type) -> CounterOverRegions: ...
    def __get__(
        self, instance: models.Model | None, owner: type
    ) -> RegionalCounter | CounterOverRegions:
        """Return the counter of a record; on the model, the attribute itself."""
        return self if instance is None else CounterOverRegions(self.key(instance))

    def key(self, record: models.Model) -> str:
        """Return the key of a record's counter.

        Raises:
            UnsavedInstance: the record has no primary key yet.
            InvalidKey: the model can't have that primary key.
        """
        if record.pk is None:
            raise UnsavedInstance(model=record._meta.label)
        return f"{self.namespace}:{_native(record)}"

    def values_of(
        self,
        records: Iterable[models.Model],
        *,
        region: str | None = None,
        using: str | None = None,
    ) -> dict[models.Model, int]:
        """Return {record: value} of all regions, or of one region, in one query.

        Raises:
            UnsavedInstance: a record has no primary key yet.
            UnsupportedRegions: the region doesn't exist.
        """
        keys = {record: self.key(record) for record in records}
        if region is None:
            values = counted_of(keys.values(), using)
        else:
            values = values_of(keys.values(), region=region, using=using)
        return {record: values[key] for record, key in keys.items()}

    avalues_of = twin(values_of)


def _native(record: models.Model) -> object:
    """Return a record's primary key in its Python type: before loading, a UUID may be text."""
    pk: Any = record._meta.pk
    try:
        return pk.to_python(record.pk)
    except ValidationError:
        reason = f"{record._meta.label} can't have that primary key"
        raise InvalidKey(key=record.pk, reason=reason) from None


@dataclass(frozen=True, slots=True)
class CounterOverRegions:
    """The counter of one record in all regions.

    Attributes:
        key: its key, for the other methods of ``Counter.objects``.
    """

    key: str

    @property
    def counter_key(self) -> str:
        """Return the key, which the template tag ``counter`` shows."""
        return self.key

    @alters_data
    def increment(
        self, by: int = 1, *, token: str | UUID | Token | None = None, using: str | None = None
    ) -> Result:
        """Add ``by`` to the count of this region; see `CounterManager.increment`."""
        return change(
            Change(named(self.key, using), check_integer(by), token=optional_token(token))
        )

    @alters_data
    def decrement(
        self, by: int = 1, *, token: str | UUID | Token | None = None, using: str | None = None
    ) -> Result:
        """Subtract ``by`` from the count of this region; see `increment`."""
        return self.increment(check_integer(-check_integer(by)), token=token, using=using)

    def value(self, *, region: str | None = None, using: str | None = None) -> int:
        """Return the value of all regions, or of one region."""
        if region is None:
            return value_of(self.key, using)
        return value(self.key, region=region, using=using)

    aincrement, adecrement, avalue = twin(increment), twin(decrement), twin(value)


def attribute_problems(all_models: Iterable[type[models.Model]]) -> Iterator[tuple[str, str]]:
    """Yield the code of a check and the problem, for each wrong attribute of models."""
    first: dict[str, type[models.Model]] = {}
    for model in all_models:
        for name, attribute in _attributes(model):
            where, namespace = f"{model._meta.label}.{name}", attribute.namespace
            policy = registry.policies().get(namespace)
            if policy is None or not is_regional(policy):
                yield "E043", f"{where}: COUNTERS[{namespace!r}] doesn't declare REGIONAL."
            other = first.setdefault(namespace, model)
            if not (issubclass(model, other) or issubclass(other, model)):
                yield "E043", f"{where}: {other._meta.label} also counts in {namespace!r}."
            if _is_numbered(model._meta.pk):
                yield "W018", f"{where}: two regions may give one number to different records."


def _attributes(model: type[models.Model]) -> Iterator[tuple[str, RegionalCounter]]:
    """Yield the attributes of a model and its parents; for each name the nearest one."""
    nearest: dict[str, object] = {}
    for owner in reversed(model.__mro__):
        nearest.update(vars(owner))
    for name, attribute in nearest.items():
        if isinstance(attribute, RegionalCounter):
            yield name, attribute


def _is_numbered(key: Any) -> bool:
    """Return whether the database numbers the records, or those that the key points to."""
    while key.is_relation:
        key = key.target_field
    return isinstance(key, models.AutoField)
