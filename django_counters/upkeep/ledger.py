"""The ledger as a whole: how it is, and how it is put right after a restore."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS

from django_counters import clock
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.horizon import Holder, SqlHorizon
from django_counters.stores.sql.inquiry import SqlInquiry
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.horizon import beginning
from django_counters.upkeep.partitions import locks_of_all, partitions_ahead


@dataclass(frozen=True, slots=True)
class State:
    """How the ledger of one database is.

    Attributes:
        entries: how many entries wait for their rollup.
        counters: of how many counters.
        lag: how old the totals are: all that was committed before is in them. None before the first
            rollup.
        idle: how long ago the last rollup looked at it; None before the first one.
        holder: who holds the horizon back: the oldest transaction, if entries wait and it was at it
            when the last rollup ran.
        fenced: why it cannot be rolled up; empty where it can.
        partitions_ahead: how many partitions follow the present one without a gap; None where there
            are none at all.
        locks: the locks that a read of all partitions takes, and the server's room for locks; None
            while that is no more than a tenth.
    """

    entries: int
    counters: int
    lag: timedelta | None
    idle: timedelta | None
    holder: Holder | None
    fenced: str
    partitions_ahead: int | None
    locks: tuple[int, int] | None = None


def state(using: str = DEFAULT_DB_ALIAS) -> State:
    """Look at the ledger of one database."""
    if "ledger" in dialect_of(using).lacks:
        return State(0, 0, None, None, None, "", None)
    horizon = SqlHorizon(using)
    entries, counters = SqlInquiry(NAMED, using).waiting()
    reached = horizon.state()
    return State(
        entries=entries,
        counters=counters,
        lag=_age(reached.as_of),
        idle=_age(reached.rolled_up_at),
        holder=_holder(horizon, reached.rolled_up_at) if entries else None,
        fenced=horizon.fenced(reached),
        partitions_ahead=partitions_ahead(using),
        locks=locks_of_all(using),
    )


def _age(moment: datetime) -> timedelta | None:
    """How long ago that was; None if it never was."""
    return None if moment == beginning() else clock.utc() - clock.meant(moment)


def _holder(horizon: SqlHorizon, rolled_up_at: datetime) -> Holder | None:
    """The oldest transaction, unless it is younger than the last rollup: that can be any of them.

    A role without rights does not see since when it is there; then it may be the one.
    """
    oldest = next(iter(horizon.holders()), None)
    is_new = oldest and oldest.since and oldest.since > clock.meant(rolled_up_at)
    return None if is_new else oldest


def rebase(using: str = DEFAULT_DB_ALIAS) -> int:
    """Compute all totals of the ledger anew, after a dump was restored; how many changed.

    Exact whenever the entries and the archive are: no entry can be appended meanwhile, and counts
    that did not come through the ledger stay. Takes as long as adding up all entries. Before that,
    it seals and drops the partitions that another server has sealed and dropped.
    """
    SqlPartitions(using).settle()
    return SqlHorizon(using).rebase()
