"""The statements that change totals in place, and those that read them."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import TOTAL, Table


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
        self,
        comparison: str,
        by: str = "%s",
        limit: str = "%s",
        *,
        asks: bool = True,
        also: str = "",
    ) -> str:
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

    def _change(
        self,
        comparison: str,
        by: str = "%s",
        limit: str = "%s",
        *,
        asks: bool = True,
        also: str = "",  # noqa: ARG002 - what needs it is a function
    ) -> str:
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
        if not self._table.value:
            return self._many_in_slots()
        return self._many_of_records() if self._table.pending.record else self._many_named()

    def _both(self) -> str:
        number, value = self._table.pending.number, self._table.pending.value
        return (
            f"SUM(CASE WHEN {number} = {TOTAL} THEN {value} END), "
            f"SUM(CASE WHEN {number} <> {TOTAL} THEN {value} END)"
        )

    def _many_in_slots(self) -> str:
        kind, record, name = self._table.pending.owner
        return (
            f"SELECT {record}, {self._both()} FROM {self._table.pending.name} WHERE {kind} = %s "
            f"AND {name} = %s AND {record} {self._in.among()} GROUP BY {record}"
        )

    def _many_of_records(self) -> str:
        table, pending = self._table, self._table.pending
        kind, record, name = pending.owner
        return (
            f"SELECT t.{table.key}, t.{table.value}, (SELECT SUM({pending.value}) "
            f"FROM {pending.name} WHERE {kind} = %s AND {name} = %s "
            f"AND {record} = {self._in.as_text(f't.{table.key}')}) "
            f"FROM {table.name} t WHERE t.{table.key} {self._in.among()}"
        )

    def _many_named(self) -> str:
        table, pending, among = self._table, self._table.pending, self._in.among()
        (key,) = pending.owner
        tails = f" UNION ALL {self._in.tails()}" if self._has_tail else ""
        return (
            f"SELECT {key}, SUM(total), SUM(waits) FROM ("
            f"SELECT {table.key} AS {key}, {table.value} AS total, NULL AS waits "
            f"FROM {table.name} WHERE {table.key} {among} UNION ALL "
            f"SELECT {key}, NULL, {pending.value} FROM {pending.name} WHERE {key} {among}"
            f"{tails}) u GROUP BY {key}"
        )
