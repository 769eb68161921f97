"""The statements of a rollup of the pending amount."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import TOTAL, Table


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

    @property
    def ensure_at_once(self) -> str:
        """The same for one who waits as little as can be said."""
        return self.ensure

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
