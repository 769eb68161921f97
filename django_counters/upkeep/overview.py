"""How the counters of one database are doing, gathered for a person to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.models import Q, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.exceptions import CounterError
from django_counters.models import CounterBatch, CounterDelta
from django_counters.tokens import milliseconds_of, mint
from django_counters.upkeep.backlog import Backlog, known
from django_counters.upkeep.doctor import (
    Asked,
    Finding,
    Incidents,
    ask,
    findings,
    hindrances,
    incidents,
    requests,
    waiting,
)
from django_counters.upkeep.ledger import State, state

# Minutes.
PERIODS = (10, 60)
# No more entries are counted for a rate: what is asked has to stay quick on a busy site.
MOST_ENTRIES = 100_000
_DAY = timedelta(days=1)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Rate:
    """How much came in over the last minutes.

    Attributes:
        minutes: how long that is.
        amount: what came in.
        capped: whether it was more, and the rest was not counted.
    """

    minutes: int
    amount: int
    capped: bool = False

    @property
    def per_minute(self) -> float:
        """How much came in within a minute, on average."""
        return self.amount / self.minutes


@dataclass(frozen=True, slots=True)
class Redis:
    """How one Redis of cached counters is.

    Attributes:
        name: as the database has it.
        waits: what waits there; None where it does not say.
        lag: for how long something waits at most; None where nothing does, or it is not known.
        problem: why it does not say what waits; empty where it does.
        breaker: whether this process asks it: the worst of its servers. None where no server was
            asked yet.
    """

    name: str
    waits: Backlog | None
    lag: timedelta | None
    problem: str
    breaker: Literal["closed", "half-open", "open"] | None


@dataclass(frozen=True, slots=True)
class Away:
    """A part of the overview that could not be gathered, and why."""

    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """How the counters of one database are. What could not be gathered is None.

    Attributes:
        using: the database.
        findings: what has to be done.
        landed: how much came from Redis.
        entries: how many entries the ledger got, by the time that their tokens carry.
        spread: what waits in shards and slots.
        ledger: how the ledger is.
        redises: how each Redis is.
        incidents: how many there were lately, by kind.
        requests: how many adjustments wait for a second person.
        away: what could not be gathered.
    """

    using: str
    findings: tuple[Finding, ...] = ()
    landed: tuple[Rate, ...] | None = None
    entries: tuple[Rate, ...] | None = None
    spread: tuple[Finding, ...] | None = None
    ledger: State | None = None
    redises: tuple[Redis, ...] | None = None
    incidents: tuple[Incidents, ...] | None = None
    requests: int | None = None
    away: tuple[Away, ...] = ()


def overview(using: str = DEFAULT_DB_ALIAS) -> Overview:
    """Gather how the counters of one database are. Changes nothing.

    What cannot be asked is said to be away; the rest is gathered nevertheless. Where the settings
    are wrong, the tables are not there, or the database does not answer at all, it looks no
    further. The number of queries does not depend on how much was counted.
    """
    reader = _Reader(using)
    first = reader.read(_("database"), lambda: tuple(hindrances(using)))
    if first or first is None:
        return Overview(using, findings=first or (), away=tuple(reader.away))
    spread = reader.read(_("shards and slots"), lambda: tuple(waiting(using)))
    ledger = reader.read(_("ledger"), lambda: state(using))
    asked = reader.read(_("Redis"), lambda: tuple(ask(source) for source in known(using)))
    recent = reader.read(_("incidents"), lambda: tuple(incidents(using)))
    to_do = reader.read(
        _("what has to be done"),
        lambda: tuple(_needed(using, spread or (), ledger, asked or (), recent or ())),
    )
    return Overview(
        using,
        findings=to_do or (),
        landed=reader.read(_("landed increments"), lambda: _landed(using)),
        entries=reader.read(_("entries"), lambda: _entries(using)),
        spread=spread,
        ledger=ledger,
        redises=None if asked is None else tuple(_redis(one) for one in asked),
        incidents=recent,
        requests=reader.read(_("requests"), lambda: requests(using)),
        away=tuple(reader.away),
    )


class _Reader:
    """Gathers one part after the other, and keeps what could not be."""

    def __init__(self, using: str) -> None:
        self._using = using
        self.away: list[Away] = []

    def read(self, part: str, gather: Callable[[], _T]) -> _T | None:
        """What a part is; None where it is away."""
        # PostgreSQL answers nothing more in a transaction in which a statement has failed.
        held = connections[self._using].in_atomic_block
        try:
            with transaction.atomic(self._using) if held else nullcontext():
                return gather()
        except (Error, CounterError) as error:
            self.away.append(Away(part, str(error).strip().partition("\n")[0]))
            return None


def _needed(
    using: str,
    spread: tuple[Finding, ...],
    ledger: State | None,
    asked: tuple[Asked, ...],
    recent: tuple[Incidents, ...],
) -> Iterator[Finding]:
    """What somebody has to do something about, out of what was gathered."""
    found = findings(using, spread, ledger, asked, map(_in_local_time, recent))
    return (finding for finding in found if finding.needed)


def _in_local_time(one: Incidents) -> Incidents:
    """As a page shows all its times."""
    return one if timezone.is_naive(one.last) else replace(one, last=timezone.localtime(one.last))


def _landed(using: str) -> tuple[Rate, ...]:
    now = clock.now()
    rows = CounterBatch._base_manager.using(using)
    sums = rows.filter(applied_at__gt=now - timedelta(minutes=max(PERIODS))).aggregate(
        **{
            f"of_{minutes}": Sum(
                "total", filter=Q(applied_at__gt=now - timedelta(minutes=minutes)), default=0
            )
            for minutes in PERIODS
        }
    )
    return tuple(Rate(minutes, int(sums[f"of_{minutes}"])) for minutes in PERIODS)


def _entries(using: str) -> tuple[Rate, ...]:
    return tuple(_rate(minutes, using) for minutes in PERIODS)


def _rate(minutes: int, using: str) -> Rate:
    """By the index of the tokens, which begin with their time; and only in the last partitions."""
    now = clock.utc()
    since = now - timedelta(minutes=minutes)
    ends = {"token__gte": _first(since), "token__lt": _first(now + timedelta(milliseconds=1))}
    # A day more than is meant, whatever time zone the column is in.
    rows = CounterDelta._base_manager.using(using).filter(
        created_at__gte=clock.shown(since - _DAY), **ends
    )
    number = rows.order_by().values("token")[: MOST_ENTRIES + 1].count()
    return Rate(minutes, min(number, MOST_ENTRIES), capped=number > MOST_ENTRIES)


def _first(moment: datetime) -> UUID:
    """The least token of a millisecond."""
    return UUID(int=milliseconds_of(mint(moment)) << 80)


def _redis(asked: Asked) -> Redis:
    pending, waits = asked.source.pending, asked.waits
    since = waits.since if waits else None
    return Redis(
        name=asked.source.name,
        waits=waits,
        lag=None if since is None else clock.utc() - since,
        problem=asked.problem,
        breaker=None if pending is None else pending.breaker(),
    )
