"""Reads counters: values, readings, records, histories of values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar
from uuid import UUID

from django.db import models

from django_counters import clock, errors, features
from django_counters.conf import EXACT, Policy
from django_counters.registry import registry
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies import base, declaring
from django_counters.tables.schema import COUNTERS, SLOTS, DeltaColumns
from django_counters.types import Amounts, Reading, check_key
from django_counters.write.collector import collector_of
from django_counters.write.pipeline import outside
from django_counters.write.records import checked, key_of, place_of

if TYPE_CHECKING:
    from django_counters.ledger.inquiry import EntryRow, Parts, SqlInquiry


# -- Values of counters of records, in slots: whether or not there is a column for their totals.


def record_values_of(records: Iterable[object], name: object, using: str | None) -> dict[Any, int]:
    """The values of one counter of many records, by their primary keys, in one query a model."""
    alias = SLOTS.reading(using)
    keys_of: dict[type[models.Model], dict[Any, Any]] = {}
    for record in records:
        model, counter = checked(record, name)
        table = place_of(model, counter).table
        keys_of.setdefault(model, {})[record.pk] = key_of(record, table, alias)  # type: ignore[attr-defined]
    values: dict[Any, int] = {}
    for model, keys in keys_of.items():
        table, recipe, *_ = place_of(model, str(name))
        found = registry.strategy(recipe, table, alias).values(keys.values())
        values.update({pk: found.get(key, 0) for pk, key in keys.items()})
    return values


def read_record(record: object, name: object, consistency: str, using: str | None) -> Reading:
    """One value of a record, and the known details of it."""
    model, counter = checked(record, name)
    alias = SLOTS.reading(using, instance=record)
    table, recipe, *_ = place_of(model, counter)
    key = key_of(record, table, alias)
    return registry.strategy(recipe, table, alias).read(key, consistency, declaring.MAX_AGE)


# -- Exact values of many named counters, and their parts.

# How many counters are asked for at once: a script keeps a Redis from other work.
_PAGE = 2000
_NOTHING = Amounts(None, 0)


class PendingReading(NamedTuple):
    """The amount that waits in Redis for counters, generation by generation, and whom it cannot be
    told of."""

    amounts: Mapping[Hashable, Sequence[tuple[str, int]]]
    away: frozenset[str]

    def generations(self) -> list[str]:
        """All generations, in one order."""
        return sorted({generation for found in self.amounts.values() for generation, _ in found})

    def of(self, key: str, landed: frozenset[str]) -> int:
        """The amount that waits for one counter, without what has landed meanwhile."""
        return sum(by for generation, by in self.amounts.get(key, ()) if generation not in landed)


def readings_of(keys: Iterable[str], using: str | None = None) -> dict[str, Reading]:
    """Read many counters: one query, after one round trip to each Redis that holds some of them.

    The consistency of each is ``"exact"``, or ``"landed"`` where its Redis cannot be reached: the
    amount that waits there is then missing. A counter that was never counted is zero. Keys are
    taken as they
    are: a row that was made by hand can be shown, too.

    Raises:
        CounterUnavailable: the database cannot be reached.
    """
    names = list(dict.fromkeys(keys))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(reading_alias(registry.policy(name), using), []).append(name)
    readings: dict[str, Reading] = {}
    for alias, group in groups.items():
        for start in range(0, len(group), _PAGE):
            readings.update(_page(group[start : start + _PAGE], alias))
    return {name: readings[name] for name in names}


def _page(names: Sequence[str], alias: str) -> dict[str, Reading]:
    as_of = clock.now()
    # Redis first: what lands meanwhile is then told from what does not.
    waiting = _waiting(names, alias)
    store = SqlLanded(NAMED, alias)
    amounts, landed = store.read_landed(names, waiting.generations())
    collector = collector_of(alias)
    readings: dict[str, Reading] = {}
    for name in names:
        total, pending = amounts.get(name, _NOTHING)
        pending += waiting.of(name, landed) + (collector.owed(name) if collector else 0)
        consistency = "landed" if name in waiting.away else "exact"
        value = (total or 0) + pending
        readings[name] = Reading(value, total or 0, pending, as_of, consistency)
    return readings


def _waiting(names: Iterable[str], alias: str) -> PendingReading:
    groups: dict[str, list[str]] = {}
    asked: dict[str, base.Outside] = {}
    for name in names:
        recipe = registry.policy(name).recipe
        strategy = registry.outside(recipe, NAMED, alias)
        if strategy:
            asked[recipe.cache] = strategy
            groups.setdefault(recipe.cache, []).append(name)
    amounts: dict[Hashable, Sequence[tuple[str, int]]] = {}
    away: set[str] = set()
    for cache, group in groups.items():
        try:
            amounts.update(asked[cache].waits(group))
        except errors.CounterUnavailable:
            away.update(group)
    return PendingReading(amounts, frozenset(away))


# -- Values of named counters: the total and all that is pending.

_Reader = TypeVar("_Reader", bound=features.Reader)
Values = dict[Hashable, int]


class ReadOptions(TypedDict, total=False):
    """Keyword arguments of `CounterManager.read` and `CounterManager.values_of`."""

    consistency: str
    max_age: float | None
    using: str | None


_YEAR = 366 * 86_400
# What an intake has is landed once in an interval, and a read that meets that is repeated.
ATTEMPTS = 20


def value_of(
    key: object, using: str | None, consistency: str = "exact", max_age: object = None
) -> int:
    """The value of one number; zero if it was never counted."""
    name = check_key(key)
    if consistency != "exact":
        return values_of([name], using, consistency, max_age)[name]
    policy = registry.policy(name)
    if policy.intake is not None:
        return values_of([name], using)[name]
    value = _readable(policy, using).value(name)
    collector = collector_of(COUNTERS.reading(using))
    return value + collector.owed(name) if collector else value


def values_of(
    keys: Iterable[object], using: str | None, consistency: str = "exact", max_age: object = None
) -> dict[str, int]:
    """The values of many keys of one moment; zero for counters that were never counted."""
    names = check_keys(keys)
    readers = partial(_readable, using=using)

    def read_some(some: Sequence[str]) -> dict[Hashable, int]:
        found: dict[Hashable, int] = {}
        for strategy, group, age in grouped(some, consistency, max_age, readers):
            found.update(strategy.values(group, age))
        return found

    return with_pending(names, using, read_some)


def check_keys(keys: Iterable[object]) -> list[str]:
    """The keys, each of them once."""
    if isinstance(keys, str):
        raise errors.InvalidKey(key=keys, reason="it is one string, not several keys")
    return list(dict.fromkeys(check_key(key) for key in keys))


def with_pending(
    names: Sequence[str], using: str | None, read_some: Callable[[Sequence[str]], Values]
) -> dict[str, int]:
    """Read values, and add what this process has not counted yet, in intakes and in a collector.

    A strategy whose increments wait elsewhere, in rows or in Redis, reads them itself: only so are
    they of one moment with its total.

    Raises:
        Contention: amounts of an intake landed during each of many reads.
    """
    found: Values = {}
    left = names
    for _ in range(ATTEMPTS):
        before = _pending(left, using)
        found.update(read_some(left))
        left = []
        for one in before:
            waits, again = one.after()
            for key, by in waits.items():
                found[key] = found.get(key, 0) + by
            left.extend(again)
        if not left:
            return with_owed(names, found, COUNTERS.reading(using))
    raise errors.Contention(key=left[0], attempts=ATTEMPTS)


def _pending(names: Iterable[str], using: str | None) -> list[base.PendingAmounts]:
    """Return what the intakes of this process have of counters, before their values are read."""
    if all(policy.intake is None for policy in registry.policies().values()):
        return []
    groups: dict[base.Intake, list[str]] = {}
    for name in names:
        intake = registry.policy(name).intake
        if intake is not None:
            groups.setdefault(intake, []).append(name)
    alias = COUNTERS.writing(using)
    found = (intake.pending(keys, alias) for intake, keys in groups.items())
    return [one for one in found if one is not None]


def with_owed(names: Iterable[str], found: Mapping[Hashable, int], alias: str) -> dict[str, int]:
    """Values of all names, with what is collected and not yet applied."""
    collector = collector_of(alias)
    return {name: found.get(name, 0) + (collector.owed(name) if collector else 0) for name in names}


def grouped(
    names: Iterable[str], consistency: str, max_age: object, reader_of: Callable[[Policy], _Reader]
) -> Iterator[tuple[_Reader, list[str], float | None]]:
    """The readers and their keys, and how old cached values may be: in as few steps as possible."""
    groups: dict[tuple[_Reader, float | None], list[str]] = {}
    for name in names:
        policy = registry.policy(name)
        age = age_of(policy, consistency, max_age)
        groups.setdefault((reader_of(policy), age), []).append(name)
    for (strategy, age), group in groups.items():
        yield strategy, group, age


def age_of(policy: Policy, consistency: str, max_age: object) -> float | None:
    """How old what is cached may be, in seconds; None where nothing may come from a cache."""
    if consistency not in ("exact", "cached"):
        raise errors.UnsupportedConsistency(
            strategy=policy.recipe.strategy, consistency=consistency, offered="exact, cached"
        )
    if consistency == "exact" or not policy.recipe.can.cached:
        return None
    return policy.max_age if max_age is None else check_age(max_age)


def check_age(max_age: object) -> float:
    """A number of seconds, not below zero."""
    if not isinstance(max_age, bool) and isinstance(max_age, int | float) and 0 <= max_age < _YEAR:
        return float(max_age)
    raise errors.InvalidPeriod(period=max_age, known="a number of seconds, not below zero")


def read(
    key: object, using: str | None, consistency: str = "exact", max_age: object = None
) -> Reading:
    """One value, and the known details of it."""
    name = check_key(key)
    policy = registry.policy(name)
    if policy.spread is not None:
        reason = "other databases count it, too, and a reading is of one database. Call value()"
        raise errors.UnsupportedReading(key=name, reason=reason)
    age = policy.max_age if max_age is None else check_age(max_age)
    strategy = registry.strategy(policy.recipe, NAMED, reading_alias(policy, using))
    readings: list[Reading] = []

    def read_it(_: Sequence[str]) -> dict[Hashable, int]:
        readings.append(strategy.read(name, consistency, age))
        return {}

    owed = with_pending([name], using, read_it)[name]
    reading = readings[-1]
    if not owed:
        return reading
    return replace(reading, value=reading.value + owed, pending=reading.pending + owed)


def _readable(policy: Policy, using: str | None) -> features.Reader:
    """The reader: all strategies that keep everything in the database read it in the same way."""
    outside = policy.recipe if policy.recipe.can.outside else None
    if policy.spread is not None:
        return policy.spread(policy, reading_alias(policy, using))
    return registry.strategy(outside or EXACT, NAMED, reading_alias(policy, using))


def reading_alias(policy: Policy, using: str | None) -> str:
    """Where to read. A replica lags: landed increments would be in neither place."""
    waits = policy.recipe.can.outside or policy.intake is not None
    return using or (COUNTERS.writing() if waits else COUNTERS.reading())


async def avalues_of(
    keys: Iterable[object], using: str | None, consistency: str = "exact", max_age: object = None
) -> dict[str, int]:
    """`values_of` for async code, of counters that are not counted in the database."""
    names = check_keys(keys)
    found: dict[Hashable, int] = {}
    alias = COUNTERS.writing(using)

    def reader_of(policy: Policy) -> base.Outside:
        return outside(policy.recipe, NAMED, alias)

    for strategy, group, age in grouped(names, consistency, max_age, reader_of):
        found.update(await strategy.avalues(group, age))
    return {name: found.get(name, 0) for name in names}


async def aread(
    key: object, using: str | None, consistency: str = "exact", max_age: object = None
) -> Reading:
    """`read` for async code, of a counter that is not counted in the database."""
    name = check_key(key)
    alias = COUNTERS.writing(using)
    policy = registry.policy(name)
    age = policy.max_age if max_age is None else check_age(max_age)
    return await outside(policy.recipe, NAMED, alias).aread(name, consistency, age)


# -- Reads that only the ledger can answer: how a value came about, and former values.


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger; ``pending`` as long as it is not rolled up."""

    token: UUID
    created_at: datetime
    delta: int
    kind: str
    pending: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of a value, all of one moment: ``value = total + shards + tail + redis``.

    Attributes:
        key: the counter.
        value: the exact value.
        total: the rolled-up part.
        shards: pending in shards, after a change of strategy.
        tail: pending in the ledger.
        redis: pending in Redis; None where the counter is not cached.
        outside: how much of the total did not come through the ledger; None where nothing ever did.
        archived: how much of the total came from entries that are dropped.
        entries: the last entries, the latest first.
    """

    key: str
    value: int
    total: int
    shards: int
    tail: int
    outside: int | None
    archived: int
    entries: tuple[Entry, ...]
    redis: int | None = None


def value_at(key: object, moment: datetime, using: str | None) -> int:
    """The value at a moment: the present one without the entries since."""
    name = check_key(key)
    inquiry = inquiry_of(COUNTERS.reading(using))
    then = clock.check_moment(moment)
    value, later = inquiry.value_and_later(name, then)
    # Asked for at last: entries may be dropped meanwhile.
    if not refuse_dropped(name, then, inquiry):
        raise errors.UnsupportedHistory(key=name, strategy=registry.policy(name).recipe.strategy)
    return value - later


def explain(key: object, last: int, using: str | None) -> Explanation:
    """The parts of a value, and the last entries."""
    name = check_key(key)
    policy = registry.policy(name)
    alias = reading_alias(policy, using)
    outside = registry.outside(policy.recipe, NAMED, alias)
    if outside:
        return _explained_with_redis(name, max(last, 0), outside, alias)
    return _explained(name, *inquiry_of(COUNTERS.reading(using)).parts(name, max(last, 0)), None)


def _explained_with_redis(key: str, last: int, strategy: base.Outside, alias: str) -> Explanation:
    """Redis first; and no generation of it has landed while the database was asked."""
    waits = dict(strategy.waits([key])[key])
    while True:
        landed = strategy.landed_among(list(waits))
        parts, entries = inquiry_of(alias).parts(key, last)
        if strategy.landed_among(list(waits)) == landed:
            left = sum(by for generation, by in waits.items() if generation not in landed)
            return _explained(key, parts, entries, left)


def _explained(
    key: str, parts: Parts, entries: Iterable[EntryRow], redis: int | None
) -> Explanation:
    total, shards, tail = parts.total, parts.shards, parts.tail
    return Explanation(
        key=key,
        value=total + shards + tail + (redis or 0),
        total=total,
        shards=shards,
        tail=tail,
        outside=parts.outside,
        archived=parts.archived,
        redis=redis,
        entries=tuple(
            Entry(
                token=entry.token,
                created_at=clock.shown(entry.created_at),
                delta=entry.delta,
                kind=DeltaColumns.Kind(entry.kind).name.lower(),
                pending=entry.pending,
            )
            for entry in entries
        ),
    )


def refuse_dropped(key: str, since: datetime, inquiry: SqlInquiry) -> bool:
    """Refuse a moment before which entries are dropped; whether there ever could have been some."""
    kept_since, has_entries = inquiry.kept(key)
    known = has_entries or registry.policy(key).recipe.can.entries
    if known and kept_since and since < kept_since:
        raise errors.HistoryNotKept(key=key, since=clock.shown(kept_since))
    return known


def inquiry_of(alias: str) -> SqlInquiry:
    """Return what asks the ledger of a database. The ledger is imported when it is asked."""
    from django_counters.ledger.inquiry import SqlInquiry

    return SqlInquiry(NAMED, alias)
