"""What can be asked of the ledger, each in one statement and so of one moment.

A first statement selects the sealed partitions that the answer doesn't have to lock, because their
sums are in the archive. The answer is still of one moment. Sealed partitions don't change. If a
partition is sealed after the first statement, its entries are read. If one is dropped after it, the
archive has all its sums, or the read is of the past and is refused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django_counters import clock
from django_counters.features import Drift
from django_counters.stores.sql.dialects.ledger import (
    Extent,
    Range,
    SealedConditions,
    inside,
    outside,
    within,
)
from django_counters.stores.sql.session import Session, aware
from django_counters.stores.sql.totals import SqlReads

# How many sealed partitions a statement reads where others can read the rest: four locks for each.
MANY = 20


class Parts(NamedTuple):
    """The parts of a value."""

    total: int
    shards: int
    tail: int
    outside: int | None
    archived: int


class EntryRow(NamedTuple):
    """One entry."""

    token: UUID
    created_at: datetime
    delta: int
    kind: int
    pending: bool


class Recount(NamedTuple):
    """The entries of a sealed partition and their sum, and how much more than was archived some
    counters have."""

    entries: int
    delta_sum: int
    astray: dict[str, int]


class SqlInquiry(SqlReads):
    """Asks the ledger of named counters. Changes nothing."""

    def history(self, key: str, starts: Sequence[datetime]) -> dict[int, tuple[int, int]]:
        """Sum and number of the entries in each period, by the number of it, from one on.

        Sealed partitions that lie in one period are read from the archive. Where many others are
        sealed, they are read by statements of their own, as they stay what they are.
        """
        begun = [clock.meant(start) for start in starts]
        whole, several = self._sealed_among(begun)
        parts = [several[first : first + MANY] for first in range(0, len(several), MANY)][:-1]
        rest = outside("d.created_at", joined(whole + list(chain(*parts))))
        found = self._sums(key, begun, rest, within(joined(whole)))
        for part in parts:
            first = bisect_right(begun, part[0][0]) - 1
            moments = begun[max(first, 0) : bisect_left(begun, part[-1][1]) + 1]
            among = inside("d.created_at", joined(part))
            for number, sums in self._sums(key, moments, among, within(())).items():
                change, entries = found.get(number + max(first, 0), (0, 0))
                found[number + max(first, 0)] = change + sums[0], entries + sums[1]
        return found

    def _sums(
        self, key: str, starts: Sequence[datetime], among: str, archived: str
    ) -> dict[int, tuple[int, int]]:
        dialect = self._session.dialect
        moments = [dialect.moment(moment) for moment in starts]
        span = {"since": moments[0], "until": moments[-1]}
        sql = self._sql.history.format(among=among, within=archived)
        params = {"key": key, "moments": dialect.keys(moments), **span}
        rows = self._session.run(sql, params, writes=False)
        return {number: (int(change), entries) for number, change, entries in rows}

    def _sealed_among(self, starts: Sequence[datetime]) -> tuple[list[Range], list[Range]]:
        """The sealed partitions that lie in one period, and those that lie in several or beyond."""
        if not self._session.dialect.partitions:
            return [], []
        span = {"since": starts[0], "until": starts[-1]}
        rows = self._session.run(self._session.dialect.ledger.partitions.sealed, span, writes=False)
        whole: list[Range] = []
        several: list[Range] = []
        for since, until in rows:
            extent = range_of(since, until)
            number = bisect_right(starts, extent[0])
            is_whole = 0 < number < len(starts) and extent[1] <= starts[number]
            (whole if is_whole else several).append(extent)
        return whole, several

    def value_and_later(self, key: str, moment: datetime) -> tuple[int, int]:
        """The value now, and the sum of the entries that are later than a moment."""
        address = (*self._owner.address(key), *(key,) * self._reads.keyed)
        then = self._session.dialect.moment(moment)
        ranges = sealed(self._session, self._sealed.later, {"moment": then})
        sql = self._sql.after.format(
            reads=self._reads.one, among=outside("d.created_at", ranges), within=within(ranges)
        )
        ((later, archived, total, pending),) = self._session.run(
            sql, (key, then, key, *address), writes=False
        )
        return int(total or 0) + int(pending or 0), int(later or 0) + int(archived or 0)

    def parts(self, key: str, last: int) -> tuple[Parts, list[EntryRow]]:
        """The parts of a value, and the last entries, the latest first."""
        if "ledger" in self._session.dialect.lacks:
            total, pending = self.read_one(key) or (0, 0)
            return Parts(total or 0, pending, 0, None, 0), []
        params = {"key": key, "limit": last}
        ranges = sealed(self._session, self._sealed.without_last, params)
        sql = self._sql.parts.format(among=outside("d.created_at", ranges))
        rows = self._session.run(sql, params, writes=False)
        total, shards, tail, otherwise, archived = rows[0][:5]
        came_otherwise = None if otherwise is None else int(otherwise)
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
        ((moment, has_any),) = self._session.run(self._sql.kept, {"key": key}, writes=False)
        return aware(moment, local=True) if moment else None, bool(has_any)

    def waiting(self) -> tuple[int, int]:
        """How many entries wait, of how many counters."""
        ((entries, counters),) = self._session.run(self._sql.tail, (), writes=False)
        return entries, counters

    def drift(
        self, prefix: str, keys: Iterable[str] | None, astray: Mapping[str, int]
    ) -> list[Drift]:
        """The counters whose total differs from their entries.

        ``astray``: how much more than it was sealed with entries of sealed partitions have.
        """
        ranges = sealed(self._session, self._sealed.every, {})
        sql = self._sql.drift.format(among=outside("e.created_at", ranges), within=within(ranges))
        suspects = self._session.dialect.keys(list(astray))
        params = {**self._narrowed(prefix, keys), "suspects": suspects}
        rows = self._session.run(sql, params, writes=False)
        sums = [(key, int(due) + astray.get(key, 0), int(had)) for key, due, had in rows]
        # A key without any sums has no row.
        sums += [(key, astray[key], 0) for key in sorted(astray.keys() - {key for key, *_ in rows})]
        return [Drift(key, due, had) for key, due, had in sums if due != had]

    def recount(self, partition: Extent, prefix: str, keys: Iterable[str] | None) -> Recount:
        """What a sealed partition has, beside the sums that it was sealed with."""
        moment = self._session.dialect.moment
        extent = {"since": moment(partition.since), "until": moment(partition.until)}
        params = {**self._narrowed(prefix, keys), **extent, "name": partition.name}
        (_, entries, delta_sum), *rows = self._session.run(self._sql.recount, params, writes=False)
        return Recount(
            int(entries or 0), int(delta_sum or 0), {key: int(more) for key, _, more in rows}
        )

    def sample(self, prefix: str, limit: int) -> list[str]:
        """Some counters of the ledger."""
        params = {"prefix": prefix, "limit": limit}
        return [key for (key,) in self._session.run(self._sql.sample, params, writes=False)]

    @property
    def _sql(self) -> Any:
        return self._session.dialect.ledger.inquiry

    @property
    def _sealed(self) -> SealedConditions:
        found: SealedConditions = self._session.dialect.ledger.sealed
        return found

    def _narrowed(self, prefix: str, keys: Iterable[str] | None) -> dict[str, Any]:
        dialect = self._session.dialect
        among = dialect.every if keys is None else dialect.keys(list(keys))
        return {"keys": among, "prefix": prefix}

    def _row(self, row: Sequence[Any]) -> EntryRow:
        token, created_at, delta, kind, pending = row
        moment = aware(created_at, local=self._session.dialect.knows_time_zones)
        return EntryRow(UUID(str(token)), moment, delta, kind, bool(pending))


def sealed(session: Session, which: str, params: Mapping[str, Any]) -> list[Range]:
    """The ranges of sealed partitions for which a condition of `SealedConditions` holds."""
    if not session.dialect.partitions:
        return []
    sql = session.dialect.ledger.partitions.ranges.format(which=which)
    rows = session.run(sql, params, writes=False)
    return [range_of(since, until) for since, until in rows]


def range_of(since: datetime, until: datetime) -> Range:
    """The extent of partitions, as the database has said it."""
    return aware(since, local=True), aware(until, local=True)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same ranges, those that meet as one."""
    found: list[Range] = []
    for since, until in sorted(ranges):
        if found and found[-1][1] == since:
            found[-1] = found[-1][0], until
        else:
            found.append((since, until))
    return found
