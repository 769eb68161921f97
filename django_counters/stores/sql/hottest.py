"""Counters that change at present, as far as their database can tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django_counters.stores.sql.session import Session

# Milliseconds after which a statement is given up: looking must not block writers.
PATIENCE = 1_000


class Slotted(NamedTuple):
    """The amount that waits in the slots of one counter; ``kind`` is the content type of its
    record."""

    kind: int
    name: str
    record: str
    waits: int


class SqlHottest:
    """Finds counters. Changes nothing, never waits for another transaction, and gives up what takes
    too long.

    All its methods raise the error of the database where a statement took more than `PATIENCE`.
    SQLite never gives up. ``most``: how many are returned.
    """

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.hottest

    def changed(self, seconds: float, most: int) -> list[str]:
        """Named counters whose total was changed lately, by the clock of the database.

        Reads the whole table of totals.
        """
        return [key for (key,) in self._asked(self._sql.changed, (seconds, most))]

    def sharded(self, most: int) -> dict[str, int]:
        """The amount that waits in shards, the most first."""
        return {key: int(waits) for key, waits in self._asked(self._sql.sharded, (most,))}

    def slotted(self, most: int) -> list[Slotted]:
        """The amount that waits in slots, the most first."""
        rows = self._asked(self._sql.slotted, (most,))
        return [Slotted(kind, name, record, int(waits)) for kind, name, record, waits in rows]

    def entered(self, since: datetime, token: UUID, entries: int, most: int) -> dict[str, int]:
        """Sums of entries of the ledger: of the latest ``entries`` from a token on.

        ``since``: no entry is older.
        """
        dialect = self._session.dialect
        params = (dialect.moment(since), dialect.token(token), entries, most)
        return {key: int(by) for key, by in self._asked(self._sql.entered, params)}

    def _asked(self, sql: str, params: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        # A setting of a transaction needs one, and so does going on after an error.
        with (
            self._session.all_or_nothing(),
            self._session.hurried(str(PATIENCE), "statement_timeout"),
        ):
            return self._session.run(sql, params, writes=False)
