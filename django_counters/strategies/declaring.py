"""The declaration of each strategy, and the recipe made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from django_counters.options import Option
from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy

_V = TypeVar("_V")
# How old a total may be where a cached read does not say it, in seconds.
MAX_AGE = 5.0


class Capabilities(NamedTuple):
    """The capabilities of a strategy. Ask for them, not for its name.

    Attributes:
        in_place: a change is part of the total at once; nothing is pending.
        floors, ceilings: it keeps one. If increments are pending, it is the declared one.
        joins: a change is part of the caller's transaction.
        outside: pending increments are in Redis, so a value isn't in the database alone.
        cached: it offers values that may be old (``consistency="cached"``).
        shards, slots: pending increments are in rows of this kind.
        entries: each change is kept, with its time.
        one_row: another row for each counter and period slows it down no more than its total.
        conditions: it is a `CountsOnConditions`.
        raises: it is a `Raises`.
    """

    in_place: bool = False
    floors: bool = False
    ceilings: bool = False
    joins: bool = True
    outside: bool = False
    cached: bool = False
    shards: bool = False
    slots: bool = False
    entries: bool = False
    one_row: bool = False
    conditions: bool = False
    raises: bool = False


class Shared(Protocol):
    """The parts that the strategies of a process share. The registry keeps it."""

    def strategy(self, recipe: Recipe, table: Table, using: str) -> Strategy:
        """Another strategy, over the same table."""

    def kept(self, make: Callable[[str], _V], using: str) -> _V:
        """Return the one object that a class or a function makes for a database."""


@dataclass(frozen=True, eq=False)
class Declaration:
    """All that the settings, the fields, the checks and the reference know of a strategy.

    Attributes:
        made: its class. It has the name of the strategy, and its docstring describes it.
        can: its capabilities.
        build: makes one from a table, a database, the shared parts, and its options as arguments.
        namespaces: its options in ``COUNTERS``; None: named counters can't use it.
        fields: its options as arguments of a field; None: fields can't use it.
        guesses: half sentences that lead to this strategy from words that aren't strategies.
    """

    made: type[Strategy]
    can: Capabilities
    build: Callable[..., Strategy]
    namespaces: tuple[Option, ...] | None = None
    fields: tuple[Option, ...] | None = None
    guesses: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people write."""
        return self.made.name

    def recipe(self, given: Mapping[str, Any] | None = None, *, of_field: bool = False) -> Recipe:
        """Its recipe with what is given, and else with the defaults."""
        options = (self.fields if of_field else self.namespaces) or ()
        values = {**{one.key: one.default for one in options}, **(given or {})}
        return Recipe(self, tuple((one.key, values[one.key]) for one in options if one.builds))


class Recipe(NamedTuple):
    """The parts of a strategy: counters with the same recipe are changed in one statement."""

    declaration: Declaration
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def strategy(self) -> str:
        """The name of the strategy."""
        return self.declaration.name

    @property
    def can(self) -> Capabilities:
        """What counters of this recipe can do."""
        return self.declaration.can

    @property
    def rank(self) -> tuple[str, str]:
        """Its place in an order that all processes share."""
        return self.strategy, repr(self.options)

    @property
    def cache(self) -> str:
        """The Redis that has what is pending; empty where the database has it."""
        return str(dict(self.options)["cache"]) if self.can.outside else ""

    def but(self, **options: object) -> Recipe:
        """The same with other options."""
        return self._replace(options=tuple({**dict(self.options), **options}.items()))

    def build(self, table: Table, using: str, shared: Shared) -> Strategy:
        """The strategy of this recipe, over a table of a database."""
        return self.declaration.build(table, using, shared, **dict(self.options))
