"""Parcels of increments that come from elsewhere: each is added to the totals once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

from django.db import Error, connections
from django.db.transaction import TransactionManagementError
from django.utils.module_loading import import_string

from django_counters.errors import CounterOverflow, InvalidKey
from django_counters.measure import Kind
from django_counters.stores.base import LandingRefusal, Parcel, PartitionBusy, SlotState
from django_counters.stores.sql.cells import SqlCells
from django_counters.stores.sql.claims import Claims
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.dialects.claims import BATCHES_LANDED, SOURCES_SEEN
from django_counters.stores.sql.session import Block, Session
from django_counters.stores.sql.tables import NAMED, RecordKeys
from django_counters.stores.sql.totals import SqlTotals, hex_of
from django_counters.tables import CounterSource
from django_counters.types import INT8, KEY_LENGTH, SMALL, Cell, Sums, check_key

# Milliseconds: others may have to wait behind us for as long.
LOCK_TIMEOUT = 2_000
STATEMENT_TIMEOUT = 30_000
# For how long it is known what has landed. Older generations cannot be told from landed ones, so
# they are not landed any more.
REMEMBERED = timedelta(days=30)
OLDEST = REMEMBERED - timedelta(days=2)


class SqlBatches:
    """Lands parcels. What one landing does is committed together with the claim to it."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._session = Session(using)
        self._sql = self._session.dialect.landing
        self._claims = Claims(self._session, BATCHES_LANDED)
        self._positions = Claims(self._session, SOURCES_SEEN)
        self._named = SqlTotals(NAMED, using)
        self._hold = self._session.dialect.fold(NAMED.quoted(self._session.quote), "text").hold
        self._cells = SqlCells(self._session)

    @contextmanager
    def landing(
        self, *, lock_timeout: int = LOCK_TIMEOUT, statement_timeout: int = STATEMENT_TIMEOUT
    ) -> Iterator[None]:
        """A transaction of its own: when the block ends without an error, it is on the disk.

        Its statements are READ COMMITTED, on any connection. SQLite has one writer,
        which this is from the start; there the timeout of the connection holds instead.

        Args:
            lock_timeout: for how many milliseconds a statement waits for locks of others.
            statement_timeout: how many milliseconds a statement may take.

        Raises:
            PartitionBusy: others held the rows, or it took too long. Nothing is landed: try again.
            OutcomeUnknown: the connection was lost in COMMIT. Land the same parcels again: those
                that are landed are not returned by `claim`.
            CounterUnavailable, ReadOnlyDatabase: nothing is landed.
            RuntimeError: the caller has a transaction, which could take back what is landed.
            TransactionManagementError: the connection is not in autocommit mode.
        """
        connection = connections[self._using]
        self._session.connect()
        if not (connection.autocommit or connection.in_atomic_block):
            # Django would leave the COMMIT to a caller who may never send it.
            raise TransactionManagementError("A landing needs a connection in autocommit mode.")
        begins = self._session.commits_at_once()
        with Block(self._using, self._explain, durable=True):
            # Otherwise it is within the transaction of a test case, which was begun before.
            if begins:
                self._session.execute(self._sql.begin)
                if self._session.dialect.limits_time:
                    timeouts = (str(lock_timeout), str(statement_timeout))
                    self._session.run(self._sql.settings, timeouts)
            yield

    def now(self) -> datetime:
        """The present moment of the database."""
        return self._session.now()

    def claim(self, parcels: Sequence[Parcel]) -> set[str]:
        """Write down that parcels are landed; the ids of those that no transaction had written
        down.

        Only they are to be applied, in the same landing.
        """
        # Not a total of a counter: it may be wider than one, and is a text for that.
        rows = [(p.id, p.slot, p.source, len(p.sums), str(sum(p.sums.values()))) for p in parcels]
        return set(map(hex_of, self._claims.claim(rows)))

    def land_named(self, sums: Mapping[str, int]) -> dict[str, LandingRefusal]:
        """Add to the totals of named counters in the order of their keys. Return the refused ones.

        A total that is missing is made. All that is not refused is added: what does not fit (the
        total, or the value with what waits elsewhere) does not stop its neighbours.
        """
        self._check_that_it_is_a_landing()
        refused = dict(_never(sums))
        fitting = sums
        if refused or not all(sums.values()):
            fitting = {key: by for key, by in sums.items() if by and key not in refused}
        try:
            self._add(fitting)
        except CounterOverflow:
            over = self._over(fitting)
            refused.update(dict.fromkeys(over, LandingRefusal.OVERFLOW))
            try:
                self._add({key: by for key, by in fitting.items() if key not in over})
            except CounterOverflow as error:
                # The totals are held; the amount pending elsewhere has just changed.
                raise PartitionBusy(str(error)) from error
        return refused

    def land_records(
        self, table: Table, key_field: Any, sums: Mapping[str, int]
    ) -> dict[str, LandingRefusal]:
        """Add to one column of a model's records, held in the order of their keys; the refused.

        Args:
            table: where the column stands.
            key_field: the primary key of the model.
            sums: what to add, by the text of the primary key.
        """
        self._check_that_it_is_a_landing()
        quoted = table.quoted(self._session.quote)
        keys = RecordKeys(key_field, self._using)
        natives = keys.natives(sums)
        totals: dict[str, int] = {}
        if natives:
            among = self._session.dialect.keys(list(natives.values()))
            rows = self._session.run(self._session.dialect.hold(quoted, keys.type), (among,))
            totals = {str(key): total for key, total in rows}
        refused = {}
        credits = []
        for key, by in sums.items():
            if reason := _why_not(key in natives, totals.get(key), by, table.capacity):
                refused[key] = reason
            elif by:
                credits.append((natives[key], by))
        if credits:
            sql = self._session.dialect.fold(quoted, keys.type).credit
            credited = self._session.run(sql, self._session.dialect.columns(credits))
            if len(credited) != len(credits):
                text = f"{len(credits)} rows are held, {len(credited)} were changed"
                raise RuntimeError(text)
        return refused

    def land_cells(self, sums: Sums[str]) -> bool:
        """Add to cells, after the totals that they belong to; False where a value does not fit."""
        self._check_that_it_is_a_landing()
        try:
            with self._session.all_or_nothing():
                self._cells.add_sums(sums)
        except Error as error:
            if not self._session.dialect.overflowed(error):
                raise
            return False
        return True

    def land_members(
        self,
        kind: Kind,
        members: Sequence[tuple[str, Cell]],
        more: Sequence[tuple[str, Cell, Any]],
    ) -> None:
        """Put members into their sets, after the cells. One that is there already stays."""
        self._check_that_it_is_a_landing()
        import_string(kind.lands)(self._session, members, more)

    def known(self, generations: Iterable[str]) -> set[str]:
        """Those among them that are landed, as far as their rows are kept."""
        return set(map(hex_of, self._claims.known(generations)))

    def prune(self) -> int:
        """Forget what landed so long ago that it is refused if it comes again; how many.

        It is refused by the time that its id carries, earlier than it is forgotten by as much as
        the clocks of clients may be ahead.
        """
        return self._claims.prune(self.now() - REMEMBERED)

    def sources(self) -> list[str]:
        """The names of all sources of which something was seen."""
        names = CounterSource._base_manager.using(self._using).values_list("source", flat=True)
        with self._session.translated():
            return list(names.distinct().order_by("source"))

    def source(self, name: str, *, hold: bool = False) -> dict[int, SlotState]:
        """The last seen state of the slots of a source; held until the transaction ends."""
        rows = self._positions.found(name, hold=hold)
        return {slot: SlotState(generation, timeline) for _, slot, generation, timeline in rows}

    def remember(self, name: str, seen: Mapping[int, tuple[str, str]]) -> None:
        """Keep the present state of slots of a source, instead of the former one."""
        self._positions.put([(name, slot, *seen[slot]) for slot in sorted(seen)])

    def _check_that_it_is_a_landing(self) -> None:
        """A claim that is committed before what is landed would lose it, or the other way round."""
        if self._session.commits_at_once():
            raise TransactionManagementError("This is a part of a landing.")

    def _explain(self, error: Error, committing: bool) -> None:
        """Raise our own error for one of a landing, if it has a name."""
        dialect = self._session.dialect
        if dialect.busy(error) and not (committing and dialect.cancelled(error)):
            raise PartitionBusy(str(error).strip()) from error
        self._session.translate(error, committing)

    def _add(self, sums: Mapping[str, int]) -> None:
        """Add all or, with an error, nothing: earlier changes stay."""
        if sums:
            with self._session.all_or_nothing():
                self._named.add_sums(cast("Mapping[Hashable, int]", sums))

    def _over(self, sums: Mapping[str, int]) -> set[str]:
        """Hold all totals, and say which of them the sums do not fit into."""
        self._session.run(self._hold, (self._session.dialect.keys(list(sums)),))
        low, high = INT8
        return {
            str(key)
            for key, amounts in self._named.read(sums).items()
            for number in (amounts.total or 0, amounts.value)
            if not low <= number + sums[str(key)] <= high
        }


def _never(sums: Mapping[str, int]) -> Iterator[tuple[str, LandingRefusal]]:
    """What no total can take. Nearly all that comes is what it should be: seen at a glance."""
    for key, by in sums.items():
        usual = key.isascii() and key.isprintable() and 0 < len(key) <= KEY_LENGTH
        usual = usual and " " not in key and -SMALL < by < SMALL
        if usual:
            continue
        low, high = INT8
        try:
            check_key(key)
        except InvalidKey:
            yield key, LandingRefusal.STRANGE
        else:
            if not low <= by <= high:
                yield key, LandingRefusal.OVERFLOW


def _why_not(
    is_key: bool, total: int | None, by: int, capacity: tuple[int, int]
) -> LandingRefusal | None:
    """Why a record cannot take an amount."""
    if not is_key:
        return LandingRefusal.STRANGE
    if total is None:
        return LandingRefusal.MISSING
    low, high = capacity
    fits = low <= total + by <= high and INT8[0] <= by <= INT8[1]
    return None if fits else LandingRefusal.OVERFLOW
