"""Reads of the ledger. Each is one statement, and so of one moment.

A first statement selects the sealed partitions that the answer doesn't have to lock, because their
sums are in the archive. The answer is still of one moment. Sealed partitions don't change. If a
partition is sealed after the first statement, its entries are read. If one is dropped after it, the
archive has all its sums, or the read is of the past and is refused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django_counters import clock
from django_counters.errors import PositionGone
from django_counters.features import Drift
from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.sql import (
    DROPPED,
    LEDGER,
    Extent,
    Inquiry,
    LedgerStatements,
    Range,
    SealedConditions,
    inside,
    outside,
    statements,
    within,
)
from django_counters.stores.sql.positions import Position, SqlPositions
from django_counters.stores.sql.session import Session, aware
from django_counters.stores.sql.totals import SqlReads
from django_counters.tokens import moment_of

# A statement reads so many sealed partitions, and others read the rest: four locks for each.
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
        """Return the sum and the number of entries in each period, by the period's number from 1.

        Sealed partitions within one period are read from the archive. Many other sealed partitions
        are read by further statements, because they don't change.
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
        """Return the sealed partitions within one period, and all others."""
        if not self._session.dialect.partitions:
            return [], []
        span = {"since": starts[0], "until": starts[-1]}
        rows = self._session.run(self._ledger.partitions.sealed, span, writes=False)
        whole: list[Range] = []
        several: list[Range] = []
        for since, until in rows:
            extent = range_of(since, until)
            number = bisect_right(starts, extent[0])
            is_whole = 0 < number < len(starts) and extent[1] <= starts[number]
            (whole if is_whole else several).append(extent)
        return whole, several

    def value_and_later(self, key: str, moment: datetime) -> tuple[int, int]:
        """Return the present value, and the sum of the entries after a moment."""
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
        """Return the parts of a value, and its last entries, the latest first."""
        if "ledger" in self._session.dialect.lacks:
            total, pending = self.read_one(key) or (0, 0)
            return Parts(total or 0, pending, 0, None, 0), []
        params = {"key": key, "limit": last}
        ranges = sealed(self._session, self._sealed.without_last, params)
        sql = self._sql.parts.format(among=outside("d.created_at", ranges))
        rows = self._session.run(sql, params, writes=False)
        total, shards, tail, otherwise, archived = rows[0][:5]
        total, shards, tail, archived = (int(part or 0) for part in (total, shards, tail, archived))
        came_otherwise = None if otherwise is None else int(otherwise)
        entries = [self._row(row[5:]) for row in rows if row[5] is not None]
        return Parts(total, shards, tail, came_otherwise, archived), entries

    def kept(self, key: str) -> tuple[datetime | None, bool]:
        """Return the moment since which no entry is dropped, and whether a counter ever had one."""
        ((moment, has_any),) = self._session.run(self._sql.kept, {"key": key}, writes=False)
        return aware(moment, local=True) if moment else None, bool(has_any)

    def waiting(self) -> tuple[int, int]:
        """Return how many entries are pending, of how many counters."""
        ((entries, counters),) = self._session.run(self._sql.tail, (), writes=False)
        return entries, counters

    def drift(
        self, prefix: str, keys: Iterable[str] | None, astray: Mapping[str, int]
    ) -> list[Drift]:
        """Return the counters whose total differs from their entries.

        ``astray``: by how much entries of sealed partitions exceed the archived sums.
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
        """Compare a sealed partition with the sums that it was sealed with."""
        moment = self._session.dialect.moment
        extent = {"since": moment(partition.since), "until": moment(partition.until)}
        params = {**self._narrowed(prefix, keys), **extent, "name": partition.name}
        (_, entries, delta_sum), *rows = self._session.run(self._sql.recount, params, writes=False)
        return Recount(
            int(entries or 0), int(delta_sum or 0), {key: int(more) for key, _, more in rows}
        )

    def sample(self, prefix: str, limit: int) -> list[str]:
        """Return some counters of the ledger, drawn at random."""
        params = {"prefix": prefix, "limit": limit}
        return [key for (key,) in self._session.run(self._sql.sample, params, writes=False)]

    @cached_property
    def _ledger(self) -> LedgerStatements:
        return statements(self._session.using)

    @property
    def _sql(self) -> Inquiry:
        return self._ledger.inquiry

    @property
    def _sealed(self) -> SealedConditions:
        return self._ledger.sealed

    def _narrowed(self, prefix: str, keys: Iterable[str] | None) -> dict[str, Any]:
        dialect = self._session.dialect
        among = dialect.every if keys is None else dialect.keys(list(keys))
        return {"keys": among, "prefix": prefix}

    def _row(self, row: Sequence[Any]) -> EntryRow:
        token, created_at, delta, kind, pending = row
        moment = aware(created_at, local=self._session.dialect.knows_time_zones)
        return EntryRow(UUID(str(token)), moment, delta, kind, bool(pending))


def sealed(session: Session, which: str, params: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of sealed partitions that meet a condition of `SealedConditions`."""
    if not session.dialect.partitions:
        return []
    sql = statements(session.using).partitions.ranges.format(which=which)
    return [range_of(*ends) for ends in session.run(sql, params, writes=False)]


def range_of(since: datetime, until: datetime) -> Range:
    """Return the range of a partition from the database's answer."""
    return aware(since, local=True), aware(until, local=True)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return the same ranges, and merge those that meet."""
    found: list[Range] = []
    for since, until in sorted(ranges):
        if found and found[-1][1] == since:
            found[-1] = found[-1][0], until
        else:
            found.append((since, until))
    return found


# Following the ledger as an outbox.


# No transaction has a number above.
_ALL = 2**62
# After a range of transactions without entries, the next range is so many times longer.
_STRIDE = 8


class LedgerPosition(NamedTuple):
    """A follower's position: after an entry, or after all transactions below a number.

    It is valid until the next rebase, which moves the fence.
    """

    fence: int
    xid: int = 0
    seq: int = 0
    token: UUID | None = None

    def __str__(self) -> str:
        token = () if self.token is None else (self.token.hex,)
        return "-".join(map(str, (self.fence, self.xid, self.seq, *token)))

    @classmethod
    def of(cls, text: str) -> LedgerPosition:
        """Parse a position.

        Raises:
            ValueError: the text isn't one.
        """
        parts = text.split("-")
        if not (3 <= len(parts) <= 4 and all(p.isascii() and p.isdigit() for p in parts[:3])):
            raise ValueError(f"{text!r} is no position in a ledger.")
        fence, xid, seq = map(int, parts[:3])
        return cls(fence, xid, seq, UUID(parts[3]) if parts[3:] else None)

    @property
    def order(self) -> tuple[int, int]:
        """Return its place in the order of entries."""
        return self.xid, self.seq


class Passed(NamedTuple):
    """An entry on a follower's page."""

    token: UUID
    key: str
    delta: int
    kind: int
    xid: int
    seq: int


class SqlFollowing:
    """Reads complete entries, in the order of their transactions and as each wrote them.

    Transactions below a snapshot's xmin have ended, and the snapshot has their commits. So nothing
    can appear before an entry that was read. With one writer at a time, entries are written in the
    order of commits.
    """

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = statements(using).following
        self._using = using

    def begin(self) -> LedgerPosition:
        """Return the position after the last dropped entry: nothing is missing from there on."""
        ((fence, dropped),) = self._session.run(self._sql.begin, (), writes=False)
        return LedgerPosition.of(dropped) if dropped else LedgerPosition(int(fence))

    def end(self) -> LedgerPosition:
        """Return the position after all entries that are complete now."""
        ((fence, xid, seq),) = self._session.run(self._sql.end, (), writes=False)
        return LedgerPosition(fence, xid, seq)

    def drop(self, place: LedgerPosition) -> None:
        """Record that entries up to a position were dropped, so followers can't read them.

        An earlier position than the recorded one changes nothing. The caller holds a lock against
        other drops.
        """
        positions, fence = SqlPositions(self._using), str(place.fence)
        known = positions.among(LEDGER, [DROPPED]).get(DROPPED, Position())
        if known.timeline != fence or LedgerPosition.of(known.position).order < place.order:
            positions.put(LEDGER, DROPPED, Position(str(place), fence))

    def page(self, place: LedgerPosition, most: int) -> list[Passed]:
        """The next entries after a place; fewer than ``most`` where no more are complete.

        Raises:
            PositionGone: some that follow are not there any more, or that is not known.
            LedgerFenced: the table came from another server.
        """
        SqlHorizon(self._using).require()
        found: list[Passed] = []
        # There is no index by transaction but a summary. So it reads a range, and further ranges
        # if that has too few entries.
        length = most if self._session.dialect.knows_transaction_horizon else _ALL
        while True:
            until, horizon, rows = self._looked(place, place.xid + length, most - len(found))
            found += rows
            if len(found) == most or until >= horizon:
                return found
            place, length = LedgerPosition(place.fence, until), length * _STRIDE

    def _looked(
        self, place: LedgerPosition, until: int, most: int
    ) -> tuple[int, int, list[Passed]]:
        dialect, token = self._session.dialect, place.token
        asked: dict[str, Any] = {
            "fence": place.fence,
            "xid": place.xid,
            "seq": place.seq,
            "token": None if token is None else dialect.token(token),
            "created_at": None if token is None else dialect.moment(moment_of(token)),
            "until": until,
            "most": most,
        }
        ranges = list[Range]()
        if dialect.partitions:
            # A sealed partition gets no other entries.
            passed = self._session.run(self._sql.passed, {**asked, "many": MANY}, writes=False)
            asked["until"] = until = passed[0][0]
            ranges = [range_of(begin, end) for _, begin, end in passed if begin is not None]
        sql = self._sql.since.format(among=outside("created_at", ranges))
        rows = self._session.run(sql, asked, writes=False)
        fence, horizon, dropped, there = rows[0][:4]
        if fence != place.fence:
            raise PositionGone(position=str(place), reason="is of before a rebase")
        last = LedgerPosition.of(dropped).order if dropped else (0, 0)
        if place.order < last:
            raise PositionGone(position=str(place), reason="has entries after it that were dropped")
        lost = place.token is not None and place.order > last and not there
        if lost or place.xid > horizon:
            raise PositionGone(position=str(place), reason="is not of this database")
        found = [row[4:] for row in rows if row[4] is not None]
        return until, horizon, [Passed(UUID(str(token)), *rest) for token, *rest in found]


def page(position: str, most: int, using: str) -> tuple[list[Passed], str]:
    """Return the next entries after a position, and the position after them.

    Raises:
        PositionGone, LedgerFenced, ValueError: as `DeltaManager.since`.
    """
    following = SqlFollowing(using)
    place = LedgerPosition.of(position) if position else following.begin()
    found = following.page(place, most)
    if found:
        last = found[-1]
        place = LedgerPosition(place.fence, last.xid, last.seq, last.token)
    return found, str(place)
