"""Changes of counters: what one is, on what it depends, and whether it is carried out once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models, router

from django_counters.effects import has_cells, names_members
from django_counters.errors import (
    RecordMissing,
    UnsupportedBounds,
    UnsupportedCondition,
)
from django_counters.event import PLAIN, Event, refuse_event
from django_counters.features import forgetting
from django_counters.measure import Condition, Conditional, ConditionResult, Kind, Measure
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.claims import SqlConditions
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import CountsOnConditions, Intake, Outside, Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.strategies.spread import SHARDED_ELSEWHERE
from django_counters.tables.schema import COUNTERS, OfCounter
from django_counters.tokens import Token
from django_counters.types import (
    UNBOUNDED,
    Appended,
    Batch,
    Bounds,
    Counted,
    Delta,
    Effect,
    NewValues,
    Replayed,
    Result,
    Unknown,
    check_key,
    namespace_of,
    result_of,
)

# -- Changes that count once: a token is used in the transaction of the change.

Work = Callable[[], Mapping[str, int | Unknown]]


class Call(NamedTuple):
    """The use of a token: the kind of counters, the change of each, and what was told of it."""

    subject: str
    deltas: Mapping[str, int]
    event: str = ""

    @property
    def fingerprint(self) -> bytes:
        """32 bytes that stand for the call, in any order of its counters."""
        told = [self.event] if self.event else []
        text = json.dumps([self.subject, sorted(self.deltas.items()), *told])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class ClaimResult(NamedTuple):
    """The result of the call that counted, and whether that was before."""

    values: Mapping[str, Result]
    replayed: bool


def once(token: Token, call: Call, using: str, work: Work) -> ClaimResult:
    """Do ``work`` unless the token was used for it before; its former result.

    Both are one transaction, or a savepoint in the caller's: where the work fails, the token is
    not used. Others with the same token wait for the outcome.
    """
    tokens = registry.tokens(using)
    with tokens.all_or_nothing():
        earlier = tokens.claim(token, call.fingerprint, _of_entry)
        if earlier is not None:
            return ClaimResult({key: _remembered(key, kept) for key, kept in earlier.items()}, True)
        values = work()
        tokens.keep(token, {key: _kept(value) for key, value in values.items()})
    return ClaimResult({key: result_of(value) for key, value in values.items()}, False)


def _of_entry(key: str, delta: int) -> bytes:
    return Call("", {key: delta}).fingerprint


def _kept(value: int | Unknown) -> int | str:
    return str(value.token or "") if isinstance(value, Appended) else int(value)


def _remembered(key: str, kept: int | str) -> Result:
    if isinstance(kept, str):
        return Appended(key, UUID(kept) if kept else None, replayed=True)
    return result_of(kept, replayed=True)


# -- Deletes the rows that belong to a counter beside its value.
# Each table of the core that has rows of a counter stands in `BELONGINGS`. Tables of other apps are
# those of `OfCounter`. Forgetting a counter and deleting a record ask `deleted_tables`, and list no
# table themselves.

Among = Callable[[type[models.Model], Kind | None], bool]
# How many records one statement forgets.
_IDS = 500


class Fate(Enum):
    """What becomes of the rows of a counter that is forgotten."""

    #: They are parts of its value, which the caller takes away.
    VALUE = "value"
    KEPT = "kept"


#: By the names of models: all of the core that have rows of counters.
BELONGINGS: Mapping[str, Fate] = MappingProxyType(
    {
        "Counter": Fate.VALUE,
        "CounterShard": Fate.VALUE,
        "SlottedCounter": Fate.VALUE,
        "CounterDelta": Fate.VALUE,
        # They are about people, or about what another table says.
        "CounterAdjustment": Fate.KEPT,
        "AdjustmentRequest": Fate.KEPT,
        "CounterArchive": Fate.KEPT,
        "CounterIncident": Fate.KEPT,
        # A replay returns its result, which names the counter until the token expires.
        "CounterToken": Fate.KEPT,
    }
)


def kind_of(table: type[models.Model]) -> Kind | None:
    """Return the kind of a table's rows; None if they are of none."""
    return table.of_kind if issubclass(table, OfCounter) else None


def deleted_tables() -> list[type[OfCounter]]:
    """Return the tables whose rows are deleted, in the order in which changes write them."""

    def order(table: type[OfCounter]) -> int:
        kind = kind_of(table)
        return 0 if kind is None else kind.order

    return sorted(OfCounter.tables(), key=order)


def forget_rows(
    name: str,
    measure: Measure | None,
    keys: Sequence[str],
    using: str,
    *,
    among: Among = lambda *_: True,
) -> Mapping[str, int]:
    """Delete what belongs to counters beside their values.

    Run it in the transaction that takes the values away.

    Args:
        name: what their measure is called.
        measure: the declaration; None if they declare none now.
        keys: the keys, or the texts of primary keys.
        using: the database.
        among: whether rows are deleted, given their table and kind.

    Returns:
        How many rows of each table were deleted.
    """
    stored = registry.measures(using).find(name)
    gone: Tally[str] = Tally()
    for start in range(0, len(keys), _IDS):
        some = keys[start : start + _IDS]
        rows: list[models.QuerySet[Any]] = []
        for model in deleted_tables():
            if stored is not None and among(model, kind_of(model)):
                # Before any of them is deleted: some are found by the cells.
                rows += model.of_keys(measure, stored.id, some, using)
        for of_table in rows:
            gone[of_table.model.__name__] += of_table.delete()[0]
    return gone


def forget_named(ref: Ref, among: Among) -> Mapping[str, int]:
    """Do the same for one named counter."""
    name = ref.measure.name if ref.measure else namespace_of(ref.text)
    return forget_rows(name, ref.measure, [ref.text], ref.using, among=among)


def forget_added(owner: str, keys: Sequence[str], using: str) -> None:
    """Delete what other apps keep of counters. Run it in the same transaction."""
    for start in range(0, len(keys), _IDS):
        for feature in forgetting():
            feature.forget(owner, keys[start : start + _IDS], using)


# -- Changes on a condition: its row and the change are one step.


def change_on(declared: Conditional, asked: Change) -> Result:
    """Make a change if its condition is met, else return the present value as a `Replayed`.

    Raises:
        UnsupportedCondition: the strategy can't promise it.
        RecordMissing: the record is gone.
        CounterError: what the declaration raises.
    """
    if asked.token is None:
        return _changed(declared, asked)
    return _once(declared, asked, asked.token)


def _once(declared: Conditional, asked: Change, token: Token) -> Result:
    """The same under a token: a process that repeats it finds what the first one did."""
    ref, text, single = asked.ref, asked.ref.text, asked._replace(token=None)

    def work() -> dict[str, int | Unknown]:
        return {text: _changed(declared, single)}

    call = Call(ref.owner, {text: asked.by}, asked.event.text)
    return once(token, call, ref.using, work).values[text]


def _changed(declared: Conditional, asked: Change) -> Result:
    ref = asked.ref
    if not ref.recipe.can.conditions:
        raise UnsupportedCondition(key=ref.label, reason=f"{ref.strategy} can't promise it")
    found: Any = registry.strategy(ref.recipe, ref.table, ref.using)
    strategy: CountsOnConditions = found
    condition = declared.condition(asked)
    delta = asked.apart
    result = strategy.apply_on(delta, condition) or _in_two_steps(strategy, delta, condition, ref)
    if not result.counted:
        return Replayed(result.value)
    if batch_applied.receivers:
        tell(strategy, Batch((delta,)), {delta.key: result.value}, ref.using, ref.table.label)
    return Counted(result.value)


def _in_two_steps(
    strategy: CountsOnConditions, delta: Delta, condition: Condition, ref: Ref
) -> ConditionResult:
    """The row first, then the change, in one transaction or in a savepoint of the caller's."""
    conditions = registry.kept(SqlConditions, ref.using)
    with conditions.all_or_nothing():
        if not conditions.hold(ref.table, ref.key):
            raise RecordMissing(key=ref.label)
        if not conditions.met(condition):
            return ConditionResult(False, strategy.read(delta.key, "exact", 0.0).value)
        value = strategy.apply(Batch((delta,)))[delta.key]
        assert isinstance(value, int), f"{strategy.name} knows its values"
        return ConditionResult(True, value)


# -- Changes of counters, before they are made, and the signal of those that are done.


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


_SHARDED = SHARDED_ELSEWHERE.recipe()


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
        event: when it happened, its tags, and who did it.
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
            CounterError: the counter has a condition; see `measure.Condition`.
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
        event, measure = self.event, ref.measure
        guarding = None if measure is None else measure.guard
        if measure is not None and measure.condition is not None:
            is_alone = guarding is None and not has_cells(measure)
            if is_alone and event.at is None and event.tags is None:
                return Delta(ref.key, self.by, bounds, self.route)
            # An actor who takes something back stays in the sets of distinct actors.
            seen = names_members(measure) and self.by > 0
            event = event if seen else event._replace(who=None)
        effects: tuple[Effect, ...] = ()
        if measure is None or measure.projector is None:
            refuse_event(ref.label, event)
        else:
            # As `effects_of`, without this call.
            effects = measure.projector.effects(
                measure,
                ref.label,
                self.by,
                event,
                using=ref.using,
                admits=not ref.recipe.can.outside,
                token=self.token,
            )
        guard = None if guarding is None else guarding.guard(measure, effects, ref.using)
        told = "" if self.token is None else self.event.text
        return Delta(ref.key, self.by, bounds, self.route, effects, guard, told)

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


def effects_of(
    measure: Measure | None,
    key: str,
    by: int,
    event: Event,
    *,
    using: str,
    admits: bool = True,
) -> tuple[Effect, ...]:
    """Return the effects of a change; see `projector.Projector`.

    Raises:
        UnsupportedSeries: an event, and no app counts by period.
    """
    if measure is not None and measure.projector is not None:
        return measure.projector.effects(measure, key, by, event, using=using, admits=admits)
    refuse_event(key, event)
    return ()


def check_event(ref: Ref, event: Event) -> None:
    """Refuse the event of a change by zero as that of any other change. Nothing is written.

    ``who`` is optional, because no row is made.
    """
    if event is PLAIN:
        return
    measure = ref.measure
    if measure is not None and measure.condition is not None:
        if event.who is not None:
            measure.condition.condition(Change(ref, 1, event=event))
        if not has_cells(measure):
            event = event._replace(who=None)
        if event == PLAIN:
            return
    effects_of(measure, ref.label, 1, event, using=ref.using, admits=False)


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
