"""Upkeep of the ledger: its partitions, its state, and how it is put right after a restore."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters import clock
from django_counters.errors import CounterError, LedgerFenced
from django_counters.features import Drift
from django_counters.ledger.horizon import FoldedEntries, Holder, SqlHorizon
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.sql import Extent
from django_counters.ledger.strategy import LEAST_RETENTION
from django_counters.registry import ledgers
from django_counters.stores.base import PartitionBusy
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterIncident
from django_counters.tables.schema import COUNTERS, ENTRIES, beginning
from django_counters.tokens import AHEAD

logger = logging.getLogger("django_counters")

DAY = timedelta(days=1)
AHEAD_OF_TIME = 7
FEWEST_AHEAD = 3
# How many transactions may read all partitions at once before the server runs out of locks.
FEWEST_READERS = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: ``"create"``, ``"seal"`` or ``"drop"`` a partition."""

    verb: str
    extent: Extent


@dataclass
class PartitionReport:
    """The result of `maintain`.

    Attributes:
        created, sealed, dropped: the names of partitions.
        busy: locked partitions. The next run tries them again.
        failed: partitions that the database refused to change, and why.
        forgotten: how many entries were deleted in a database without partitions.
    """

    created: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    forgotten: int = 0


def retention() -> timedelta | None:
    """Return how long entries are kept: the longest retention of all namespaces. None: forever."""
    # Cached counters need entries for their tokens, not as a history.
    days = [LEAST_RETENTION if p.recipe.can.outside else p.retention_days for p in ledgers()]
    kept = [number for number in days if number is not None]
    return timedelta(days=max(kept)) if kept and len(kept) == len(days) else None


def plan(
    using: str = DEFAULT_DB_ALIAS,
    *,
    ahead: int = AHEAD_OF_TIME,
    keep: timedelta | None = None,
    width: timedelta = DAY,
) -> list[Step]:
    """Return the steps that partitions of one database need now.

    Until its rebase, a ledger from another server only gets new partitions. The other server
    may still send rows about sealed and dropped ones.

    Args:
        using: the database.
        ahead: how many partitions should begin in the future.
        keep: how long entries are kept. None: as the namespaces declare.
        width: the time range of a new partition.
    """
    store = SqlPartitions(using)
    if not store.exist or not ENTRIES.stands_in(using):
        return []
    horizon = SqlHorizon(using)
    state = horizon.state()
    steps = list(_steps(store, state.token_window, ahead, keep, width))
    made = [step for step in steps if step.verb == "create"]
    return made if len(made) < len(steps) and horizon.fenced(state) else steps


def maintain(
    using: str = DEFAULT_DB_ALIAS,
    *,
    ahead: int = AHEAD_OF_TIME,
    keep: timedelta | None = None,
    width: timedelta = DAY,
) -> PartitionReport:
    """Carry out the steps of `plan`. Several calls can run at once, and counting never waits long.

    A partition is sealed when no token can belong to it anymore and all its entries are rolled up,
    and dropped when it is sealed and past its retention. A locked partition is left for the next
    run. The database's clock decides, because a host's wrong clock would drop too early. In a
    database without partitions, entries past their retention are deleted.
    """
    report, store = PartitionReport(), SqlPartitions(using)
    if not store.exist:
        keep = retention() if keep is None else keep
        if keep is not None and "ledger" not in dialect_of(using).lacks:
            window = SqlHorizon(using).state().token_window
            report.forgotten = store.forget(store.now() - max(keep, window + 2 * AHEAD))
        return report
    for step in plan(using, ahead=ahead, keep=keep, width=width):
        _take(step, store, report)
    return report


def make_ahead(using: str) -> None:
    """Create missing partitions and nothing else, while a database is set up."""
    store = SqlPartitions(using)
    for step in plan(using):
        if step.verb == "create":
            store.create(step.extent.since, step.extent.until)


def fold_entries(using: str) -> FoldedEntries:
    """Fold finished entries into the totals, and make partitions if too few are ahead.

    Folds nothing if another rollup is running, or a total stays locked. Counters whose totals would
    not fit become incidents.

    Raises:
        LedgerFenced: the table came from another server.
    """
    try:
        folded = SqlHorizon(using).fold() or FoldedEntries(0, 0, [])
    except LedgerFenced as error:
        record(CounterIncident.Kind.FENCED, using, {"reason": error.reason}, using)
        raise
    for key in folded.stuck:
        record(CounterIncident.Kind.OVERFLOW, key, {}, using)
    if too_few(partitions_ahead(using)):
        maintain(using)
    return folded


def _take(step: Step, store: SqlPartitions, report: PartitionReport) -> None:
    """Carry out one step. A failure of one partition doesn't stop the others."""
    name = step.extent.name or f"{step.extent.since:%Y-%m-%d}"
    try:
        if step.verb == "create":
            made = store.create(step.extent.since, step.extent.until)
            report.created.extend([made] if made else [])
        elif step.verb == "seal":
            report.sealed.extend([name] if store.seal(step.extent) else [])
        else:
            report.dropped.extend([name] if store.drop(name) else [])
    except PartitionBusy:
        report.busy.append(name)
    except CounterError:
        # The database is unavailable or read-only.
        raise
    except Error as error:
        logger.exception("The partition %s could not be changed (%s).", name, step.verb)
        report.failed.append(f"{step.verb} {name}: {str(error).strip().partition(chr(10))[0]}")


def _steps(
    store: SqlPartitions,
    window: timedelta,
    ahead: int,
    keep: timedelta | None,
    width: timedelta,
) -> Iterator[Step]:
    now, present, sealed = store.now(), store.present(), store.sealed()
    for since in _missing(present, now - window - AHEAD, now + ahead * width, width):
        yield Step("create", Extent("", since, since + width))
    kept, settled = keep if keep is not None else retention(), window + 2 * AHEAD
    for extent in present:
        if extent.name not in sealed and extent.until < now - settled:
            yield Step("seal", extent)
        # A partition that a token may still belong to is kept, with any retention and seal.
        elif kept is not None and extent.name in sealed and extent.until < now - max(kept, settled):
            yield Step("drop", extent)


def _missing(
    present: list[Extent], since: datetime, until: datetime, width: timedelta
) -> Iterator[datetime]:
    """Return the beginnings of missing partitions, in steps from the beginning of 1970."""
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    moment += (since - moment) // width * width
    while moment <= until:
        if not any(e.since < moment + width and moment < e.until for e in present):
            yield moment
        moment += width


def partitions_ahead(using: str) -> int | None:
    """Return how many partitions follow the present one without a gap; None if there are none."""
    store = SqlPartitions(using)
    if not store.exist:
        return None
    covered, ahead = store.now(), -1
    for extent in store.present():
        if extent.since <= covered < extent.until:
            covered, ahead = extent.until, ahead + 1
    return max(ahead, 0)


def locks_of_all(using: str) -> tuple[int, int] | None:
    """Return the locks that a read of all partitions takes, and the server's room for locks.

    None: that is no more than a tenth, or there are no partitions.
    """
    store = SqlPartitions(using)
    if not store.exist:
        return None
    taken, room = store.locks()
    return (taken, room) if taken * FEWEST_READERS > room else None


def too_few(ahead: int | None) -> bool:
    """Return whether there are partitions, but too few for the next days."""
    return ahead is not None and ahead < FEWEST_AHEAD


# Verification.


def compare(using: str, prefix: str, keys: Sequence[str] | None) -> tuple[int, list[Drift]]:
    """Compare totals with their entries, and sealed partitions with the archive.

    Each sealed partition takes a statement of its own, because nothing changes them: a statement
    for all would need the locks of all partitions.

    Args:
        using: the database.
        prefix: how the keys begin.
        keys: only these counters; None: all.

    Returns:
        How many sealed partitions were counted again, as a whole; the counters whose totals
        differ, and the partitions whose entries have changed.
    """
    store, inquiry = SqlPartitions(using), SqlInquiry(NAMED, using)
    whole = keys is None and not prefix
    astray: dict[str, int] = {}
    changed, partitions = list[Drift](), 0
    for name, sealed in store.sealed().items():
        extent = Extent(name, clock.meant(sealed.since), clock.meant(sealed.until))
        found = inquiry.recount(extent, prefix, keys)
        partitions += whole
        differs = whole and found[:2] != (sealed.entries, int(sealed.delta_sum))
        # It may just have been dropped.
        if (differs or found.astray) and name in SqlPartitions(using).sealed():
            for key, more in found.astray.items():
                astray[key] = astray.get(key, 0) + more
            if differs:
                changed.append(Drift(name, int(sealed.delta_sum), found.delta_sum))
    return partitions, [*inquiry.drift(prefix, keys, astray), *changed]


# The state of the ledger, and a restore.


@dataclass(frozen=True, slots=True)
class State:
    """The state of the ledger of one database.

    Attributes:
        entries: how many entries are pending.
        counters: of how many counters.
        lag: how old the totals are: they have all earlier commits. None before the first rollup.
        idle: how long ago the last rollup ran; None before the first one.
        holder: the oldest transaction, if entries are pending and it ran during the last rollup: it
            holds the horizon back.
        fenced: why the ledger can't be rolled up; empty if it can.
        partitions_ahead: how many partitions follow the present one without a gap; None if there
            are no partitions at all.
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
    """Read the state of the ledger of one database."""
    if not COUNTERS.stands_in(using) or "ledger" in dialect_of(using).lacks:
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


def unfolded(using: str) -> int:
    """Return how many entries wait, if no rollup has looked at them for `LATE`; else 0."""
    idle = since_rollup(using)
    return SqlInquiry(NAMED, using).waiting()[0] if idle is None or idle > clock.LATE else 0


def since_rollup(using: str) -> timedelta | None:
    """Return the time since a rollup has ended; None if the database doesn't know it."""
    return _age(SqlHorizon(using).state().rolled_up_at)


def _age(moment: datetime) -> timedelta | None:
    """Return how long ago a moment was; None if it never was."""
    return None if moment == beginning() else clock.utc() - clock.meant(moment)


def _holder(horizon: SqlHorizon, rolled_up_at: datetime) -> Holder | None:
    """Return the oldest transaction, unless it began after the last rollup.

    A role without rights doesn't see when it began; then it may be the one.
    """
    oldest = next(iter(horizon.holders()), None)
    is_new = oldest and oldest.since and oldest.since > clock.meant(rolled_up_at)
    return None if is_new else oldest


def rebase(using: str = DEFAULT_DB_ALIAS) -> int:
    """Compute all totals of the ledger after a restore; return how many changed.

    First it seals and drops the partitions that the other server has sealed and dropped. No entry
    can be appended while it runs, which takes as long as adding up all entries. Amounts that didn't
    come through the ledger stay.
    """
    SqlPartitions(using).settle()
    return SqlHorizon(using).rebase()
