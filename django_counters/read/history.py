"""What the ledger can tell: how a value came about, and what it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from uuid import UUID

from django.utils import timezone

from django_counters import clock
from django_counters.calendar import PERIODS, beginnings
from django_counters.exceptions import HistoryNotKept, InvalidPeriod, UnsupportedHistory
from django_counters.read.values import reading_alias
from django_counters.registry import registry
from django_counters.stores.sql.inquiry import Parts, Row, SqlInquiry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.tables import DeltaColumns
from django_counters.tables.standing import COUNTERS
from django_counters.types import check_key

MOST_BUCKETS = 10_000
DEFAULT_SPANS = {
    "minute": timedelta(hours=1),
    "hour": timedelta(days=1),
    "day": timedelta(days=30),
    "week": timedelta(weeks=26),
    "month": timedelta(days=365),
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was counted of one counter in one period.

    Attributes:
        start: when the period begins.
        end: when the next one begins.
        change: the sum of the entries; zero where there are none.
        entries: how many there are; None where they are counted by period, and not kept.
    """

    start: datetime
    end: datetime
    change: int
    entries: int | None


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
    """What a value is made of, all of one moment: ``value = total + shards + tail + redis``.

    Attributes:
        key: the counter.
        value: the exact value.
        total: what is rolled up.
        shards: what waits in shards, after a change of strategy.
        tail: what waits in the ledger.
        redis: what waits in Redis; None where the counter is not cached.
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


def history(
    key: object,
    by: str,
    since: datetime | None,
    until: datetime | None,
    zone: tzinfo | None,
    using: str | None,
) -> list[Bucket]:
    """The changes of one counter, period by period, those without any included."""
    name = check_key(key)
    if by not in PERIODS:
        raise InvalidPeriod(period=by, known=", ".join(PERIODS))
    start, end = span_of(by, since, until)
    starts = starts_between(by, start, end, zone or timezone.get_current_timezone())
    return buckets_of(name, starts, start, using) if starts else []


def span_of(by: str, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """The time that is asked for; where it is not said, the last one."""
    end = moment_of(until) if until else clock.utc()
    return moment_of(since) if since else end - DEFAULT_SPANS[by], end


def buckets_of(
    name: str, starts: list[datetime], since: datetime, using: str | None
) -> list[Bucket]:
    """The entries of one counter between moments, of which all since one have to be kept."""
    inquiry = _inquiry(using)
    found = inquiry.history(name, starts)
    # Asked for at last: entries may be dropped meanwhile.
    kept_since = _refuse_unknown(name, since, inquiry)
    if kept_since:
        # The first period may have begun before.
        starts[0] = max(starts[0], kept_since.astimezone(starts[0].tzinfo))
    return [
        Bucket(clock.shown(begin), clock.shown(finish), *found.get(number, (0, 0)))
        for number, (begin, finish) in enumerate(pairwise(starts), 1)
    ]


def starts_between(by: str, since: datetime, until: datetime, zone: tzinfo) -> list[datetime]:
    """Where the periods begin, and at last where the one after them does."""
    starts: list[datetime] = []
    for moment in beginnings(by, since, until + timedelta(days=32), zone):
        starts.append(moment.astimezone(zone))
        if moment >= until:
            return starts if len(starts) > 1 else []
        if len(starts) > MOST_BUCKETS:
            raise InvalidPeriod(period=by, known=f"at most {MOST_BUCKETS} of them at once")
    return []


def value_at(key: object, moment: datetime, using: str | None) -> int:
    """What the value was at a moment: what it is, without the entries since."""
    name = check_key(key)
    inquiry = _inquiry(using)
    then = moment_of(moment)
    value, later = inquiry.value_and_later(name, then)
    # Asked for at last: entries may be dropped meanwhile.
    _refuse_unknown(name, then, inquiry)
    return value - later


def moment_of(given: object) -> datetime:
    """The aware moment that is meant; one without a zone is of the current one."""
    if not isinstance(given, datetime):
        raise InvalidPeriod(period=given, known="a datetime is needed")
    return clock.meant(given)


def explain(key: object, last: int, using: str | None) -> Explanation:
    """What a value is made of, and the last entries."""
    name = check_key(key)
    recipe = registry.policy(name).recipe
    alias = reading_alias(recipe, using)
    outside = registry.outside(recipe, NAMED, alias)
    if outside:
        return _explained_with_redis(name, max(last, 0), outside, alias)
    return _explained(name, *_inquiry(using).parts(name, max(last, 0)), None)


def _explained_with_redis(key: str, last: int, strategy: Outside, alias: str) -> Explanation:
    """Redis first; and no generation of it has landed while the database was asked."""
    waits = dict(strategy.waits(key))
    while True:
        landed = strategy.landed_among(list(waits))
        parts, entries = _inquiry(alias).parts(key, last)
        if strategy.landed_among(list(waits)) == landed:
            left = sum(by for generation, by in waits.items() if generation not in landed)
            return _explained(key, parts, entries, left)


def _explained(key: str, parts: Parts, entries: Iterable[Row], redis: int | None) -> Explanation:
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


def _refuse_unknown(key: str, since: datetime, inquiry: SqlInquiry) -> datetime | None:
    kept_since, has_entries = inquiry.kept(key)
    recipe = registry.policy(key).recipe
    if not recipe.can.entries and not has_entries:
        raise UnsupportedHistory(key=key, strategy=recipe.strategy)
    if kept_since and since < kept_since:
        raise HistoryNotKept(key=key, since=clock.shown(kept_since))
    return kept_since


def _inquiry(using: str | None) -> SqlInquiry:
    return SqlInquiry(NAMED, COUNTERS.reading(using))
