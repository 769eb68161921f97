"""Reads that only the ledger can answer: how a value came about, and former values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django_counters import clock
from django_counters.errors import HistoryNotKept, UnsupportedHistory
from django_counters.read.values import reading_alias
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.tables.core import COUNTERS, DeltaColumns
from django_counters.types import check_key

if TYPE_CHECKING:
    from django_counters.ledger.inquiry import EntryRow, Parts, SqlInquiry


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
        raise UnsupportedHistory(key=name, strategy=registry.policy(name).recipe.strategy)
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


def _explained_with_redis(key: str, last: int, strategy: Outside, alias: str) -> Explanation:
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
        raise HistoryNotKept(key=key, since=clock.shown(kept_since))
    return known


def inquiry_of(alias: str) -> SqlInquiry:
    """Return what asks the ledger of a database. The ledger is imported when it is asked."""
    from django_counters.ledger.inquiry import SqlInquiry

    return SqlInquiry(NAMED, alias)
