"""Values of regional counters: of all regions together, or of one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_counters.exceptions import UnsupportedRegions
from django_counters.regions import regions
from django_counters.registry import registry
from django_counters.stores.sql.regions import source_of


def by_region(key: str, using: str) -> dict[str, int]:
    """What each region has counted of a counter, this one first; in one query.

    Raises:
        InvalidConfiguration: the settings are wrong.
    """
    declared = regions()
    found = registry.regions(using).each(key, declared.own)
    rest = sorted({*found, *declared.peers} - {declared.own})
    return {name: found.get(name, 0) for name in (declared.own, *rest)}


@dataclass(frozen=True, slots=True)
class Regional:
    """Reads the counters of one database in one statement.

    Attributes:
        using: the database.
        region: the region; empty for all of them.
    """

    using: str
    region: str = ""

    def value(self, key: Hashable) -> int:
        """Return one value; zero if there is none."""
        return self.values([key]).get(key, 0)

    def values(
        self,
        keys: Iterable[Hashable],
        max_age: float | None = None,  # noqa: ARG002 - nothing is cached
    ) -> Mapping[Hashable, int]:
        """Return the values that exist among ``keys``, of one moment.

        Raises:
            UnsupportedRegions: there is none of that name.
        """
        names = [str(key) for key in keys]
        own, store = self._is_own(names), registry.regions(self.using)
        return store.values(names, self.region or None, own=own)

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
