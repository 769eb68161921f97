"""The rollup of the ledger: entries of transactions that have ended become part of the totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from django.db import Error, connections, models
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.errors import CounterOverflow, LedgerFenced, LedgerIncomplete, RetryTransaction
from django_counters.ledger.deltas import RESTORED
from django_counters.ledger.sql import statements
from django_counters.stores.sql.session import Session, aware
from django_counters.tables import CounterHorizon, CounterPartition
from django_counters.tables.schema import COUNTERS, ENTRIES
from django_counters.tokens import AHEAD
from django_counters.types import INT8

# Milliseconds to wait for locked totals: their holder may wait for a lock of this transaction.
HURRY = "1000"


class FoldedEntries(NamedTuple):
    """The result of a rollup: how many entries, of how many counters.

    ``stuck``: counters whose total would not fit. Their entries stay pending.
    """

    entries: int
    counters: int
    stuck: list[str]


class Holder(NamedTuple):
    """The transaction that holds the horizon back: entries since its beginning stay pending."""

    what: str
    name: str
    since: datetime | None
    does: str


class HorizonMark(NamedTuple):
    """A moment, and the first transaction that began after it."""

    at: datetime
    xid: int


class SqlHorizon:
    """Folds each entry into its total once. One rollup works at a time, and others don't wait.

    A transaction whose number is below a snapshot's xmin has ended, and the snapshot has its
    commits. So the entries from the old horizon to that xmin are complete. The sums and the new
    horizon are committed together, so each entry is folded once. No clock and no order of
    commits matters. The fence refuses a table that came from another server, because numbers of
    transactions belong to one server.
    """

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = statements(using).rolling
        self._knows = self._session.dialect.knows_transaction_horizon
        self._using = using

    def fold(self) -> FoldedEntries | None:
        """Fold all entries of transactions that have ended.

        None if another rollup is running, or a total stays locked: try again later.

        Raises:
            LedgerFenced: the table came from another server; nothing was folded.
            TransactionManagementError: the surrounding transaction keeps one snapshot.
        """
        self.found()
        try:
            with self._alone():
                mark = self._mark()
                state = self._held(skip_locked=True)
                if state is None:
                    return None
                # Another rollup may have run in between: ask again which transaction is next.
                self._check(state, self._mark())
                with self._session.hurried(HURRY):
                    folded = self._folded(state)
                self._settle(state, mark, folded)
        except Error as error:
            dialect = self._session.dialect
            if dialect.timed_out(error) or dialect.unserializable(error):
                return None
            raise
        return folded

    def rebase(self) -> int:
        """Compute all totals from the entries, and start a new count of transactions.

        Waits until no transaction writes, and locks out writers. Amounts that didn't come through
        the ledger stay as they are. Returns how many totals were changed.

        Raises:
            LedgerIncomplete: a sealed partition has fewer entries than it had; nothing was changed.
            TransactionManagementError: the surrounding transaction keeps one snapshot.
            RetryTransaction: it met with another transaction; nothing was changed.
            CounterOverflow: a total would not fit; nothing was changed.
        """
        self.found(check=False)
        try:
            with self._alone():
                state = self._held(skip_locked=False)
                assert state is not None
                if self._session.dialect.several_writers:
                    self._session.execute(self._sql.keep_out)
                self._refuse_incomplete()
                # From here on, snapshots of statements have all entries.
                changed = len(self._session.run(self._sql.recompute, ()))
                self._restart(state)
        except Error as error:
            if self._session.dialect.unserializable(error):
                raise RetryTransaction(what="the rebase") from error
            if self._session.dialect.overflowed(error):
                low, high = INT8
                raise CounterOverflow(key="a total of the ledger", low=low, high=high) from error
            raise
        return changed

    def _refuse_incomplete(self) -> None:
        """Refuse to compute totals if entries are missing: a restore may have left some out."""
        for sealed in CounterPartition._base_manager.using(self._using).filter(dropped_at=None):
            moments = {"created_at__gte": sealed.since, "created_at__lt": sealed.until}
            found = ENTRIES.rows(self._using).filter(**moments).count()
            if found < sealed.entries:
                raise LedgerIncomplete(
                    using=self._using, partition=sealed.name, expected=sealed.entries, found=found
                )

    def _restart(self, state: CounterHorizon) -> None:
        mark = self._mark()
        ((horizon, fence),) = self._session.run(self._sql.restart, ())
        state.horizon, state.fence, state.cluster = horizon, fence, self._cluster()
        state.as_of = state.mark_at = state.rolled_up_at = mark.at
        state.mark_xid = 0
        state.tail_since = mark.at - state.token_window - AHEAD
        state.save(using=self._using)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Open a transaction in which each statement has all earlier commits."""
        begins = self._session.commits_at_once()
        with self._session.read_committed():
            if not begins and self._knows:
                ((level,),) = self._session.run(self._sql.isolation, (), writes=False)
                if level != "read committed":
                    raise TransactionManagementError(f"The ledger cannot be rolled up in {level}.")
            yield

    def state(self) -> CounterHorizon:
        """Return how far the ledger is rolled up."""
        return self._states().first() or CounterHorizon(pk=1)

    def fenced(self, state: CounterHorizon) -> str:
        """Return why the ledger can't be rolled up from there; empty if it can."""
        try:
            self._check(state, self._mark())
        except LedgerFenced as error:
            return str(error)
        return ""

    def require(self) -> None:
        """Refuse a table that came from another server.

        Raises:
            LedgerFenced: it did; numbers of transactions in it mean something else here.
        """
        self._check(self.state(), self._mark())

    def holders(self) -> list[Holder]:
        """Return the transactions that hold the horizon back, the oldest first."""
        if not self._knows:
            return []
        rows = self._session.run(self._sql.holders, (), writes=False)
        return [
            # A role without rights doesn't see the beginning and the query of others' transactions.
            Holder(what, name, aware(since, local=True) if since else None, does or "")
            for what, name, since, does in rows
        ]

    def found(self, *, check: bool = True) -> None:
        """Make the row of the horizon if there is none.

        Raises:
            LedgerFenced: there are totals of the ledger, so there was one.
        """
        if self._states().exists():
            return
        used = COUNTERS.rows(self._using).filter(outside__isnull=False)
        if check and used.exclude(value=models.F("outside")).exists():
            raise LedgerFenced(using=self._using, reason="has lost its horizon")
        state = CounterHorizon(pk=1, cluster=self._cluster())
        self._states().bulk_create([state], ignore_conflicts=True)

    def _states(self) -> models.QuerySet[CounterHorizon]:
        return CounterHorizon._base_manager.using(self._using)

    def _held(self, *, skip_locked: bool) -> CounterHorizon | None:
        rows = self._states().filter(pk=1)
        if connections[self._using].features.has_select_for_update:
            rows = rows.select_for_update(skip_locked=skip_locked)
        else:
            # SQLite refuses a reader that becomes a writer: write first.
            rows.update(rolled_up_at=self._mark().at)
        return rows.first()

    def _mark(self) -> HorizonMark:
        ((moment, xid),) = self._session.run(self._sql.mark, (), writes=False)
        local = self._session.dialect.knows_time_zones
        return HorizonMark(clock.shown(aware(moment, local=local)), xid)

    def _cluster(self) -> int | None:
        """Return the server's identifier; None if it has none, or doesn't tell it."""
        if not self._knows:
            return None
        ((may_ask,),) = self._session.run(self._sql.may_ask, (), writes=False)
        rows = self._session.run(self._sql.cluster, (), writes=False) if may_ask else ()
        return int(rows[0][0]) if rows else None

    def _check(self, state: CounterHorizon, mark: HorizonMark) -> None:
        cluster = self._cluster()
        moved = cluster is not None and state.cluster is not None and cluster != state.cluster
        # A copy of the tables has only the fence, and not the last number of an entry.
        numbered = state.fence
        if self._knows:
            ((numbered,),) = self._session.run(self._sql.numbered, (), writes=False)
        if moved or state.horizon > mark.xid or state.fence > int(numbered):
            raise LedgerFenced(using=self._using, reason=RESTORED)

    def _folded(self, state: CounterHorizon) -> FoldedEntries:
        known: dict[str, Any] = {"horizon": state.horizon, "fence": state.fence}
        rows: Sequence[tuple[Any, ...]]
        if not self._session.dialect.several_writers:
            # It takes several statements here, but there is only one writer.
            ((entries, counters),) = self._session.run(self._sql.summary, known)
            self._session.run(self._sql.fold, known)
            ((state.horizon,),) = self._session.run(self._sql.advance, ())
            return FoldedEntries(entries, counters, [])
        known["since"] = clock.meant(state.tail_since)
        rows = self._session.run(self._sql.fold, known)
        if not rows:
            # The row is locked, so only a person can have moved it.
            raise LedgerFenced(using=self._using, reason="has a horizon that was moved by hand")
        ((state.horizon, entries, counters, stuck, freed),) = rows
        among = self._session.dialect.keys
        if stuck:
            edge = {"edge": state.horizon, **known}
            self._session.run(self._sql.hold, {**edge, "keys": among(stuck)})
        if freed:
            self._session.run(self._sql.release, {**known, "keys": among(freed)})
        return FoldedEntries(int(entries), int(counters), stuck)

    def _settle(self, state: CounterHorizon, mark: HorizonMark, folded: FoldedEntries) -> None:
        """Store the moment up to which the totals are complete, if the horizon reached a mark.

        If entries didn't fit, the totals are no more complete than before.
        """
        state.rolled_up_at = mark.at
        if not folded.stuck:
            if state.horizon >= mark.xid:
                state.as_of, state.mark_xid = mark.at, 0
            elif state.mark_xid and state.horizon >= state.mark_xid:
                state.as_of, state.mark_xid, state.mark_at = state.mark_at, mark.xid, mark.at
            elif not state.mark_xid:
                state.mark_xid, state.mark_at = mark.xid, mark.at
            state.tail_since = max(state.tail_since, state.as_of - state.token_window - AHEAD)
        fields = ("as_of", "mark_xid", "mark_at", "tail_since", "rolled_up_at")
        state.save(using=self._using, update_fields=fields)
