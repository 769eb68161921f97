"""How much was counted in the last minutes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, Sum

from django_counters import clock
from django_counters.tables import CounterBatch
from django_counters.tables.standing import ENTRIES
from django_counters.tokens import milliseconds_of, mint

# Minutes.
PERIODS = (10, 60)
# A rate counts no more entries, to be quick on a busy site.
MOST_ENTRIES = 100_000
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Rate:
    """How much came in over the last minutes.

    Attributes:
        minutes: the number of minutes.
        amount: how much came in.
        capped: whether there was more, which was not counted.
    """

    minutes: int
    amount: int
    capped: bool = False

    @property
    def per_minute(self) -> float:
        """How much came in within a minute, on average."""
        return self.amount / self.minutes


def landed(using: str) -> tuple[Rate, ...]:
    """How much a flush has brought from Redis."""
    since = {minutes: clock.now() - timedelta(minutes=minutes) for minutes in PERIODS}
    rows = CounterBatch._base_manager.using(using).filter(applied_at__gt=min(since.values()))
    sums = rows.aggregate(
        **{
            f"of_{minutes}": Sum("total", filter=Q(applied_at__gt=moment), default=0)
            for minutes, moment in since.items()
        }
    )
    return tuple(Rate(minutes, int(sums[f"of_{minutes}"])) for minutes in PERIODS)


def entries(using: str) -> tuple[Rate, ...]:
    """How many entries the ledger got."""
    return tuple(_rate(minutes, using) for minutes in PERIODS)


def _rate(minutes: int, using: str) -> Rate:
    """Uses the index of the tokens, which begin with their time, in the last partitions only."""
    now = clock.utc()
    since = now - timedelta(minutes=minutes)
    ends = {"token__gte": _first(since), "token__lt": _first(now + timedelta(milliseconds=1))}
    # A day more, because the column may be in any time zone.
    rows = ENTRIES.rows(using).filter(created_at__gte=clock.shown(since - _DAY), **ends)
    number = rows.order_by().values("token")[: MOST_ENTRIES + 1].count()
    return Rate(minutes, min(number, MOST_ENTRIES), capped=number > MOST_ENTRIES)


def _first(moment: datetime) -> UUID:
    """The least token of a millisecond."""
    return UUID(int=milliseconds_of(mint(moment)) << 80)
