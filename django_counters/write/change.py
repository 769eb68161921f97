"""A change of one counter, before anybody makes it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from django.db import router

from django_counters.conf import Recipe
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import NAMED
from django_counters.tokens import Token
from django_counters.types import UNBOUNDED, Bounds, Delta, check_key

_SHARDED = Recipe("sharded")


class Ref(NamedTuple):
    """Which counter, how it counts, and where.

    Attributes:
        table: where its total stands, and where increments of it wait.
        key: the key of a named counter, else the primary key of the record, as its column has it.
        recipe: what its strategy is made of.
        bounds: what is declared for it.
        using: the database.
    """

    table: Table
    key: Hashable
    recipe: Recipe
    bounds: Bounds
    using: str

    @property
    def is_named(self) -> bool:
        """Whether it is found by its key, and not by a record."""
        return self.table is NAMED


class Change(NamedTuple):
    """By how much one counter changes, and how.

    Attributes:
        ref: the counter.
        by: how much is added; not zero.
        bounds: what the call asks for, beside what is declared.
        route: what always leads to the same shard.
        token: counts once, however often it is asked for.
        immediately: now, and not when the caller's transaction commits.
        collects: a collector that is open takes it.
    """

    ref: Ref
    by: int
    bounds: Bounds = UNBOUNDED
    route: object = None
    token: Token | None = None
    immediately: bool = False
    collects: bool = False

    @property
    def delta(self) -> Delta:
        """What a strategy is given."""
        bounds = self.ref.bounds
        if self.bounds is not UNBOUNDED:
            bounds = bounds.stricter(self.bounds)
        return Delta(self.ref.key, self.by, bounds, self.route)


def in_shards(key: object, using: str | None) -> Ref:
    """The counter with a key, to be changed in its shards, whatever its namespace declares."""
    ref = named(key, using)
    return ref if ref.recipe.can.shards else ref._replace(recipe=_SHARDED)


def named(key: object, using: str | None, recipe: Recipe | None = None) -> Ref:
    """The counter with a key, to be changed; in another way than its namespace declares, if given.

    Raises:
        InvalidKey: it is no key.
    """
    name = check_key(key)
    policy = registry.policy(name)
    alias = using or router.db_for_write(Counter)
    return Ref(NAMED, name, recipe or policy.recipe, policy.bounds, alias)
