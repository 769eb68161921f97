"""The public API: counters by key that count once for each actor."""

from __future__ import annotations

from collections.abc import Iterable

from django_counters.managers.past import PastManager
from django_counters.managers.rows import Row
from django_counters.projections.event import Event, Who
from django_counters.read import actors
from django_counters.read.actors import Actor
from django_counters.read.values import check_keys
from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS
from django_counters.twins import twin
from django_counters.types import check_key
from django_counters.write.actors import Toggled, toggle
from django_counters.write.change import named


class ActorManager(PastManager[Row]):
    """Tells who has counted, where the namespace declares ``ONCE``."""

    def toggle(self, key: str, who: Who, *, using: str | None = None) -> Toggled:
        """Count an actor that does not count yet, else take the count back.

        ``has, result = Counter.objects.toggle("likes:post:5", user)``. Two at the same time are
        one after the other: each of them has an effect.

        Raises:
            UnsupportedActors: the namespace declares no ``ONCE``.
            InvalidDelta: with a cool-down nothing is taken back.
            InvalidActor, and those of `increment`.
        """
        return toggle(named(key, using or self._db), Event(who=who))

    def has(self, key: str, who: Who, *, using: str | None = None) -> bool:
        """Whether an actor counts: with a cool-down, whether it is not over yet."""
        return bool(self.has_many([key], who, using=using))

    def has_many(self, keys: Iterable[str], who: Who, *, using: str | None = None) -> set[str]:
        """The keys among these that an actor has counted, in one query for each namespace.

        Raises:
            UnsupportedActors: a namespace declares no ``ONCE``.
            InvalidActor: this is no actor.
        """
        alias = COUNTERS.reading(using or self._db)
        found: set[str] = set()
        groups: dict[object, list[str]] = {}
        for key in check_keys(keys):
            groups.setdefault(registry.policy(key).measure, []).append(key)
        for group in groups.values():
            measure = registry.policy(group[0]).measure
            asked: dict[str, object] = {key: key for key in group}
            found |= set(map(str, actors.has_many(measure, asked, who, alias, group[0])))
        return found

    def actors(
        self,
        key: str,
        *,
        limit: int = 20,
        before: str | None = None,
        using: str | None = None,
    ) -> list[Actor]:
        """The actors that have counted, the last one first: ``[Actor(who, at)]``.

        ``before``: the ``cursor`` of the last one of the page before.

        Raises:
            UnsupportedActors: the namespace declares no ``ONCE``.
            InvalidMoment: ``before`` is no cursor.
            ValueError: ``limit`` is no integer from 1 to 1,000.
        """
        measure, alias = (
            registry.policy(check_key(key)).measure,
            COUNTERS.reading(using or self._db),
        )
        return actors.actors(measure, key, limit, before, alias, key)

    atoggle = twin(toggle)
    ahas = twin(has)
    ahas_many = twin(has_many)
    aactors = twin(actors)
