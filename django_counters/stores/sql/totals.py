"""Totals of one database, and shards and slots with a floor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error

from django_counters.errors import CounterError, CounterOverflow, RecordMissing
from django_counters.measure import Condition, ConditionKind, ConditionResult, Kind
from django_counters.stores.sql.cells import (
    CONDITION,
    MANY,
    MANY_NUMBERED,
    NUMBERED,
    NUMBERED_CONDITION,
    ONE,
    CellPart,
    SqlCells,
)
from django_counters.stores.sql.claims import SqlConditions
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.session import Owner, Session
from django_counters.stores.sql.tables import RecordKeys
from django_counters.types import INT8, UNBOUNDED, Amounts, Bounds, Delta

# -- Totals kept in a column: add to them, read them together with what waits for its rollup.


class SqlReads:
    """Reads total and pending of the counters of one table. Holds no connection and no number."""

    def __init__(self, table: Table, using: str) -> None:
        self.capacity = table.capacity
        self.inserts = table.inserts
        self.using = using
        self._session = Session(using)
        self._label = table.label
        self._quoted = table.quoted(self._session.quote)
        self._owner = Owner(table.pending, self._session)
        self._reads = self._session.dialect.reads(self._quoted)
        self._cells = SqlCells(self._session)
        self._conditions = SqlConditions(using)
        self._on: dict[tuple[ConditionKind, int, bool], str | None] = {}

    def read_one(self, key: Hashable) -> Amounts | None:
        """Return the total and the pending amount, of one moment; None if there is neither."""
        rows = self._session.run(self._reads.one, self._reading(key), writes=False)
        (total, pending) = rows[0]
        if total is None and pending is None:
            return None
        return Amounts(None if total is None else int(total), int(pending or 0))

    def read(self, keys: Iterable[Hashable]) -> Mapping[Hashable, Amounts]:
        """Return total and pending of those that exist among ``keys``, in one statement."""
        asked = list(keys)
        rows = self._session.run(self._reads.many, self._asked(asked), writes=False)
        return _amounts(under(asked, rows))

    def read_landed(
        self, keys: Iterable[Hashable], generations: Sequence[str]
    ) -> tuple[Mapping[Hashable, Amounts], frozenset[str]]:
        """Return what `read` does, and which of ``generations`` are landed, in one statement.

        So the increments of a generation are in the totals exactly if it is among those returned,
        even if it lands meanwhile.
        """
        if not generations:
            return self.read(keys), frozenset()
        dialect = self._session.dialect
        sql = dialect.landing.together.format(self._reads.many)
        asked = list(keys)
        params = (*self._asked(asked), dialect.keys(generations))
        rows = self._session.run(sql, params, writes=False)
        landed = frozenset(hex_of(row[3]) for row in rows if row[3] is not None)
        return _amounts(under(asked, [row[:3] for row in rows if row[3] is None])), landed

    def _asked(self, keys: Iterable[Hashable]) -> tuple[Any, ...]:
        among = self._session.dialect.keys(list(keys))
        scope = self._owner.scope()
        return (*scope, among) if scope else (among,) * self._reads.asked

    def label(self, key: Hashable) -> str:
        """The key itself, or the name of a record's column and the key."""
        return f"{self._label}:{key}" if self._label else str(key)

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing(own=own)

    def add_cells(self, deltas: Sequence[Delta]) -> None:
        """Add to the cells of changes, within the transaction that makes them."""
        self._cells.add(deltas)

    def commits_at_once(self) -> bool:
        """Whether a change is committed by its own statement."""
        return self._session.commits_at_once()

    def _changed(
        self, sql: str, params: Sequence[Any], columns: Sequence[str], delta: Delta
    ) -> ConditionResult | None:
        """Make a change together with the row of its condition; None if it is refused."""
        try:
            if delta.effects:
                rows = self._cells.run(sql, params, columns, (delta,))
            else:
                rows = self._session.run(sql, params)
        except Error as error:
            with self._overflow(self.label(delta.key)), self._conditions.explained():
                raise error from error.__cause__
        if not rows:
            return None
        value, present = rows[0][0], rows[0][-1]
        if isinstance(value, str):
            known, is_present = value.removeprefix("="), value.startswith("=")
            return ConditionResult(not is_present, int(known))
        if value is not None:
            return ConditionResult(True, int(value))
        return None if present is None else ConditionResult(False, int(present))

    def _reading(self, key: Hashable) -> tuple[Any, ...]:
        """The parameters that read one value."""
        return (*self._owner.address(key), *(key,) * self._reads.keyed)

    @contextmanager
    def _overflow(self, what: str) -> Iterator[None]:
        try:
            yield
        except Error as error:
            if not self._session.dialect.overflowed(error):
                raise
            low, high = self.capacity
            raise CounterOverflow(key=what, low=low, high=high) from error


def is_simple(delta: Delta, condition: Condition) -> bool:
    """Return whether one statement can make a change on a condition, if the database has one."""
    return condition.older_than is None and delta.by == (-1 if condition.takes_back else 1)


def _amounts(rows: Iterable[tuple[Any, ...]]) -> dict[Hashable, Amounts]:
    return {
        key: Amounts(None if total is None else int(total), int(pending or 0))
        for key, total, pending in rows
    }


def under(keys: Sequence[Hashable], rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """Rows under the keys that were asked for: some drivers give a UUID as a text."""
    uuids = {str(key): key for key in keys if isinstance(key, UUID)}
    return ((uuids.get(str(key), key), *rest) for key, *rest in rows) if uuids else rows


def hex_of(generation: UUID | str) -> str:
    """The 32 hexadecimal digits of a generation, as a database gave it."""
    return generation.hex if isinstance(generation, UUID) else generation.replace("-", "")


class SqlTotals(SqlReads):
    """Changes the totals of one table in place."""

    def __init__(self, table: Table, using: str) -> None:
        super().__init__(table, using)
        self._sql = self._session.dialect.totals(self._quoted)

    def add(self, delta: Delta) -> int | None:
        """Add to one total in one statement and return it.

        None, and nothing changed, if there is no row that admits it, or if increments of the
        counter still wait elsewhere. The statement waits for other writers of the row, then looks
        at the value that they left.
        """
        key, by, bounds, _, effects, *_ = delta
        if by == 1 and bounds == UNBOUNDED:
            sql, params = self._sql.unit, self._addressed((key,))
        else:
            limit = self._limit(by, bounds)
            if limit is None:
                return None
            sql = self._sql.rising if by > 0 else self._sql.falling
            params = self._addressed((by, limit, key))
        if effects:
            with self._overflow(self.label(key)):
                rows = self._cells.run(sql, params, ONE, (delta,))
        else:
            rows = self._session.run(sql, params)
        return rows[0][0] if rows else None

    def add_on(self, delta: Delta, condition: Condition) -> ConditionResult | None:
        """Add one, or take one away, with the row of a condition in one statement.

        None, and nothing changed, if there is no such statement, or if `add` returns None.
        """
        key, by, bounds, _, effects, *_ = delta
        low, high = self.capacity
        free = high - 1 if by > 0 else low + 1
        limit = free if bounds == UNBOUNDED else self._limit(by, bounds)
        # A statement that changes a column cannot be part of one that adds to cells, too.
        if limit is None or not is_simple(delta, condition) or (effects and not self.inserts):
            return None
        kind = condition.kind
        wanted = kind, by, not effects
        if wanted not in self._on:
            totals = self._session.dialect.conditions.totals
            sql = totals(kind, self._sql, self._quoted, self._reads.one, by, alone=not effects)
            self._on[wanted] = sql
        sql = self._on[wanted]
        if sql is None:
            return None
        params = (*self._conditions.row(condition), limit)
        if not self.inserts:
            *row, _ = params
            held = (key,) if by < 0 else ()
            params = (*row, *held, limit, key, *self._owner.kind(), *self._reading(key))
        elif not kind.whole:
            params = (*params, key, *self._reading(key))
        return self._changed(sql, params, CONDITION, delta)

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many totals in one statement, in the order of their keys; their new values.

        Pending amounts are part of the values.

        Raises:
            CounterOverflow: a sum does not fit; the statement changed nothing.
        """
        return self.add_sums({delta.key: delta.by for delta in deltas}, deltas)

    def add_sums(
        self, sums: Mapping[Hashable, int], deltas: Sequence[Delta] = ()
    ) -> Mapping[Hashable, int]:
        """Do what `add_many` does, with sums by key; ``deltas`` may have effects."""
        batch = self._session.dialect.sums(sums)
        with self._overflow(f"one of {len(sums)} counters"):
            rows = self._cells.run(self._sql.add_many, batch, MANY, deltas)
            return {key: int(value) for key, value in rows}

    def asks_guards(self, delta: Delta) -> bool:
        """Whether the statements of a change raise `NoRoom` where it has too little room."""
        return self._cells.asks_guards(delta)

    def meet(self, key: Hashable) -> Amounts | None:
        """Return what `read_one` does, for a transaction that is going to change it.

        Within a transaction SQLite gives up at once where a reader becomes a writer: it is one from
        the start. The statement that makes it one changes nothing.
        """
        if not (self._session.dialect.several_writers or self.commits_at_once()):
            self.add_to(self.capacity[1], Delta(key, 0))
        return self.read_one(key)

    def add_to(self, total: int, delta: Delta) -> bool:
        """Add to one total in one statement, if it is ``total``; without a row it is zero.

        False, and nothing changed, if it is another one by now, or as `add` says None.
        """
        params = self._addressed((delta.by, total, delta.key))
        return bool(self._session.run(self._sql.met, params))

    def settle(self, delta: Delta) -> int | None:
        """Add to one total the amount pending elsewhere, and hold it until the transaction ends.

        Returns the total alone; None if there is no row.
        """
        key, by = delta.key, delta.by
        limit = self.capacity[1] - max(by, 0)
        with self._overflow(self.label(key)):
            rows = self._cells.run(self._sql.settling, (by, limit, key), ONE, (delta,))
        return int(rows[0][0]) if rows else None

    def _addressed(self, params: tuple[object, ...]) -> tuple[object, ...]:
        if not self._sql.addressed:
            return params
        return (*params, *self._owner.kind())

    def _limit(self, by: int, bounds: Bounds) -> int | None:
        """The last value that may still change by ``by``; None if there is none in the column."""
        floor, ceiling = bounds.within(self.capacity)
        low, high = self.capacity
        limit = (ceiling if by > 0 else floor) - by  # type: ignore[operator]
        return limit if low <= limit <= high else None


class LockedTotals(NamedTuple):
    """What there is of totals that are held, and which of them were made for that."""

    found: Mapping[Hashable, Amounts]
    made: frozenset[Hashable]


class SqlCorrections(SqlReads):
    """Changes totals for a caller who has looked at the value first, in one transaction."""

    def __init__(self, table: Table, using: str) -> None:
        super().__init__(table, using)
        self._inside = bool(table.value)
        record = table.pending.record if table.value else None
        kind = RecordKeys(record[0]._meta.pk, using).type if record else "text"
        self._sql = self._session.dialect.fold(self._quoted, kind)

    @contextmanager
    def correcting(self, what: str = "the adjustment") -> Iterator[None]:
        """A transaction that reads what is committed by then, or a savepoint in the caller's.

        Raises:
            RetryTransaction: the caller's does not see what others have changed.
        """
        with self._session.serializable(what), self._session.read_committed():
            yield

    def hold(self, keys: Sequence[Any], whole: Sequence[Any] = ()) -> LockedTotals:
        """Let no other transaction change totals until the transaction ends, and say what there is
        now.

        Totals that are missing are made, unless they stand in rows of records. All are held in the
        order of their keys, so that no two transactions wait for each other. ``whole``: those with
        a floor. The amount that waits for them becomes part of their totals, as others take from
        their rows without a look at the total.
        """
        params = (*self._bare(), self._session.dialect.keys(keys))
        sql = self._sql.hold_one if len(keys) == 1 else self._sql.hold
        told = {key for key, *_ in under(keys, self._session.run(sql, params))}
        # The amount that waits for a record that is gone has no total to be part of.
        self._gather([key for key in whole if self.inserts or key in told])
        # A statement of its own: it sees what those have committed whom the first one waited for.
        found = self.read(keys)
        if self.inserts:
            return LockedTotals(found, frozenset(told))
        # A record that has just come is not held.
        return LockedTotals({key: found[key] for key in told if key in found}, frozenset())

    def _gather(self, keys: Sequence[Any]) -> None:
        """Let the rows of totals that are held be part of them, waiting for those who hold some."""
        if not keys:
            return
        native = {str(key): key for key in keys}
        params = (*self._owner.scope(), self._session.dialect.keys(list(native)))
        sums: dict[Any, int] = {}
        for key, value in self._session.run(self._sql.gather, params):
            sums[native[str(key)]] = sums.get(native[str(key)], 0) + int(value)
        if sums:
            self.correct(sums)

    def reading(self, key: Hashable) -> tuple[str, tuple[Any, ...]]:
        """Return the statement that reads total and pending of a counter, and its parameters."""
        return self._reads.one, self._reading(key)

    def take_back(self, key: Hashable, kind: Kind, parts: Sequence[CellPart]) -> None:
        """Take the numbers of a kind away, and delete the rows that come to nothing."""
        self._cells.take_back(str(key), kind, parts)

    def make(self, keys: Sequence[Any]) -> int:
        """Make totals that are missing; how many of them were."""
        params = (*self._bare(), self._session.dialect.keys(keys))
        return len(self._session.run(self._sql.ensure, params))

    def check(self, key: Any, by: int, total: int) -> None:
        """Refuse a change of a total that would not fit into its column.

        Raises:
            CounterOverflow: it would not.
        """
        low, high = self.capacity
        if not low <= total + by <= high:
            raise CounterOverflow(key=self.label(key), low=low, high=high)

    def correct(self, changes: Mapping[Any, int]) -> None:
        """Add to totals that are held, in one statement, while amounts may be pending elsewhere."""
        params = self._session.dialect.sums(changes)
        credited = self._session.run(self._sql.credit, (*self._bare(), *params))
        if len(credited) != len(changes):
            raise RuntimeError(f"{len(changes)} totals are held, {len(credited)} were changed")

    def _bare(self) -> tuple[Any, ...]:
        """The scope, for statements on totals that stand among the slots."""
        return () if self._inside else self._owner.scope()


# Columns of many records, which a project's queryset chooses.

# No number is between them.
_NONE = (1, 0)


class Column(NamedTuple):
    """The addition to one column of each row, and its bounds."""

    table: Table
    by: int
    bounds: Bounds

    @property
    def admitting(self) -> tuple[int, int]:
        """The least and the greatest value that may change by this."""
        floor, ceiling = self.bounds.within(self.table.capacity)
        if self.by > 0:
            last = ceiling - self.by  # type: ignore[operator]
            return (INT8[0], last) if last >= INT8[0] else _NONE
        first = floor - self.by  # type: ignore[operator]
        return (first, INT8[1]) if first <= INT8[1] else _NONE


def add_at_once(
    session: Session, query: tuple[str, Sequence[Any]], columns: Sequence[Column]
) -> list[tuple[Any, ...]] | None:
    """Add to columns of one table in one statement: to all rows of a query, or to none.

    Returns the keys with their new values. None, and nothing changed, where bounds refuse, where
    increments wait elsewhere, and where the database has no such statement.
    """
    if not session.dialect.changes_chosen:
        return None
    chosen, params = query
    tables = [column.table.quoted(session.quote) for column in columns]
    sql = session.dialect.chosen(chosen, tables)
    asked: list[Any] = list(params)
    for column in columns:
        asked += [*column.admitting, *Owner(column.table.pending, session).kind()]
    rows = session.run(sql, (*asked, *(column.by for column in columns)))
    return None if any(key is None for key, *_ in rows) else list(rows)


class SqlHeld(SqlReads):
    """Reads and changes one column of rows that the caller holds."""

    def add(self, key_field: Any, keys: Sequence[Hashable], by: int) -> None:
        """Add to totals. Asks no bounds: the caller has looked at them."""
        dialect = self._session.dialect
        fold = dialect.fold(self._quoted, RecordKeys(key_field, self._session.using).type)
        self._session.run(fold.credit, dialect.sums(dict.fromkeys(keys, by)))


# -- Increments that wait in rows of their own: shards of named counters, slots of records.
# With a floor, a decrement of one row doesn't depend on the others.


class SqlPending(SqlReads):
    """Adds to unlocked rows, at most ``cap`` of them for each counter."""

    def __init__(self, table: Table, using: str, cap: int) -> None:
        super().__init__(table, using)
        self._sql = self._session.dialect.spread(self._quoted, cap)
        self._named = table.pending.record is None

    def add(self, delta: Delta, number: int | None) -> int | None:
        """Add to one counter in one statement and return its value: total, pending, and this.

        Takes the row ``number``, waiting for it, or one that no transaction holds. None, and
        nothing changed, where the value would not fit, or the record is missing.
        """
        key, by = delta.key, delta.by
        params = self._sql.arrange(by, number, key, self._owner.address(key))
        with self._overflow(self.label(key)):
            if delta.effects:
                rows = self._cells.run(self._sql.add, params, NUMBERED, (delta,))
            else:
                rows = self._session.run(self._sql.add, params)
        if not rows or None in rows[0]:
            return None
        return int(rows[0][0])

    def add_on(
        self, delta: Delta, number: int | None, condition: Condition
    ) -> ConditionResult | None:
        """Add one, or take one away, with the row of a condition in one statement.

        None, and nothing changed, if there is no such statement, or if `add` returns None.
        """
        key, by = delta.key, delta.by
        if not is_simple(delta, condition):
            return None
        kind = condition.kind
        wanted = kind, by, not delta.effects
        if wanted not in self._on:
            spread = self._session.dialect.conditions.spread
            alone = not delta.effects
            sql = spread(kind, self._sql, self._quoted, self._reads.one, by, alone=alone)
            self._on[wanted] = sql
        sql = self._on[wanted]
        if sql is None:
            return None
        params: tuple[Any, ...] = self._conditions.row(condition)
        if self._named and kind.whole:
            params = (*params, number)
        else:
            held = () if self._named else (key,)
            change = self._sql.arrange(by, number, key, self._owner.address(key))
            params = (*params, *held, *change, *self._reading(key))
        return self._changed(sql, params, NUMBERED_CONDITION, delta)

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many counters, all or none, in the order of their keys; their new values.

        Raises:
            CounterOverflow: a value does not fit; nothing was changed.
        """
        if self._sql.at_once:
            with self._overflow(f"one of {len(deltas)} counters"):
                sums = self._session.dialect.sums({delta.key: delta.by for delta in deltas})
                rows = self._cells.run(self._sql.add_many, sums, MANY_NUMBERED, deltas)
            return {key: int(value) for key, value, _ in rows}
        with self.all_or_nothing():
            return {
                delta.key: self._fitting(delta) for delta in sorted(deltas, key=lambda d: str(d[0]))
            }

    def _fitting(self, delta: Delta) -> int:
        value = self.add(delta, None)
        if value is None:
            if not self.inserts and not self.read([delta.key]):
                raise RecordMissing(key=self.label(delta.key))
            low, high = self.capacity
            raise CounterOverflow(key=self.label(delta.key), low=low, high=high)
        return value


class SqlRights(SqlPending):
    """Adds to unlocked rows, and takes from one that has enough, of at most ``most``.

    Unlocked rows, and totals, are never below zero and the floor, except where another
    strategy has left them so: then all of them are held first.
    """

    def __init__(self, table: Table, using: str, cap: int, most: int) -> None:
        super().__init__(table, using, cap)
        self._most = most
        self._rights = self._session.dialect.rights(self._quoted, most)
        self._totals = SqlTotals(table, using)

    def take(self, delta: Delta, floor: int) -> int | None:
        """Take from one row in one statement and return the value: total, pending, and this.

        None, and nothing changed, where no row has enough, or the record is missing.

        Raises:
            RetryTransaction: the caller's transaction does not see what others have taken.
        """
        key, by = delta.key, delta.by
        if max(floor, 0) - by > INT8[1]:
            # More than any row has, and than a parameter can say.
            return None
        params = self._rights.arrange(by, floor, key, self._owner.address(key))
        with self._serializable(), self._overflow(self.label(key)):
            rows = self._cells.run(self._rights.take, params, NUMBERED, (delta,))
        return None if not rows or None in rows[0] else int(rows[0][0])

    def share(self, delta: Delta, floor: int, refuse: Callable[[int], CounterError]) -> int:
        """Take from all that there is, and share the rest among rows; the new value.

        No other transaction takes anything meanwhile: it holds the total, then all rows.

        Raises:
            what ``refuse`` makes of the value that was met: it is not enough. Nothing was changed.
            RecordMissing: the record was deleted meanwhile.
            RetryTransaction: as above; or others who share it wait for this one.
        """
        key, by = delta.key, delta.by
        with self._serializable(), self._session.read_committed():
            total = self._totals.settle(Delta(key, 0))
            if total is None:
                raise RecordMissing(key=self.label(key))
            value = total + self._tail(key)
            # Where another strategy was, rows may be below zero.
            gathered = sum(self._gathered(key, -1))
            while value + gathered + by < floor:
                rows = self._gathered(key, INT8[1])
                if not rows:
                    # No row was left when this was looked at, and all that were are ours.
                    raise refuse(value + gathered)
                gathered += sum(rows)
            shared = self._shared(key, value + gathered + by - floor, -by)
            left = Delta(key, gathered + by - shared, effects=delta.effects)
            if self._totals.settle(left) is None:
                raise CounterOverflow(
                    key=self.label(key), low=self.capacity[0], high=self.capacity[1]
                )
            # Rows that were not needed are part of the value, too.
            amounts = self.read_one(key)
        # The total is held, so there is one.
        assert amounts is not None
        return amounts.value

    def _serializable(self) -> AbstractContextManager[None]:
        return self._session.serializable("the decrement")

    def _tail(self, key: Hashable) -> int:
        """The amount that waits in the ledger. It stays, as a transaction that lands it has to hold
        the total."""
        if not self._rights.tail:
            return 0
        ((waits,),) = self._session.run(self._rights.tail, (key,), writes=False)
        return int(waits or 0)

    def _gathered(self, key: Hashable, most: int) -> list[int]:
        """What rows had that have no more than this, and now are gone."""
        rows = self._session.run(self._rights.gather, (*self._owner.address(key), most))
        return [int(value) for (value,) in rows]

    def _shared(self, key: Hashable, spare: int, needed: int) -> int:
        """Make rows that have as much as was needed just now, or more; their sum."""
        many = min(self._most, spare // needed)
        if many == 0:
            return 0
        numbers = self._session.dialect.keys(range(many))
        params = (*self._owner.address(key), spare // many, numbers)
        return spare // many * len(self._session.run(self._rights.share, params))
