"""Values of regional counters: of all regions together, or of one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_counters.exceptions import UnsupportedRegions
from django_counters.regions import regions
from django_counters.registry import registry
from django_counters.stores.sql.regions import source_of
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.declaring import Recipe


def by_region(key: str, using: str) -> dict[str, int]:
    """What each region has counted of a counter, this one first; in one query.

    Increments that wait in a Redis are read, too.

    Raises:
        InvalidConfiguration: the settings are wrong.
        CounterUnavailable: the Redis cannot be reached.
    """
    declared, recipe = regions(), registry.policy(key).recipe
    found = registry.regions(using).each(key, declared.own, here=not recipe.can.outside)
    if recipe.can.outside:
        found[declared.own] += registry.strategy(recipe, NAMED, using).value(key)
    rest = sorted({*found, *declared.peers} - {declared.own})
    return {name: found.get(name, 0) for name in (declared.own, *rest)}


@dataclass(frozen=True, slots=True)
class Regional:
    """Reads the counters of one database in one statement.

    Attributes:
        using: the database.
        region: the region; empty for all of them.
        outside: how counters are kept of which a part waits in a Redis; it is asked first.
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
        """Return the values that exist among ``keys``; in a database alone, of one moment.

        ``max_age``: in seconds, of the increments that this region has in a Redis.

        Raises:
            UnsupportedRegions: there is none of that name.
            CounterUnavailable: the Redis cannot be reached.
        """
        names = [str(key) for key in keys]
        own, store = self._is_own(names), registry.regions(self.using)
        if self.outside is None or not own:
            return store.values(names, self.region or None, own=own)
        found = dict(registry.strategy(self.outside, NAMED, self.using).values(names, max_age))
        for key, value in store.values(names, self.region or None, own=False).items():
            found[key] = found.get(key, 0) + value
        return found

    def _is_own(self, names: Sequence[str]) -> bool:
        """Whether what is counted here belongs to it."""
        if not self.region:
            return True
        declared = regions()
        known = (declared.own, *declared.peers)
        if self.region not in known and not self._was_there():
            reason = f"there is no region {self.region!r}; there are: {', '.join(known)}"
            raise UnsupportedRegions(key=", ".join(names), reason=reason)
        return self.region == declared.own

    def _was_there(self) -> bool:
        """Whether it was a region: one that has another name by now, or is gone."""
        return bool(registry.positions(self.using).of(source_of(self.region)))
