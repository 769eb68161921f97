"""Which counters change most at present, found without reading all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, Error, router
from django.db.models import Count, Model

from django_counters import clock
from django_counters.conf import TIMEOUT, Recipe
from django_counters.exceptions import CounterError
from django_counters.models import Counter, CounterIncident
from django_counters.read.readings import readings_of
from django_counters.registry import pending_in, registry
from django_counters.stores.redis.keys import SLOTS
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.hottest import SqlHottest
from django_counters.tokens import mint
from django_counters.types import why_no_key
from django_counters.upkeep.backlog import UNANSWERED, reason_of
from django_counters.upkeep.overview import Away
from django_counters.upkeep.sources import PATIENCE, declared
from django_counters.write.change import Ref
from django_counters.write.records import ref_of

if TYPE_CHECKING:
    pass

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
class Seen:
    """A value as it was read.

    Attributes:
        value: the number.
        waits: the part of it that waits for its rollup or flush.
        strategy: the name of its strategy.
        exact: whether nothing is missing; false where its Redis could not be asked.
        active: when it was last seen to change, or first seen, by the clock of the look.
    """

    value: int
    waits: int
    strategy: str
    exact: bool
    active: float


@dataclass(frozen=True, slots=True)
class Hot:
    """A counter that changes.

    Attributes:
        name: which one.
        strategy: the name of its strategy.
        value: the present value.
        waits: the part of it that waits for its rollup or flush.
        exact: whether nothing is missing in the value.
        change: by how much it changed since the look before; None where it was not read then, or
            one of both values is not exact.
        rate: that for each second.
    """

    name: Name
    strategy: str
    value: int
    waits: int
    exact: bool
    change: int | None
    rate: float | None


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
        seen: all values, for the next look.
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
    seen: Mapping[Name, Seen] = field(repr=False)
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
    moment, parts = clock.utc(), _Parts()
    kept = before.seen if before else {}
    back = _MARGIN + (time.monotonic() - before.at if before else recent)
    found = _found(using, moment, back, parts)
    # All values are read at once, nearly: one interval is that of all rates.
    at = time.monotonic()
    interval = None if before is None else at - before.at
    seen = _since(kept, _read(using, _wanted(found, kept, at), found, at, parts))
    hot = {name: _hot(name, now, kept.get(name), interval) for name, now in seen.items()}
    rates = [one.rate for one in hot.values() if one.rate is not None]
    return Look(
        moment=moment,
        interval=interval,
        hottest=tuple(nsmallest(limit, (o for o in hot.values() if o.change != 0), key=_order)),
        rate=sum(map(abs, rates)) if rates else None,
        read=len(seen),
        incidents=parts.gather("incidents", lambda: _incidents(using)),
        away=tuple(parts.away),
        capped=tuple(parts.capped),
        seen=seen,
        at=at,
    )


def _incidents(using: str) -> dict[str, int]:
    """How many incidents of each kind there were in the last 24 hours."""
    if not router.allow_migrate_model(using, CounterIncident):
        return {}
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - _DAY)
    kinds = recent.values_list("kind").annotate(number=Count("pk")).order_by("kind")
    return dict(kinds)


class _Parts:
    """Gathers one part after the other, and keeps which of them are missing or not whole."""

    def __init__(self) -> None:
        self.away: list[Away] = []
        self.capped: list[str] = []

    def gather(self, part: str, ask: Callable[[], _T]) -> _T | None:
        """What a part is; None where it is away."""
        try:
            return ask()
        except (Error, CounterError, *UNANSWERED) as error:
            self.away.append(Away(part, reason_of(error).strip().partition("\n")[0]))
            return None

    def find(self, part: str, ask: Callable[[], Mapping[Name, int]]) -> Mapping[Name, int]:
        """What was found somewhere, and what waits of it there."""
        found = self.gather(part, ask) or {}
        if len(found) >= MOST_FOUND:
            self.cap(part)
        return found

    def cap(self, part: str) -> None:
        """Say that not all of a part was looked at."""
        if part not in self.capped:
            self.capped.append(part)


def _found(using: str, moment: datetime, back: float, parts: _Parts) -> dict[Name, int]:
    """Counters that may change, and what waits of those that belong to records."""
    if not router.allow_migrate_model(using, Counter):
        return {}
    store, since = SqlHottest(using), moment - timedelta(seconds=back)

    def entered() -> dict[Name, int]:
        # A day more than is meant, whatever time zone the column is in.
        sums = store.entered(since - _DAY, mint(since), MOST_ENTRIES, MOST_FOUND)
        return {Name("", key): 0 for key in sums}

    places = [
        parts.find("entries", entered),
        parts.find("slots", lambda: _in_slots(store, using)),
        parts.find("shards", lambda: _named(store.sharded(MOST_FOUND))),
        parts.find("totals", lambda: _named(store.changed(back, MOST_FOUND))),
    ]
    for cache in parts.gather("Redis", lambda: declared(using)) or ():
        # There may be a password in a URL.
        part = "Redis" if "://" in cache else f"Redis {cache}"
        places.append(parts.find(part, partial(_in_redis, cache, using, partial(parts.cap, part))))
    found: dict[Name, int] = {}
    for place in places:
        for name, waits in place.items():
            found[name] = found.get(name, 0) + waits
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


def _in_redis(cache: str, using: str, cap: Callable[[], None]) -> dict[Name, int]:
    """What was added to cached counters since the last flush, the most first."""
    pending = pending_in(cache, max(PATIENCE, TIMEOUT), using)
    sums: dict[str, int] = {}
    for slot in range(SLOTS):
        amounts, are_all = pending.opened(slot, MOST_FIELDS)
        # What cannot be a counter of ours, somebody else has written.
        sums.update({name: by for name, by in amounts.items() if _is_ours(name)})
        if not are_all:
            cap()
    most = nlargest(MOST_FOUND, sums, key=lambda counter: abs(sums[counter]))
    return {_name_of(counter): sums[counter] for counter in most}


def _is_ours(counter: str) -> bool:
    return " " in counter or why_no_key(counter) is None


def _name_of(counter: str) -> Name:
    """What Redis calls a counter; the key of a named one has no white space."""
    label, space, key = counter.partition(" ")
    return Name(label, key) if space else Name("", counter)


def _wanted(found: Mapping[Name, int], kept: Mapping[Name, Seen], at: float) -> list[Name]:
    """What is to be read: what was found, and what changed a while ago."""
    resting = [name for name, one in kept.items() if at - one.active < _KEPT]
    resting.sort(key=lambda name: -kept[name].active)
    return list(dict.fromkeys((*found, *resting[:MOST_KEPT])))


def _read(
    using: str, names: Sequence[Name], waits: Mapping[Name, int], at: float, parts: _Parts
) -> dict[Name, Seen]:
    """The present values; what is no counter any more is left out."""
    keys = [name.key for name in names if not name.field]
    seen = dict(parts.gather("values", lambda: _read_named(using, keys, at)) or {})
    groups: dict[tuple[Recipe, Table], dict[Name, Hashable]] = {}
    for name in names:
        subject = _subject(name, using) if name.field else None
        if subject is not None:
            group = groups.setdefault((subject.recipe, subject.table), {})
            group[name] = subject.key
    for (recipe, table), group in groups.items():
        ask = partial(_read_records, using, recipe, table, group, waits, at)
        seen.update(parts.gather(table.label, ask) or {})
    return seen


def _read_named(using: str, keys: Sequence[str], at: float) -> dict[Name, Seen]:
    seen = {}
    for key, reading in readings_of(keys, using).items() if keys else ():
        strategy, exact = registry.policy(key).recipe.strategy, reading.consistency == "exact"
        seen[Name("", key)] = Seen(reading.value, reading.pending, strategy, exact, at)
    return seen


def _read_records(
    using: str,
    recipe: Recipe,
    table: Table,
    natives: Mapping[Name, Hashable],
    waits: Mapping[Name, int],
    at: float,
) -> dict[Name, Seen]:
    values = registry.strategy(recipe, table, using).values(natives.values())
    return {
        name: Seen(values[native], waits.get(name, 0), recipe.strategy, True, at)
        for name, native in natives.items()
        if native in values
    }


def _subject(name: Name, using: str) -> Ref | None:
    """The counter; None where a model, a field or the form of a key is not what it was."""
    try:
        subject = ref_of(name.field, name.key, using)
    except CounterError:
        return None
    # Slots may wait in one database, and the column stand in another.
    there = not subject.table.value or router.allow_migrate_model(using, _model(subject))
    return subject if there else None


def _model(subject: Ref) -> type[Model]:
    assert subject.model is not None, "a counter of a record has its model"
    return subject.model


def _since(before: Mapping[Name, Seen], seen: Mapping[Name, Seen]) -> dict[Name, Seen]:
    """Values with the time of their last change."""
    return {
        name: replace(now, active=then.active) if then and then.value == now.value else now
        for name, now in seen.items()
        for then in (before.get(name),)
    }


def _hot(name: Name, now: Seen, then: Seen | None, interval: float | None) -> Hot:
    change = now.value - then.value if then and then.exact and now.exact else None
    rate = change / max(interval, 1e-6) if interval is not None and change is not None else None
    return Hot(name, now.strategy, now.value, now.waits, now.exact, change, rate)


def _order(one: Hot) -> tuple[bool, float, Name]:
    """The fastest first; then what has no rate yet, what waits most first."""
    return one.rate is None, -abs(one.waits if one.rate is None else one.rate), one.name
