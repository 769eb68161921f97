"""The statements that add to cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import CELLS

COLUMNS = ("measure_id", "key", "period", "start", "tags", "shard", "value")
_KEY = ", ".join(COLUMNS[:-1])


class Cells:
    """Adds to cells.

    Attributes:
        join: whether one statement can make a change and add to its cells.
    """

    join = False

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        self.given = spelling.rows(
            **{"m": "int", "k": "text", "p": "smallint", "s": "timestamptz"},
            **{"t": "text", "n": "smallint", "d": "bigint"},
        )

    @cached_property
    def add(self) -> str:
        """Add to cells. Parameters: the cells."""
        added = self._in.added("t.value", "EXCLUDED.value")
        return upsert(f"SELECT m, k, p, s, t, n, d FROM {self.given} WHERE true", added)

    @property
    def apart(self) -> str:
        """Add to cells of a shard that no other transaction uses. Parameters: the cells."""
        return self.add

    @cached_property
    def forget(self) -> str:
        """Delete some. Parameters: measure, period, before which moment, how many."""
        return self._in.delete_some(
            CELLS, "WHERE measure_id = %s AND period = %s AND start < %s LIMIT %s"
        )

    def arrange(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """The parameters of cells, from rows of `COLUMNS`."""
        return self._in.columns(rows)

    def alike(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:  # noqa: ARG002
        """The parameters of cells of one counter that differ by their periods alone, or None."""
        return None

    def beside(self, change: str, columns: Sequence[str]) -> str:
        """One statement of a change and its cells, which are added where the change has counted.

        Given the text of the change, and the names of its columns: ``k`` is a key, where there are
        several; ``v`` the new value, NULL where nothing was counted; ``n`` the row that was taken,
        which is the shard of its cells. Parameters: those of the change, then the cells. Rows:
        those of the change.
        """
        raise NotImplementedError

    def after(self, change: str, columns: Sequence[str]) -> str:
        """The same for a change of one counter whose cells are `alike`; so are its parameters."""
        raise NotImplementedError


def upsert(source: str, added: str = "t.value + EXCLUDED.value") -> str:
    """Add rows of a SELECT to cells."""
    return (
        f"INSERT INTO {CELLS} AS t ({', '.join(COLUMNS)}) {source} "
        f"ON CONFLICT ({_KEY}) DO UPDATE SET value = {added}"
    )
