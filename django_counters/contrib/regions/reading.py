"""Values of regional counters, by key and of records."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models

from django_counters.conf import Policy
from django_counters.contrib.regions.declared import is_regional, regions
from django_counters.contrib.regions.errors import UnsupportedRegions
from django_counters.contrib.regions.sql import source_of, store_of
from django_counters.errors import InvalidKey, UnsavedInstance
from django_counters.reading import check_keys, reading_alias, value_of, with_owed
from django_counters.reading import values_of as counted_of
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.declaring import Recipe
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import Token, optional_token
from django_counters.twins import alters_data, twin
from django_counters.types import Result, check_integer, check_key
from django_counters.write.changes import Change, named
from django_counters.write.pipeline import change

# -- Reads values of regional counters: of all regions together, or of one.


def key_of(counter: Any) -> str:
    """Return the key of a counter, which is a key or the attribute of a `RegionalCounter`."""
    return check_key(getattr(counter, "key", counter))


def values_of(keys: Iterable[str], *, region: str, using: str | None = None) -> dict[str, int]:
    """Return {key: count} of one region, as of the last copy, in one query.

    Raises:
        UnsupportedRegions: the region doesn't exist, or a namespace isn't ``REGIONAL``.
        CounterUnavailable: the Redis of a cached counter is unavailable.
    """
    names = check_keys(keys)
    groups: dict[Regional, list[str]] = {}
    for name in names:
        policy = registry.policy(name)
        if not is_regional(policy):
            raise UnsupportedRegions(key=name, reason="its namespace isn't REGIONAL")
        groups.setdefault(reader_of(policy, reading_alias(policy, using), region), []).append(name)
    values: dict[Hashable, int] = {}
    for reader, group in groups.items():
        values |= reader.values(group)
    return with_owed(names, values, COUNTERS.reading(using))


def value(counter: Any, *, region: str, using: str | None = None) -> int:
    """Return one region's count of a counter; see `values_of`.

    ``counter`` is a key, or the attribute of a `RegionalCounter`.
    """
    name = key_of(counter)
    return values_of([name], region=region, using=using)[name]


avalues_of, avalue = twin(values_of), twin(value)


def reader_of(policy: Policy, using: str, region: str = "") -> Regional:
    """Return the reader of a namespace's counters: of all regions, or of one."""
    return Regional(using, region, policy.recipe if policy.recipe.can.outside else None)


def by_region(key: str, using: str) -> dict[str, int]:
    """Return {region: count} of a counter, this region first, in one query.

    It includes pending increments in this region's Redis.

    Raises:
        InvalidConfiguration: the settings are wrong.
        CounterUnavailable: the Redis is unavailable.
    """
    declared, recipe = regions(), registry.policy(key).recipe
    counts = store_of(using).each(key, declared.own, here=not recipe.can.outside)
    if recipe.can.outside:
        counts[declared.own] += registry.strategy(recipe, NAMED, using).value(key)
    rest = sorted({*counts, *declared.peers} - {declared.own})
    return {name: counts.get(name, 0) for name in (declared.own, *rest)}


@dataclass(frozen=True, slots=True)
class Regional:
    """Reads the counters of one database in one statement.

    Attributes:
        using: the database.
        region: the region; empty for all of them.
        outside: the recipe of cached counters, whose Redis is read first; None for others.
    """

    using: str
    region: str = ""
    outside: Recipe | None = None

    def value(self, key: Hashable) -> int:
        """Return one value; zero if there is none."""
        return self.values([key]).get(key, 0)

    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """Return the existing values of ``keys``; without a Redis, of one moment.

        ``max_age``: in seconds, of this region's pending increments in Redis.

        Raises:
            UnsupportedRegions: the region doesn't exist.
            CounterUnavailable: the Redis is unavailable.
        """
        names = [str(key) for key in keys]
        own, store = self._is_own(names), store_of(self.using)
        if self.outside is None or not own:
            return store.values(names, self.region or None, own=own)
        values = dict(registry.strategy(self.outside, NAMED, self.using).values(names, max_age))
        for key, value in store.values(names, self.region or None, own=False).items():
            values[key] = values.get(key, 0) + value
        return values

    def _is_own(self, names: Sequence[str]) -> bool:
        """Return whether this region's counts are part of the value."""
        if not self.region:
            return True
        declared = regions()
        known = (declared.own, *declared.peers)
        # It may have been renamed or removed.
        positions = registry.positions(self.using)
        if self.region not in known and not positions.of(source_of(self.region)):
            reason = f"the region {self.region!r} is unknown. Known regions: {', '.join(known)}"
            raise UnsupportedRegions(key=", ".join(names), reason=reason)
        return self.region == declared.own


# -- The regional counter of a record: a named counter, because two regions can't share a column.


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
