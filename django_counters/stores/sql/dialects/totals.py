"""Statements about totals, and about rows that counters are spread over."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.spelling import TOTAL, Spelling, Table

# -- The statements of increments that wait in rows of their own, also with a floor.


class SpreadStatements:
    """Adds to rows of the pending amount, of which each counter has one here.

    Attributes:
        at_once: whether ``add_many`` does it.
    """

    at_once = False

    def __init__(self, spelling: Spelling, table: Table, cap: int) -> None:
        self._in = spelling
        self._table = table
        self.cap = cap

    @cached_property
    def add(self) -> str:
        """Add. Parameters: what ``arrange`` makes.

        Rows: the new value and the number of the row that was taken, if it matters; a NULL or no
        row where nothing was changed.
        """
        pending, source = self._table.pending, self._source()
        columns = ", ".join((*pending.owner, pending.number))
        others = f"SELECT COALESCE(SUM({pending.value}), 0) FROM {pending.name} "
        others += f"WHERE {pending.owned}"
        marks = ", ".join("%s" for _ in pending.owner)
        fits = self._in.fits(f"p.{pending.value}", f"EXCLUDED.{pending.value}")
        # The row itself is what RETURNING sees; the other rows are as they were.
        return (
            f"INSERT INTO {pending.name} AS p ({columns}, {pending.value}) "
            f"SELECT {marks}, COALESCE(%s, 0), %s FROM ({source}) t "
            f"WHERE t.total + ({others}) BETWEEN %s AND %s ON CONFLICT ({columns}) DO UPDATE "
            f"SET {pending.value} = p.{pending.value} + EXCLUDED.{pending.value} "
            f"WHERE {fits} RETURNING {pending.value} "
            f"+ ({others} AND {pending.number} <> COALESCE(%s, 0)) + COALESCE(({source}), 0)"
        )

    @property
    def add_many(self) -> str:
        """As ``add``, of many. Parameters: `sums`. Rows: keys, values, numbers."""
        raise NotImplementedError

    def _source(self) -> str:
        """The total. Parameters: the key, where there is a column for it."""
        table = self._table
        if not table.value:
            return "SELECT 0 AS total"
        if table.inserts and "ledger" not in self._in.lacks:
            return (
                f"SELECT COALESCE(t.{table.value}, 0) + COALESCE(({self._in.tail_of('g.k')}), 0) "
                f"AS total FROM (SELECT %s AS k) g LEFT JOIN {table.name} t ON t.{table.key} = g.k"
            )
        total = f"SELECT {table.value} AS total FROM {table.name} WHERE {table.key} = %s"
        return f"SELECT COALESCE(({total}), 0) AS total" if table.inserts else total

    def arrange(
        self,
        by: int,
        wanted: int | None,
        key: Hashable,
        address: tuple[Any, ...],
        floor: int | None = None,
    ) -> tuple[Any, ...]:
        """The parameters of ``add``; ``wanted``: the number of a row, or None for any.

        ``floor``: the lowest value allowed, where there is one writer.
        """
        low, high = self._table.capacity
        limits = ((low if floor is None else max(low, floor)) - min(by, 0), high - max(by, 0))
        found = (key,) if self._table.value else ()
        return (*address, wanted, by, *found, *address, *limits, *address, wanted, *found)


# With a floor.


class Rights:
    """Takes from one row that has enough, and shares among rows what one has too much of.

    No row is below zero, and no total below the floor: so a transaction that takes from one row
    need not know the others. Where a database has one writer, the sum is looked at instead.
    """

    def __init__(self, spelling: Spelling, table: Table, spread: SpreadStatements) -> None:
        self._in = spelling
        self._table = table
        self._spread = spread

    @property
    def take(self) -> str:
        """Take away, where a row has enough. Parameters: what `arrange` makes.

        Rows: the new value, and the number of the row; a NULL, or no row, where nothing was taken.
        """
        return self._spread.add

    def arrange(
        self, by: int, floor: int, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The parameters of ``take``; ``by`` is below zero."""
        return self._spread.arrange(by, None, key, address, floor)

    @cached_property
    def gather(self) -> str:
        """Take rows of one counter away, waiting for those that a transaction holds.

        Parameters: address, their largest number. Rows: what each had.
        """
        pending = self._table.pending
        return (
            f"DELETE FROM {pending.name} WHERE {pending.owned} AND {pending.number} >= 0 "
            f"AND {pending.value} <= %s RETURNING {pending.value}"
        )

    @cached_property
    def share(self) -> str:
        """Make rows of one counter with the same value, but those that are there already.

        Parameters: address, value, `keys` of numbers. A row for each.
        """
        pending = self._table.pending
        columns = ", ".join((*pending.owner, pending.number, pending.value))
        marks = ", ".join("%s" for _ in pending.owner)
        given = self._in.typed("%s", "bigint")
        # The numbers come last, as the parameters of FROM do.
        return (
            f"INSERT INTO {pending.name} ({columns}) SELECT {marks}, u.k, {given} "
            f"FROM {self._in.each('int')} WHERE true ON CONFLICT DO NOTHING RETURNING 1"
        )

    @cached_property
    def tail(self) -> str:
        """The amount that waits in the ledger for a counter that was there once. Parameters: its
        key."""
        asks = self._table.inserts and "ledger" not in self._in.lacks
        return self._in.tail_of("%s") if asks else ""


# -- The statements that change totals in place, read them, and fold pending rows into them.


class Totals:
    """Changes totals whose rows others insert.

    A change comes in two forms, because only the bound that it moves towards is asked: ``rising``
    ends in "no more than", ``falling`` in "no less than", and ``met``, which raises to a number, in
    "no other than". These change nothing while increments of the counter wait elsewhere;
    ``settling`` does not ask. ``unit`` is the most common change, by one and without bounds: its
    numbers stand in the text, which spares the driver two parameters.

    Attributes:
        addressed: whether the content type of the records is a parameter, too, but of ``settling``.
    """

    addressed = True

    def __init__(self, spelling: Spelling, table: Table) -> None:
        self._in = spelling
        self._table = table

    @cached_property
    def unit(self) -> str:
        """Parameters: key."""
        return self._change("<=", "1", str(self._table.capacity[1] - 1))

    @cached_property
    def rising(self) -> str:
        """Parameters, as of the next three: by, limit, key."""
        return self._change("<=")

    @cached_property
    def falling(self) -> str:
        """Take away."""
        return self._change(">=")

    @cached_property
    def met(self) -> str:
        """Add to a total that is the limit itself, and to no other one."""
        return self._change("=")

    @cached_property
    def settling(self) -> str:
        """Add the amount pending elsewhere."""
        return self._change("<=", asks=False)

    @property
    def add_many(self) -> str:
        """Add to many named counters, with or without pending amounts; an error for a value that
        does not fit.

        Parameters: `sums`. Rows: keys, values.
        """
        raise NotImplementedError

    def by_one(self, by: int, condition: str) -> str:
        """Add one, or take one away, under one more condition. Parameters: limit, key."""
        return self._change("<=" if by > 0 else ">=", str(by), also=f" AND {condition}")

    def _change(
        self, comparison: str, by: str = "%s", limit: str = "%s", asks: bool = True, also: str = ""
    ) -> str:
        return self._changing(comparison, by, limit, asks, also)

    def _changing(self, comparison: str, by: str, limit: str, asks: bool, also: str) -> str:
        """Add, where the row exists and allows it. Parameters: by, limit, key."""
        table = self._table
        touched = f", {table.touched} = {self._in.now}" if table.touched else ""
        waits = f" AND NOT {self._in.waits_for(table)}" if asks else ""
        return (
            f"UPDATE {table.name} SET {table.value} = {table.value} + {by}{touched} "
            f"WHERE {table.value} {comparison} {limit} AND {table.key} = %s{waits}{also} "
            f"RETURNING {table.value}"
        )


class NamedTotals(Totals):
    """Changes totals, and makes those that are missing."""

    addressed = False

    def _changing(self, comparison: str, by: str, limit: str, asks: bool, also: str) -> str:  # noqa: ARG002 - what needs it is a function
        """Insert or add, where the present value allows it. Parameters: by, limit, key."""
        table, typed = self._table, self._in.typed
        outside = self._in.from_outside("s.k", "s.by")
        asked = f" WHERE {self._asking(comparison)}" if asks else ""
        return (
            "WITH given (by, bound, k) AS "
            f"(VALUES ({typed(by, 'bigint')}, {typed(limit, 'bigint')}, {typed('%s', 'text')})) "
            f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}, "
            f"{table.outside}) SELECT s.k, s.by, {self._in.now}, {outside} "
            f"FROM (SELECT k, by FROM given{asked}) s WHERE true "
            f"ON CONFLICT ({table.key}) DO UPDATE "
            f"SET {table.value} = {self._in.added(f't.{table.value}', f'EXCLUDED.{table.value}')}, "
            f"{table.outside} = t.{table.outside} + EXCLUDED.{table.value}, "
            f"{table.touched} = EXCLUDED.{table.touched} "
            f"WHERE t.{table.value} {comparison} (SELECT bound FROM given) RETURNING {table.value}"
        )

    def _asking(self, comparison: str) -> str:
        """A row is inserted only with a value that its bounds admit, and only if nothing waits."""
        table, (key,) = self._table, self._table.pending.owner
        return (
            f"(0 {comparison} bound OR "
            f"EXISTS (SELECT 1 FROM {table.name} WHERE {table.key} = given.k)) AND "
            f"NOT EXISTS (SELECT 1 FROM {table.pending.name} WHERE {key} = given.k) "
            f"AND COALESCE(({self._in.tail_of('given.k')}), 0) = 0"
        )


class Reads:
    """Reads total and pending of one moment: one statement reads both.

    Rows are: key (of ``many``), total or NULL, pending or NULL.

    Attributes:
        keyed: how often the key is a parameter of ``one``.
        asked: how often the keys of named counters are one of ``many``.
    """

    def __init__(self, spelling: Spelling, table: Table) -> None:
        self._in = spelling
        self._table = table
        # With any settings, and if the ledger was never used: a process with other settings, as
        # during a deploy, may append the first entry of a counter at any moment.
        self._has_tail = bool(table.outside) and "ledger" not in spelling.lacks
        self.keyed = (2 if self._has_tail else 1) if table.value else 0
        self.asked = 3 if self._has_tail else 2

    @cached_property
    def one(self) -> str:
        """One counter. Parameters: the address of the pending amount, and the key."""
        table, pending = self._table, self._table.pending
        if not table.value:
            return f"SELECT {self._both()} FROM {pending.name} WHERE {pending.owned}"
        waits = f"SELECT SUM({pending.value}) AS waits FROM {pending.name} WHERE {pending.owned}"
        if self._has_tail:
            tail = self._in.tail_of("%s")
            waits = f"SELECT SUM(waits) AS waits FROM ({waits} UNION ALL {tail}) w"
        return (
            f"SELECT t.{table.value}, p.waits FROM ({waits}) p "
            f"LEFT JOIN {table.name} t ON t.{table.key} = %s"
        )

    @cached_property
    def many(self) -> str:
        """Many counters. Parameters: the scope, keys; of named counters keys, `asked` times."""
        table, pending, among = self._table, self._table.pending, self._in.among()
        if not table.value:
            kind, record, name = pending.owner
            return (
                f"SELECT {record}, {self._both()} FROM {pending.name} WHERE {kind} = %s "
                f"AND {name} = %s AND {record} {among} GROUP BY {record}"
            )
        if pending.record:
            kind, record, name = pending.owner
            return (
                f"SELECT t.{table.key}, t.{table.value}, (SELECT SUM({pending.value}) "
                f"FROM {pending.name} WHERE {kind} = %s AND {name} = %s "
                f"AND {record} = {self._in.as_text(f't.{table.key}')}) "
                f"FROM {table.name} t WHERE t.{table.key} {among}"
            )
        (key,) = pending.owner
        tails = f" UNION ALL {self._in.tails()}" if self._has_tail else ""
        return (
            f"SELECT {key}, SUM(total), SUM(waits) FROM ("
            f"SELECT {table.key} AS {key}, {table.value} AS total, NULL AS waits "
            f"FROM {table.name} WHERE {table.key} {among} UNION ALL "
            f"SELECT {key}, NULL, {pending.value} FROM {pending.name} WHERE {key} {among}"
            f"{tails}) u GROUP BY {key}"
        )

    def _both(self) -> str:
        number, value = self._table.pending.number, self._table.pending.value
        return (
            f"SUM(CASE WHEN {number} = {TOTAL} THEN {value} END), "
            f"SUM(CASE WHEN {number} <> {TOTAL} THEN {value} END)"
        )


# Rollups.


class Fold:
    """The statements of a rollup.

    All of them leave alone what a transaction holds, so that a rollup never waits for another
    transaction, but for ``hold`` and ``ensure``.

    Attributes:
        type: the type of the keys of the totals.
    """

    def __init__(self, spelling: Spelling, table: Table, key_type: str) -> None:
        self._in = spelling
        self._table = table
        self._type = key_type
        #: The column of the pending amount that names a counter within its scope.
        self._key = table.pending.owner[1 if table.pending.record else 0]

    @cached_property
    def left(self) -> str:
        """How many rows wait, for how many counters. Parameters: scope."""
        return (
            f"SELECT COUNT(*), COUNT(DISTINCT {self._key}) FROM {self._table.pending.name} "
            f"WHERE {self._scoped()}"
        )

    @cached_property
    def namespaces(self) -> str:
        """How many rows wait in each namespace, for how many counters."""
        return (
            f"SELECT {self._in.namespace(self._key)} AS namespace, COUNT(*), "
            f"COUNT(DISTINCT {self._key}) FROM {self._table.pending.name} GROUP BY 1 ORDER BY 1"
        )

    @cached_property
    def waiting(self) -> str:
        """A page of keys with something pending, in their order.

        Parameters: the scope, the last key of the page before, the size of a page.
        """
        key = self._key
        return (
            f"SELECT {key} FROM {self._table.pending.name} WHERE {self._scoped()} AND {key} > %s "
            f"GROUP BY {key} ORDER BY {key} LIMIT %s"
        )

    @cached_property
    def ensure(self) -> str:
        """Make the totals that are missing. Rows: their keys.

        Parameters, of this and the next two: the scope where there is no column for totals, keys.
        """
        return self._made("DO NOTHING")

    #: The same for one who waits as little as can be said.
    ensure_at_once = cached_property(lambda fold: fold.ensure)

    @cached_property
    def hold(self) -> str:
        """Hold totals in the order of their keys, and make those that are missing. Rows: as above.

        Of records none is made; rows: keys of those that it holds, and their totals. In one pass:
        a transaction that made some first, and held others then, could wait in a circle. An update
        that never takes place holds the row, and writes nothing.
        """
        table = self._table
        if not table.inserts:
            return self._in.hold(table, self._type)
        value = table.value or table.pending.value
        columns = (table.key,) if table.value else (*table.pending.owner, table.pending.number)
        never = f"DO UPDATE SET {value} = t.{value} WHERE false"
        return self._made(f"({', '.join(columns)}) {never}")

    #: The same for one total. Several have to be inserted before the first is locked.
    hold_one = cached_property(lambda fold: fold.hold)

    def _made(self, present: str) -> str:
        table, pending = self._table, self._table.pending
        if table.value:
            into = f"{table.name} AS t ({table.key}, {table.value}, {table.touched}"
            what, key = f"k, 0, {self._in.now}", table.key
            if table.outside:
                into, what = (
                    f"{into}, {table.outside}",
                    f"{what}, {self._in.from_outside('u.k', '0')}",
                )
            into += ")"
        else:
            kind, key, name = pending.owner
            into = f"{pending.name} AS t ({kind}, {name}, {key}, {pending.number}, {pending.value})"
            what = f"%s, %s, k, {TOTAL}, 0"
        return (
            f"INSERT INTO {into} SELECT {what} FROM {self._in.each('text')} WHERE true "
            f"{self._in.ordered('k')} ON CONFLICT {present} RETURNING {key}"
        )

    @cached_property
    def lock(self) -> str:
        """Lock unlocked totals, and return them."""
        table, pending = self._table, self._table.pending
        if table.value:
            return self._in.hold(table, self._type, skip=True)
        kind, record, name = pending.owner
        return (
            f"SELECT {record}, {pending.value} FROM {pending.name} WHERE {kind} = %s "
            f"AND {name} = %s AND {record} {self._in.among('text')} "
            f"AND {pending.number} = {TOTAL} ORDER BY {record}{self._in.held}{self._in.skipping}"
        )

    @cached_property
    def take(self) -> str:
        """Delete unlocked rows. Rows: keys, sums and how many there were.

        Parameters: the scope, keys, the remainder of the numbers by two.
        """
        return self._taken(f"{self._key}, {self._table.pending.value}, 1")

    @cached_property
    def gather(self) -> str:
        """Delete all rows, waiting for the transactions that hold them. Rows: keys and sums.

        Parameters: the scope, keys.
        """
        pending = self._table.pending
        return (
            f"DELETE FROM {pending.name} WHERE {self._scoped()} AND {pending.number} >= 0 "
            f"AND {self._key} {self._in.among('text')} RETURNING {self._key}, {pending.value}"
        )

    def _taken(self, returning: str) -> str:
        half = f"{self._key} {self._in.among('text')} AND ABS({self._table.pending.number}) %% 2"
        which = f"WHERE {self._scoped()} AND {half} = %s"
        return self._in.delete_some(self._table.pending.name, which, returning)

    @cached_property
    def credit(self) -> str:
        """Add sums to totals. A row for each.

        Parameters: the scope where there is no column for totals, and what ``sums`` makes.
        """
        table, pending, rows = self._table, self._table.pending, self._in.rows
        if table.value:
            touched = f", {table.touched} = {self._in.now}" if table.touched else ""
            if table.outside:
                touched += f", {table.outside} = t.{table.outside} + u.d"
            return (
                f"UPDATE {table.name} AS t SET {table.value} = t.{table.value} + u.d{touched} "
                f"FROM {rows(k=self._type, d='bigint')} WHERE t.{table.key} = u.k RETURNING 1"
            )
        kind, record, name = pending.owner
        return (
            f"UPDATE {pending.name} AS t SET {pending.value} = t.{pending.value} + u.d "
            f"FROM (SELECT %s AS kind, %s AS name) AS o, {rows(k='text', d='bigint')} "
            f"WHERE t.{kind} = o.kind AND t.{name} = o.name AND t.{record} = u.k "
            f"AND t.{pending.number} = {TOTAL} RETURNING 1"
        )

    @cached_property
    def orphans(self) -> str:
        """Delete what waits for records that are no more. A row for each.

        Parameters: the scope, keys as text, keys as their column holds them.
        """
        table, pending, among = self._table, self._table.pending, self._in.among
        record = (
            f"SELECT 1 FROM {table.name} t WHERE t.{table.key} {among(self._type)} "
            f"AND {self._in.as_text(f't.{table.key}')} = {pending.name}.{self._key}"
        )
        which = f"{self._scoped()} AND {self._key} {among('text')} AND NOT EXISTS ({record})"
        return self._in.delete_some(pending.name, f"WHERE {which}")

    def _scoped(self) -> str:
        """The condition that a row of the pending amount is of these counters. Parameters:
        scope."""
        pending = self._table.pending
        if pending.record is None:
            return "true"
        kind, _, name = pending.owner
        # A total that stood among the slots waits, too, as soon as there is a column for it.
        waits = "" if self._table.value else f" AND {pending.number} >= 0"
        return f"{kind} = %s AND {name} = %s{waits}"
