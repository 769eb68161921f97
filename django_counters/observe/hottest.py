"""Finds the counters that change most at present, without reading all of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from heapq import nlargest, nsmallest
from typing import NamedTuple, TypeVar

from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, router

from django_counters import clock
from django_counters.exceptions import CounterError, InvalidConfiguration
from django_counters.observe.facts import Away, asked, incidents
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.stores.redis.keys import SLOTS
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.hottest import SqlHottest
from django_counters.strategies.declaring import Recipe
from django_counters.tables.standing import COUNTERS
from django_counters.tokens import mint
from django_counters.types import why_no_key
from django_counters.upkeep.sources import Source, declared_sources
from django_counters.write.change import Ref
from django_counters.write.records import ref_of

# How many counters are found in each place, and how many of the look before are read again.
MOST_FOUND = 500
MOST_KEPT = 2_000
# How many entries of the ledger are added up, and how many counters of each slot of a Redis.
MOST_ENTRIES = 20_000
MOST_FIELDS = 2_000
# Seconds that a resting counter is still read, so that its next change has a rate.
_KEPT = 60.0
# Seconds: changes are committed later than they are stamped, and clocks differ.
_MARGIN = 5.0
_DAY = timedelta(days=1)
_T = TypeVar("_T")


class Name(NamedTuple):
    """A counter: the key of a named one; else the field, and the primary key as a text."""

    field: str
    key: str

    def __str__(self) -> str:
        return f"{self.field}:{self.key}" if self.field else self.key


@dataclass(frozen=True, slots=True)
class Hot:
    """A counter, as one look has read it.

    Attributes:
        name: which one.
        strategy: the name of its strategy.
        value: the present value.
        waits: the part of it that waits for its rollup or flush.
        exact: whether the value is exact. It is not if its Redis is away.
        active: when it was last seen to change, or first seen, by the clock of the look.
        change: the change since the look before; None if that is unknown.
        rate: the change per second.
    """

    name: Name
    strategy: str
    value: int
    waits: int
    exact: bool
    active: float = field(repr=False)
    change: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look.

    Attributes:
        moment: the time of the look, in UTC.
        interval: seconds since the look before, if there was one.
        hottest: the counters that changed since then, the fastest first; then those that are new.
        rate: the changes per second of all counters, up and down; None if no change is known.
        read: how many counters were read.
        incidents: the incidents of the last 24 hours, by kind; None if that is unknown.
        away: the places that could not be read, and why.
        capped: the places that held more than one look reads.
        seen: all counters, for the next look.
        at: when their reading began, by a monotonic clock.
    """

    moment: datetime
    interval: float | None
    hottest: tuple[Hot, ...]
    rate: float | None
    read: int
    incidents: Mapping[str, int] | None
    away: tuple[Away, ...]
    capped: tuple[str, ...]
    seen: Mapping[Name, Hot] = field(repr=False)
    at: float = field(repr=False)


def look(
    using: str = DEFAULT_DB_ALIAS,
    before: Look | None = None,
    *,
    limit: int = 20,
    recent: float = 2.0,
) -> Look:
    """Find the counters that change most. Takes no lock that others wait for.

    A rate is the difference of two exact values over the time between them. It is unknown for a
    counter that the look ``before`` did not read. A look finds named counters whose total has
    changed lately, and all counters with something that waits in shards, slots, the ledger or
    Redis. It cannot find exact counter fields: their changes leave no trace.

    A place that cannot be read within a second is away. Values are read in the ordinary way, and
    wait for a lock on the table of totals.

    Args:
        using: the database.
        before: the last look; None for the first one.
        limit: how many counters to return.
        recent: how many seconds the first look goes back.
    """
    moment, parts = clock.utc(), _Parts(using)
    kept = before.seen if before else {}
    back = _MARGIN + (time.monotonic() - before.at if before else recent)
    found = _found(using, moment, back, parts)
    # All values are read at nearly the same time, so all rates share one interval.
    at = time.monotonic()
    interval = None if before is None else at - before.at
    read = _read(using, _wanted(found, kept, at), found, at, parts)
    seen = {one.name: _compared(one, kept.get(one.name), interval) for one in read}
    lately = parts.gather("incidents", lambda: incidents(using, _DAY))
    rates = [one.rate for one in seen.values() if one.rate is not None]
    return Look(
        moment=moment,
        interval=interval,
        hottest=tuple(nsmallest(limit, (o for o in seen.values() if o.change != 0), key=_order)),
        rate=sum(map(abs, rates)) if rates else None,
        read=len(seen),
        incidents=None if lately is None else {one.kind: one.number for one in lately},
        away=tuple(parts.away),
        capped=tuple(dict.fromkeys(parts.capped)),
        seen=seen,
        at=at,
    )


class _Parts:
    """Reads one part after the other. Keeps those that are away or capped."""

    def __init__(self, using: str) -> None:
        self._using = using
        self.away: list[Away] = []
        self.capped: list[str] = []

    def gather(self, part: str, ask: Callable[[], _T]) -> _T | None:
        """The value of a part; None if it is away."""
        answer = asked(part, self._using, ask)
        if not isinstance(answer, Away):
            return answer
        self.away.append(answer)
        return None

    def find(self, part: str, ask: Callable[[], Mapping[Name, int]]) -> Mapping[Name, int]:
        """The counters of a place, and the amount that waits there of each."""
        found = self.gather(part, ask) or {}
        if len(found) >= MOST_FOUND:
            self.capped.append(part)
        return found


def _found(using: str, moment: datetime, back: float, parts: _Parts) -> dict[Name, int]:
    """Counters that may change, and the pending amount of those of records."""
    if not COUNTERS.stands_in(using):
        return {}
    store, since = SqlHottest(using), moment - timedelta(seconds=back)
    # A day more, because the column may be in any time zone.
    entries = (since - _DAY, mint(since), MOST_ENTRIES, MOST_FOUND)
    places = [
        parts.find("entries", lambda: _named(store.entered(*entries))),
        parts.find("slots", lambda: _in_slots(store, using)),
        parts.find("shards", lambda: _named(store.sharded(MOST_FOUND))),
        parts.find("totals", lambda: _named(store.changed(back, MOST_FOUND))),
    ]
    for source in parts.gather("Redis", lambda: declared_sources(using)) or ():
        part = f"Redis {source.name}"
        cap = partial(parts.capped.append, part)
        places.append(parts.find(part, partial(_in_redis, source, cap)))
    found: Counter[Name] = Counter()
    for place in places:
        found.update(place)
    return found


def _named(keys: Iterable[str]) -> dict[Name, int]:
    return {Name("", key): 0 for key in keys}


def _in_slots(store: SqlHottest, using: str) -> dict[Name, int]:
    kinds = ContentType.objects.db_manager(using)
    found = {}
    for kind, counter, record, waits in store.slotted(MOST_FOUND):
        model = kinds.get_for_id(kind).model_class()
        # Slots of a removed model have no value.
        if model is not None:
            found[Name(f"{model._meta.label}.{counter}", record)] = waits
    return found


def _in_redis(source: Source, cap: Callable[[], None]) -> dict[Name, int]:
    """Amounts added to cached counters since the last flush, the largest amounts first."""
    if source.pending is None:
        raise InvalidConfiguration(problem=source.problem)
    sums: dict[str, int] = {}
    for slot in range(SLOTS):
        amounts, are_all = source.pending.opened(slot, MOST_FIELDS)
        # Another program has written fields that cannot be counters.
        sums.update(
            {name: by for name, by in amounts.items() if " " in name or not why_no_key(name)}
        )
        if not are_all:
            cap()
    most = nlargest(MOST_FOUND, sums, key=lambda counter: abs(sums[counter]))
    return {_name_of(counter): sums[counter] for counter in most}


def _name_of(counter: str) -> Name:
    """The counter with this name in Redis. The key of a named one has no white space."""
    label, space, key = counter.partition(" ")
    return Name(label, key) if space else Name("", counter)


def _wanted(found: Mapping[Name, int], kept: Mapping[Name, Hot], at: float) -> list[Name]:
    """The counters to read: those that were found, and those that changed a while ago."""
    resting = [name for name, one in kept.items() if at - one.active < _KEPT]
    resting.sort(key=lambda name: -kept[name].active)
    return list(dict.fromkeys((*found, *resting[:MOST_KEPT])))


def _read(
    using: str, names: Sequence[Name], waits: Mapping[Name, int], at: float, parts: _Parts
) -> list[Hot]:
    """The present values. Leaves out what is no counter any more."""
    keys = [name.key for name in names if not name.field]
    read = parts.gather("values", lambda: _read_named(using, keys, at)) or []
    groups: dict[tuple[Recipe, Table], dict[Name, Hashable]] = {}
    for name in names:
        subject = _subject(name, using) if name.field else None
        if subject is not None:
            group = groups.setdefault((subject.recipe, subject.table), {})
            group[name] = subject.key
    for (recipe, table), group in groups.items():
        ask = partial(_read_records, using, recipe, table, group, waits, at)
        read += parts.gather(table.label, ask) or []
    return read


def _read_named(using: str, keys: Sequence[str], at: float) -> list[Hot]:
    read = []
    for key, found in readings_of(keys, using).items():
        strategy, exact = registry.policy(key).recipe.strategy, found.consistency == "exact"
        read.append(Hot(Name("", key), strategy, found.value, found.pending, exact, at))
    return read


def _read_records(
    using: str,
    recipe: Recipe,
    table: Table,
    natives: Mapping[Name, Hashable],
    waits: Mapping[Name, int],
    at: float,
) -> list[Hot]:
    values = registry.strategy(recipe, table, using).values(natives.values())
    return [
        Hot(name, recipe.strategy, values[native], waits.get(name, 0), True, at)
        for name, native in natives.items()
        if native in values
    ]


def _subject(name: Name, using: str) -> Ref | None:
    """The counter; None if its model, field or key has changed since."""
    try:
        subject = ref_of(name.field, name.key, using)
    except CounterError:
        return None
    model = subject.model or COUNTERS.model
    # Slots may be in another database than the column.
    return subject if not subject.table.value or router.allow_migrate_model(using, model) else None


def _compared(now: Hot, then: Hot | None, interval: float | None) -> Hot:
    """A counter with its change, its rate and the time of its last change."""
    if then is None:
        return now
    active = then.active if then.value == now.value else now.active
    change = now.value - then.value if then.exact and now.exact else None
    rate = change / max(interval, 1e-6) if interval is not None and change is not None else None
    return replace(now, active=active, change=change, rate=rate)


def _order(one: Hot) -> tuple[bool, float, Name]:
    """The fastest first; then counters without a rate, by what waits."""
    return one.rate is None, -abs(one.waits if one.rate is None else one.rate), one.name
