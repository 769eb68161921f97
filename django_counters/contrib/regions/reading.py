"""Reads values of regional counters: of all regions together, or of one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_counters.conf import Policy
from django_counters.contrib.regions.declared import is_regional, regions
from django_counters.contrib.regions.errors import UnsupportedRegions
from django_counters.contrib.regions.sql import source_of, store_of
from django_counters.reading import check_keys, reading_alias, with_owed
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.declaring import Recipe
from django_counters.tables.schema import COUNTERS
from django_counters.twins import twin
from django_counters.types import check_key


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
        self,
        keys: Iterable[Hashable],
        max_age: float | None = None,
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
        if self.region not in known and not self._was_there():
            reason = f"the region {self.region!r} is unknown. Known regions: {', '.join(known)}"
            raise UnsupportedRegions(key=", ".join(names), reason=reason)
        return self.region == declared.own

    def _was_there(self) -> bool:
        """Return whether it was a region: it may have been renamed or removed."""
        return bool(registry.positions(self.using).of(source_of(self.region)))
