"""The statements of increments that wait in rows of their own, also with a floor."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import Table


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
