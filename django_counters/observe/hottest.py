"""Which counters change most at present, found without reading all of them."""

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
from django_counters.conf import Recipe
from django_counters.exceptions import CounterError, InvalidConfiguration
from django_counters.observe.facts import Away, asked, incidents
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.stores.redis.keys import SLOTS
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.hottest import SqlHottest
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
# For how many seconds a counter that rests is read on: its next change is then known at once.
_KEPT = 60.0
# What was changed is committed later than it is stamped, and clocks differ. Seconds.
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
    """A counter that changes, as it was read.

    Attributes:
        name: which one.
        strategy: the name of its strategy.
        value: the present value.
        waits: the part of it that waits for its rollup or flush.
        exact: whether nothing is missing in the value; false where its Redis could not be asked.
        active: when it was last seen to change, or first seen, by the clock of the look.
        change: by how much it changed since the look before; None where it was not read then, or
            one of both values is not exact.
        rate: that for each second.
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
    """What one look has found.

    Attributes:
        moment: when, in UTC.
        interval: how many seconds after the look before; None where there was none.
        hottest: counters that changed since then, the fastest first; then those that are new here.
        rate: how much all that were read changed, for each second, up and down; None where no
            change is known.
        read: how many counters were read.
        incidents: how many there were in the last 24 hours, by kind; None where that is not known.
        away: places that could not be asked, and why.
        capped: places that held more than was looked at.
        seen: all that were read, for the next look.
        at: when they began to be read, in seconds of a clock that is never set.
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
    """Find the counters that change most. Changes nothing, and takes no lock that others wait for.

    A rate is the difference of two exact values, over the time between them: that of a counter
    which was not read in the look ``before`` is not known. Found are named counters whose total was
    changed lately, and all counters of which something waits: in shards, slots, the ledger or
    Redis. A counter field that is exact is written without a trace, and is not found.

    What cannot be asked, or is not found within a second, is said to be away. Values are read in
    the ordinary way: who locks the table of totals makes it wait.

    Args:
        using: the database.
        before: the last look; None for the first one.
        limit: how many counters are wanted.
        recent: for the first look, how many seconds ago something may have changed.
    """
    moment, parts = clock.utc(), _Parts(using)
    kept = before.seen if before else {}
    back = _MARGIN + (time.monotonic() - before.at if before else recent)
    found = _found(using, moment, back, parts)
    # All values are read at once, nearly: one interval is that of all rates.
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
    """Gathers one part after the other, and keeps which of them are missing or not whole."""

    def __init__(self, using: str) -> None:
        self._using = using
        self.away: list[Away] = []
        self.capped: list[str] = []

    def gather(self, part: str, ask: Callable[[], _T]) -> _T | None:
        """What a part is; None where it is away."""
        answer = asked(part, self._using, ask)
        if not isinstance(answer, Away):
            return answer
        self.away.append(answer)
        return None

    def find(self, part: str, ask: Callable[[], Mapping[Name, int]]) -> Mapping[Name, int]:
        """What was found somewhere, and what waits of it there."""
        found = self.gather(part, ask) or {}
        if len(found) >= MOST_FOUND:
            self.capped.append(part)
        return found


def _found(using: str, moment: datetime, back: float, parts: _Parts) -> dict[Name, int]:
    """Counters that may change, and what waits of those that belong to records."""
    if not COUNTERS.stands_in(using):
        return {}
    store, since = SqlHottest(using), moment - timedelta(seconds=back)

    # A day more than is meant, whatever time zone the column is in.
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
        # Slots of a model that is gone have no value any more.
        if model is not None:
            found[Name(f"{model._meta.label}.{counter}", record)] = waits
    return found


def _in_redis(source: Source, cap: Callable[[], None]) -> dict[Name, int]:
    """What was added to cached counters since the last flush, the most first."""
    if source.pending is None:
        raise InvalidConfiguration(problem=source.problem)
    sums: dict[str, int] = {}
    for slot in range(SLOTS):
        amounts, are_all = source.pending.opened(slot, MOST_FIELDS)
        # What cannot be a counter of ours, somebody else has written.
        sums.update(
            {name: by for name, by in amounts.items() if " " in name or not why_no_key(name)}
        )
        if not are_all:
            cap()
    most = nlargest(MOST_FOUND, sums, key=lambda counter: abs(sums[counter]))
    return {_name_of(counter): sums[counter] for counter in most}


def _name_of(counter: str) -> Name:
    """What Redis calls a counter; the key of a named one has no white space."""
    label, space, key = counter.partition(" ")
    return Name(label, key) if space else Name("", counter)


def _wanted(found: Mapping[Name, int], kept: Mapping[Name, Hot], at: float) -> list[Name]:
    """What is to be read: what was found, and what changed a while ago."""
    resting = [name for name, one in kept.items() if at - one.active < _KEPT]
    resting.sort(key=lambda name: -kept[name].active)
    return list(dict.fromkeys((*found, *resting[:MOST_KEPT])))


def _read(
    using: str, names: Sequence[Name], waits: Mapping[Name, int], at: float, parts: _Parts
) -> list[Hot]:
    """The present values; what is no counter any more is left out."""
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
    for key, found in readings_of(keys, using).items() if keys else ():
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
    """The counter; None where a model, a field or the form of a key is not what it was."""
    try:
        subject = ref_of(name.field, name.key, using)
    except CounterError:
        return None
    model = subject.model or COUNTERS.model
    # Slots may wait in one database, and the column stand in another.
    return subject if not subject.table.value or router.allow_migrate_model(using, model) else None


def _compared(now: Hot, then: Hot | None, interval: float | None) -> Hot:
    """A counter, with the time of its last change and how much it changed."""
    if then is None:
        return now
    active = then.active if then.value == now.value else now.active
    change = now.value - then.value if then.exact and now.exact else None
    rate = change / max(interval, 1e-6) if interval is not None and change is not None else None
    return replace(now, active=active, change=change, rate=rate)


def _order(one: Hot) -> tuple[bool, float, Name]:
    """The fastest first; then what has no rate yet, what waits most first."""
    return one.rate is None, -abs(one.waits if one.rate is None else one.rate), one.name
