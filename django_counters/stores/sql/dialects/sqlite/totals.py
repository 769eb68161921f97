"""Totals in SQLite."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.totals import NamedTotals


class SqliteTotals(NamedTotals):
    """Changes totals, and makes those that are missing."""

    @cached_property
    def add_many(self) -> str:
        """Insert or add many.

        SQLite turns an integer that overflows into a float without a word. The sum is therefore
        NULL where it would leave the range, and the column refuses NULL, which takes the statement
        back.
        """
        table, value = self._table, self._table.value
        present, by = f"t.{value}", f"EXCLUDED.{value}"
        outside = self._in.from_outside("u.k", "u.d")
        # The name of the table is known in RETURNING, its alias in the rest.
        whole = f"{present} + {by} + {self._waiting(f't.{table.key}')}"
        fits = f"{self._in.fits(present, by)} AND TYPEOF({whole}) = 'integer'"
        return (
            f"INSERT INTO {table.name} AS t ({table.key}, {value}, {table.touched}, "
            f"{table.outside}) SELECT u.k, u.d, {self._in.now}, {outside} "
            f"FROM {self._in.rows(k='text', d='bigint')} "
            f"WHERE true ON CONFLICT ({table.key}) DO UPDATE SET "
            f"{value} = CASE WHEN {fits} THEN {present} + {by} END, "
            f"{table.outside} = t.{table.outside} + {by}, "
            f"{table.touched} = EXCLUDED.{table.touched} RETURNING {table.key}, "
            f"{value} + {self._waiting(f'{table.name}.{table.key}')}"
        )

    def _waiting(self, key: str) -> str:
        """The amount that waits for a counter, in shards and in the ledger."""
        pending, (owner,) = self._table.pending, self._table.pending.owner
        shards = f"SELECT SUM(w.{pending.value}) FROM {pending.name} w WHERE w.{owner} = {key}"
        return f"COALESCE(({shards}), 0) + COALESCE(({self._in.tail_of(key)}), 0)"
