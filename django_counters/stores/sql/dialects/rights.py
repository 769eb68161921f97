"""The statements of counters that wait in rows of their own, and have a floor."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.spread import SpreadStatements
from django_counters.stores.sql.dialects.tables import Table


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
