"""Composes strategies from settings and keeps them: the only state of the app, and no numbers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import models
from django.utils.module_loading import import_string

from django_counters.conf import DEFAULT, Policy, policies
from django_counters.features import features
from django_counters.stores.sql.claims import SqlTokens
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.measures import SqlMeasures
from django_counters.stores.sql.session import isolation
from django_counters.stores.sql.tables import records
from django_counters.stores.sql.totals import SqlCorrections
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.declaring import Declaration, Recipe
from django_counters.tenants import SETTING as TENANT
from django_counters.tenants import named_callable, tenant

if TYPE_CHECKING:
    from django_counters.stores.sql.positions import SqlPositions

_K = TypeVar("_K")
_V = TypeVar("_V")
#: What counts cached counters if ``COUNTERS_CACHED_AS_EXACT`` is set.
CACHED_AS_EXACT = "django_counters.cached.strategy.CACHED_AS_EXACT"
_MOST_ADMITTED = 100_000
# Names of slots may come from users. A project has fewer fields and namespaces than this.
_MOST_KEPT = 1_000


class _Memory:
    """The objects that were made for one tenant."""

    def __init__(self) -> None:
        self.strategies: dict[tuple[Recipe, Table, str], Strategy] = {}
        self.tokens: dict[str, SqlTokens] = {}
        self.corrections: dict[tuple[Table, str], SqlCorrections] = {}
        self.admitted: dict[str, set[str]] = {}
        self.measures: dict[str, SqlMeasures] = {}
        self.kept: dict[tuple[Callable[[str], Any], str], Any] = {}


class Registry:
    """One per process. Parses ``COUNTERS`` on first use, and again when it is overridden."""

    def __init__(self) -> None:
        # A thread that is interrupted while it holds the lock may count in a handler.
        self._lock = threading.RLock()
        # The first one is used. A policy that is parsed while settings change goes into a list that
        # is no longer read.
        self._policies: list[Mapping[str, Policy]] = []
        self._records: dict[tuple[type[models.Model], str], Table] = {}
        # The schema or the session can be another one for each tenant, so ids, keys and secrets
        # that were read for one mean nothing for the others.
        self._memories: dict[str, _Memory] = {}
        # What clears the stores that tests count in, and the block of `session.isolated` of each.
        self._apart: list[tuple[str, Callable[[], object]]] = []

    @property
    def _of(self) -> _Memory:
        name = tenant() if named_callable() else ""
        known = self._memories.get(name)
        return known or self._keep(self._memories, name, _Memory())

    def policies(self) -> Mapping[str, Policy]:
        """The policy of each declared namespace, and of ``default``.

        Raises:
            InvalidConfiguration: the setting is wrong.
        """
        kept = self._policies
        if kept:
            return kept[0]
        parsed = policies(getattr(settings, "COUNTERS", None))
        declared = {
            name: replace(policy, recipe=in_effect(policy.recipe))
            for name, policy in parsed.items()
        }
        kept.append(declared)
        return declared

    def policy(self, key: str) -> Policy:
        """The policy of the namespace of ``key``."""
        kept = self._policies
        declared = kept[0] if kept else self.policies()
        # As `namespace_of`: this runs once for each increment.
        head, colon, _ = key.partition(":")
        return declared.get(head if colon else "") or declared[DEFAULT]

    def forget_policies(self, *, setting: str, **_: object) -> None:
        """Receives Django's ``setting_changed``."""
        of_apps = (name for one in features() for name in one.settings)
        own = ("COUNTERS", "COUNTERS_CACHED_AS_EXACT", "INSTALLED_APPS", TENANT)
        if setting in (*own, *of_apps):
            self._policies = []
        elif setting == "CACHES":
            self.forget_strategies()

    def strategy(self, recipe: Recipe, table: Table, using: str) -> Strategy:
        """The strategy of a recipe, over a table of a database."""
        wanted = (recipe, table, using)
        try:
            return self._of.strategies[wanted]
        except KeyError:
            return self._keep(self._of.strategies, wanted, recipe.build(table, using, self))

    def outside(self, recipe: Recipe, table: Table, using: str) -> Outside | None:
        """The same, where its pending increments are not in the database."""
        found = self.strategy(recipe, table, using) if recipe.declaration.can.outside else None
        return found if isinstance(found, Outside) else None

    def records(self, model: type[models.Model], name: str) -> Table:
        """The table of a counter of a model's records that has no column."""
        known = self._records.get((model, name))
        return known or self._keep(self._records, (model, name), records(model, name))

    def tokens(self, using: str) -> SqlTokens:
        """Where a database keeps the tokens of counters that have no ledger."""
        return self._of.tokens.get(using) or self._of.tokens.setdefault(using, SqlTokens(using))

    def corrections(self, table: Table, using: str) -> SqlCorrections:
        """Corrects the totals of a table of a database."""
        found = self._of.corrections.get((table, using))
        if found is None:
            made = SqlCorrections(table, using)
            found = self._keep(self._of.corrections, (table, using), made)
        return found

    def measures(self, using: str) -> SqlMeasures:
        """The measures that a database has."""
        return self._of.measures.get(using) or self._of.measures.setdefault(
            using, SqlMeasures(using)
        )

    def kept(self, make: Callable[[str], _V], using: str) -> _V:
        """Return the one object that a class or a function makes for a database."""
        known: _V | None = self._of.kept.get((make, using))
        return known or self._of.kept.setdefault((make, using), make(using))

    def positions(self, using: str) -> SqlPositions:
        """How far sources are in the totals of a database."""
        from django_counters.stores.sql.positions import SqlPositions

        return self.kept(SqlPositions, using)

    def admitted(self, using: str) -> set[str]:
        """The keys of a database of which this process knows that they have a row."""
        known = self._of.admitted.setdefault(using, set())
        if len(known) > _MOST_ADMITTED:
            known.clear()
        return known

    def clear_later(self, clear: Callable[[], object]) -> None:
        """Call a function at the end of the block of `session.isolated`, if there is one."""
        if block := isolation():
            self._apart.append((block, clear))

    def clear_apart(self) -> None:
        """Delete increments outside of the database of the innermost `session.isolated`.

        Raises:
            CounterUnavailable, OutcomeUnknown: Redis could not be reached.
        """
        block = isolation()
        cleared = [clear for within, clear in self._apart if within == block]
        self._apart = [one for one in self._apart if one[0] != block]
        for clear in cleared:
            clear()

    def _keep(self, kept: dict[_K, _V], key: _K, made: _V) -> _V:
        """Keep what was made, unless another thread was quicker; the oldest one makes room."""
        with self._lock:
            if len(kept) >= _MOST_KEPT:
                del kept[next(iter(kept))]
            return kept.setdefault(key, made)

    def forget_strategies(self) -> None:
        """Compose all anew. In a child process, the threads that held a lock are not there."""
        self._lock = threading.RLock()
        self._memories = {}


def in_effect(recipe: Recipe) -> Recipe:
    """The parts of a declared recipe here: of cached counters, those from the settings."""
    if recipe.can.outside and getattr(settings, "COUNTERS_CACHED_AS_EXACT", False):
        as_exact: Declaration = import_string(CACHED_AS_EXACT)
        return as_exact.recipe()
    return recipe


registry = Registry()


def ledgers() -> list[Policy]:
    """Return the policies of namespaces with entries: cached ones have tokens or detours."""
    policies = registry.policies().values()
    return [p for p in policies if p.recipe.can.entries or p.recipe.can.outside]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=registry.forget_strategies)
