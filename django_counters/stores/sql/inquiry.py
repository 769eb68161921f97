"""What can be asked of the ledger, each in one statement and so of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django_counters.stores.sql.deltas import aware
from django_counters.stores.sql.totals import SqlReads


class Parts(NamedTuple):
    """The parts of a value."""

    total: int
    shards: int
    tail: int
    outside: int | None
    archived: int


class Row(NamedTuple):
    """One entry."""

    token: UUID
    created_at: datetime
    delta: int
    kind: int
    pending: bool


class Drift(NamedTuple):
    """A counter whose total differs from its entries: the sum it should have of them, the sum it
    has."""

    key: str
    expected: int
    found: int


class SqlInquiry(SqlReads):
    """Asks the ledger of named counters. Changes nothing."""

    def history(self, key: str, starts: Sequence[datetime]) -> dict[int, tuple[int, int]]:
        """Sum and number of the entries in each period, by the number of it, from one on."""
        moments = [self._session.dialect.moment(moment) for moment in starts]
        params = (self._session.dialect.keys(moments), key, moments[0], moments[-1])
        rows = self._session.run(self._sql.history, params, writes=False)
        return {number: (int(change), entries) for number, change, entries in rows}

    def value_and_later(self, key: str, moment: datetime) -> tuple[int, int]:
        """The value now, and the sum of the entries that are later than a moment."""
        address = (*self._owner.address(key), *(key,) * self._reads.keyed)
        params = (key, self._session.dialect.moment(moment), *address)
        ((later, total, pending),) = self._session.run(
            self._sql.after.format(self._reads.one), params, writes=False
        )
        return int(total or 0) + int(pending or 0), int(later or 0)

    def parts(self, key: str, last: int) -> tuple[Parts, list[Row]]:
        """The parts of a value, and the last entries, the latest first."""
        rows = self._session.run(self._sql.parts, {"key": key, "limit": last}, writes=False)
        total, shards, tail, outside, archived = rows[0][:5]
        came_otherwise = None if outside is None else int(outside)
        return (
            Parts(
                int(total or 0),
                int(shards or 0),
                int(tail or 0),
                came_otherwise,
                int(archived or 0),
            ),
            [self._row(row[5:]) for row in rows if row[5] is not None],
        )

    def kept(self, key: str) -> tuple[datetime | None, bool]:
        """From when on all entries are there, None for always; whether a counter ever had one."""
        ((moment, has_any),) = self._session.run(self._sql.kept, (key,), writes=False)
        return aware(moment, local=True) if moment else None, bool(has_any)

    def waiting(self) -> tuple[int, int]:
        """How many entries wait, of how many counters."""
        ((entries, counters),) = self._session.run(self._sql.tail, (), writes=False)
        return entries, counters

    def drift(self, prefix: str, keys: Iterable[str] | None) -> list[Drift]:
        """The counters whose total differs from their entries."""
        dialect = self._session.dialect
        among = dialect.every if keys is None else dialect.keys(list(keys))
        rows = self._session.run(self._sql.drift, {"keys": among, "prefix": prefix}, writes=False)
        return [Drift(key, int(expected), int(found)) for key, expected, found in rows]

    def sample(self, prefix: str, limit: int) -> list[str]:
        """Some counters of the ledger."""
        params = {"prefix": prefix, "limit": limit}
        return [key for (key,) in self._session.run(self._sql.sample, params, writes=False)]

    @property
    def _sql(self) -> Any:
        return self._session.dialect.ledger.inquiry

    def _row(self, row: Sequence[Any]) -> Row:
        token, created_at, delta, kind, pending = row
        moment = aware(created_at, local=self._session.dialect.knows_time_zones)
        return Row(UUID(str(token)), moment, delta, kind, bool(pending))
