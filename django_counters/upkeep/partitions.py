"""Partitions of the ledger: some ahead of time, none longer than its retention."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, Error

from django_counters.conf import Policy
from django_counters.exceptions import CounterError
from django_counters.registry import registry
from django_counters.stores.sql.deltas import AHEAD
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.dialects.ledger import Extent
from django_counters.stores.sql.horizon import SqlHorizon
from django_counters.stores.sql.partitions import PartitionBusy, SqlPartitions
from django_counters.strategies.ledger import LEAST_RETENTION
from django_counters.tables.standing import ENTRIES

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

    ``busy``: locked partitions, to be tried again. ``failed``: partitions that the database
    refused, and why.
    """

    created: list[str] = field(default_factory=list)
    sealed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    forgotten: int = 0


def ledgers() -> list[Policy]:
    """The policies of the namespaces that have entries: cached ones do, with tokens or detours."""
    policies = registry.policies().values()
    return [p for p in policies if p.recipe.can.entries or p.recipe.can.outside]


def retention() -> timedelta | None:
    """For how long entries are kept: as long as any namespace needs them. None: for ever."""
    # Entries of cached counters are there for their tokens, not as a history.
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
    """The work to do now on the partitions of one database.

    Until its rebase, a ledger from another server gets new partitions and no more. The other server
    may still send rows about sealed and dropped ones.

    Args:
        using: the database.
        ahead: how many partitions there should be that begin in the future.
        keep: for how long entries are kept; as the namespaces declare where it is not given.
        width: how much time a new partition holds.
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
    """Do what `plan` says. Any number of these can run at once; those who count never wait long.

    A partition is sealed when no token can belong to it any more and all of it is rolled up, and
    dropped when it is sealed and past its retention. A locked partition is left for the next run.
    The clock is that of the database: one of a host that is wrong would drop too early. Where a
    database has no partitions, entries that are past their retention are deleted.
    """
    report, store = PartitionReport(), SqlPartitions(using)
    if not store.exist:
        report.forgotten = _forget(store, using, retention() if keep is None else keep)
        return report
    for step in plan(using, ahead=ahead, keep=keep, width=width):
        _take(step, store, report)
    return report


def make_ahead(using: str) -> None:
    """Make the partitions that are missing, and nothing else: for a database that is set up."""
    store = SqlPartitions(using)
    for step in plan(using):
        if step.verb == "create":
            store.create(step.extent.since, step.extent.until)


def _take(step: Step, store: SqlPartitions, report: PartitionReport) -> None:
    """Take one step. What fails for one partition leaves the others to be done."""
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
        # The database is gone, or cannot be written at all.
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
        # A partition that a token may still belong to is kept, with any declaration and any time of
        # its seal.
        elif kept is not None and extent.name in sealed and extent.until < now - max(kept, settled):
            yield Step("drop", extent)


def _missing(
    present: list[Extent], since: datetime, until: datetime, width: timedelta
) -> Iterator[datetime]:
    """Beginnings of partitions that are not there, in steps from the beginning of 1970."""
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    moment += (since - moment) // width * width
    while moment <= until:
        if not any(e.since < moment + width and moment < e.until for e in present):
            yield moment
        moment += width


def _forget(store: SqlPartitions, using: str, keep: timedelta | None) -> int:
    if keep is None or "ledger" in dialect_of(using).lacks:
        return 0
    window = SqlHorizon(using).state().token_window
    return store.forget(store.now() - max(keep, window + 2 * AHEAD))


def partitions_ahead(using: str) -> int | None:
    """How many partitions follow the present one without a gap; None where there are none."""
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
    """Whether there are partitions, but not for the next days."""
    return ahead is not None and ahead < FEWEST_AHEAD
