"""Changes of counters, before they are made, and the signal of those that are done."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import models, router

from django_counters.effects import names_members, stored_periods
from django_counters.errors import UnsupportedBounds
from django_counters.measure import Measure
from django_counters.projections.cells import effects_of
from django_counters.projections.event import PLAIN, Event
from django_counters.projections.quotas import quotas_of
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies import sharded
from django_counters.strategies.base import Intake, Outside, Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.tables.core import COUNTERS
from django_counters.tokens import Token
from django_counters.types import UNBOUNDED, Batch, Bounds, Delta, check_key
from django_counters.values import NewValues, result_of

# Batches, and the signal of changes.


def applied(strategy: Strategy, batch: Batch, using: str, subject: str = "") -> NewValues:
    """Apply a batch, tell who listens, and return the new values."""
    values = strategy.apply(batch)
    if batch_applied.receivers:
        tell(strategy, batch, values, using, subject)
    return values


async def aapplied(strategy: Outside, batch: Batch, using: str) -> NewValues:
    """`applied` for async code."""
    values = await strategy.aapply(batch)
    if batch_applied.receivers:
        tell(strategy, batch, values, using)
    return values


def tell(
    strategy: Strategy, batch: Batch, values: NewValues, using: str, subject: str = ""
) -> None:
    """Send `batch_applied`, unless the batch was counted before. What receivers raise is logged."""
    if batch.token is not None and all(result_of(value).replayed for value in values.values()):
        return
    batch_applied.tell(
        Batch, batch=batch, values=values, strategy=strategy.name, subject=subject, using=using
    )


# One counter, and its change.


_SHARDED = sharded.ELSEWHERE.recipe()


class Ref(NamedTuple):
    """Which counter, how it counts, and where.

    Attributes:
        table: where its total stands, and where increments of it wait.
        key: the key of a named counter, else the primary key of the record, as its column has it.
        recipe: what its strategy is made of.
        bounds: the declaration for it.
        using: the database that it is written in.
        approve_above: by how much one person alone may adjust it; None: by any amount.
        measure: the measure; None where none is declared.
        intake: what takes changes before they are counted; None if nothing does.
    """

    table: Table
    key: Any
    recipe: Recipe
    bounds: Bounds
    using: str
    approve_above: int | None = None
    measure: Measure | None = None
    intake: Intake | None = None

    @property
    def owner(self) -> str:
        """Empty for a named counter, else the model and the name: ``shop.Product.stock``."""
        return self.table.label

    @property
    def text(self) -> str:
        """Its key, as a text."""
        return str(self.key)

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.owner}:{self.key}" if self.owner else self.text

    @property
    def strategy(self) -> str:
        """The name of its strategy."""
        return self.recipe.strategy

    @property
    def model(self) -> type[models.Model] | None:
        """Whose record it belongs to; None for a named counter."""
        record = self.table.pending.record
        return record[0] if record else None


class Change(NamedTuple):
    """By how much one counter changes, and how.

    Attributes:
        ref: the counter.
        by: how much is added; zero changes nothing.
        bounds: what the call asks for, beside what is declared.
        route: what always leads to the same shard.
        token: counts once, however often it is asked for.
        immediately: now, and not when the caller's transaction commits.
        collects: a collector that is open takes it.
        event: when it happened, of what kind it is, and who did it.
    """

    ref: Ref
    by: int
    bounds: Bounds = UNBOUNDED
    route: object = None
    token: Token | None = None
    immediately: bool = False
    collects: bool = False
    event: Event = PLAIN

    @property
    def delta(self) -> Delta:
        """The delta for a strategy.

        Raises:
            CounterError: the counter has a condition; see `write.conditions`.
        """
        if self.ref.measure is not None:
            refuse_without_condition(self.ref.measure, self.ref.label)
        return self.apart

    @property
    def apart(self) -> Delta:
        """The same without the row of its condition: the caller sees to that."""
        ref, bounds = self.ref, self.ref.bounds
        if self.bounds is not UNBOUNDED:
            self._check_that_it_is_here_alone()
            bounds = bounds.stricter(self.bounds)
        if bounds.floor is not None and self.by < 0 and not ref.recipe.can.in_place:
            self._check_floor(bounds.floor)
        if ref.measure is None and self.event is PLAIN:
            # The common case: this runs once for each increment.
            return Delta(ref.key, self.by, bounds, self.route)
        event = self.event
        if ref.measure is not None and ref.measure.condition is not None:
            if not stored_periods(ref.measure) and event.at is None and event.tags is None:
                return Delta(ref.key, self.by, bounds, self.route)
            # An actor who takes something back stays in the sets of distinct actors.
            seen = names_members(ref.measure) and self.by > 0
            event = event if seen else event._replace(who=None)
        known = registry.measures(ref.using)
        effects = effects_of(
            ref.measure,
            ref.label,
            self.by,
            event,
            known=known,
            admits=not ref.recipe.can.outside,
            token=self.token,
        )
        quotas = quotas_of(ref.measure, effects, known)
        told = "" if self.token is None else self.event.text
        return Delta(ref.key, self.by, bounds, self.route, effects, quotas, told)

    def _check_that_it_is_here_alone(self) -> None:
        """Refuse bounds that no database can keep for the others."""
        if is_spread(self.ref):
            raise UnsupportedBounds(key=self.ref.label, strategy=self.ref.strategy)

    def _check_floor(self, floor: int) -> None:
        """Refuse a floor that is not kept where increments wait, or not known to all who take."""
        ref = self.ref
        if not ref.recipe.can.floors or floor != ref.bounds.floor:
            raise UnsupportedBounds(key=ref.label, strategy=ref.recipe.strategy)


def refuse_without_condition(measure: Measure | None, key: str) -> None:
    """Refuse a change without the row of a condition.

    Raises:
        CounterError: the counter has one.
    """
    if measure is not None and measure.condition is not None:
        raise measure.condition.refusal(key)


def check_event(ref: Ref, event: Event) -> None:
    """Refuse the event of a change by zero as that of any other change. Nothing is written.

    ``who`` is optional, because no row is made.
    """
    if event is PLAIN:
        return
    measure, known = ref.measure, registry.measures(ref.using)
    if measure is not None and measure.condition is not None:
        if event.who is not None:
            measure.condition.condition(Change(ref, 1, event=event))
        if not stored_periods(measure):
            event = event._replace(who=None)
        if event == PLAIN:
            return
    effects_of(measure, ref.label, 1, event, known=known, admits=False)


def is_spread(ref: Ref) -> bool:
    """Return whether other databases count it, too."""
    return not ref.owner and registry.policy(ref.text).spread is not None


def in_shards(key: object, using: str | None) -> Ref:
    """The counter with a key, to be changed in its shards, with any strategy of its namespace."""
    ref = named(key, using)
    return ref if ref.recipe.can.shards else ref._replace(recipe=_SHARDED, intake=None)


def named(key: object, using: str | None = None, recipe: Recipe | None = None) -> Ref:
    """The counter with a key, to be changed; in another way than its namespace declares, if given.

    Raises:
        InvalidKey: it is no key.
    """
    name = check_key(key)
    policy = registry.policy(name)
    # As `Standing.writing`: this runs once for each increment.
    alias = using or router.db_for_write(COUNTERS.model)
    found = recipe or policy.recipe
    limit, measure = policy.approve_above, policy.measure
    # A call that names a recipe wants no detour.
    intake = policy.intake if recipe is None else None
    return Ref(NAMED, name, found, policy.bounds, alias, limit, measure, intake)
