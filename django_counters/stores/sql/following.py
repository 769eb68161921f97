"""The ledger as an outbox: its entries in an order in which a follower may stop and go on."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django_counters.exceptions import PositionGone
from django_counters.stores.sql.dialects.ledger import DROPPED, LEDGER, outside
from django_counters.stores.sql.horizon import SqlHorizon
from django_counters.stores.sql.inquiry import MANY, range_of
from django_counters.stores.sql.positions import Position, SqlPositions
from django_counters.stores.sql.session import Session
from django_counters.tokens import moment_of

# No transaction has a number above.
_ALL = 2**62
# An empty stretch of transactions makes the next one that is looked at so many times longer.
_STRIDE = 8


class LedgerPosition(NamedTuple):
    """Where a follower is: after the entry of one token, or after what is below a transaction.

    Numbers of transactions mean something until the next rebase, which moves the fence.
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
        """The place that a text says.

        Raises:
            ValueError: it says none.
        """
        parts = text.split("-")
        if not (3 <= len(parts) <= 4 and all(p.isascii() and p.isdigit() for p in parts[:3])):
            raise ValueError(f"{text!r} is no position in a ledger.")
        fence, xid, seq = map(int, parts[:3])
        return cls(fence, xid, seq, UUID(parts[3]) if parts[3:] else None)

    @property
    def order(self) -> tuple[int, int]:
        """What entries are ordered by."""
        return self.xid, self.seq


class Passed(NamedTuple):
    """An entry that a follower comes to."""

    token: UUID
    key: str
    delta: int
    kind: int
    xid: int
    seq: int


class SqlFollowing:
    """Reads complete entries, by the transaction that wrote them and the order within it.

    Transactions below the xmin of a snapshot have ended, and the snapshot sees their commits. So
    nothing can appear before an entry that was read. Where one writes at a time, the order in which
    entries were written is that of commits.
    """

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.ledger.following
        self._using = using

    def begin(self) -> LedgerPosition:
        """After the last entry that was dropped: from here on nothing is missing."""
        ((fence, dropped),) = self._session.run(self._sql.begin, (), writes=False)
        return LedgerPosition.of(dropped) if dropped else LedgerPosition(int(fence))

    def end(self) -> LedgerPosition:
        """After all that is complete now."""
        ((fence, xid, seq),) = self._session.run(self._sql.end, (), writes=False)
        return LedgerPosition(fence, xid, seq)

    def drop(self, place: LedgerPosition) -> None:
        """A sealed partition is dropped: entries before its last place cannot be followed.

        An earlier place than that of another partition changes nothing. One at a time: the caller
        keeps others out.
        """
        positions, fence = SqlPositions(self._session), str(place.fence)
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
        # There is no index by transaction but a summary. So a stretch is looked at, and more if
        # that has too little.
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
        asked, ranges = self._asked(place, until, most), []
        if self._session.dialect.partitions:
            # What is sealed by now has no other entries than before.
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
        return until, horizon, [_passed(row[4:]) for row in rows if row[4] is not None]

    def _asked(self, place: LedgerPosition, until: int, most: int) -> dict[str, Any]:
        dialect, token = self._session.dialect, place.token
        moment = None if token is None else dialect.moment(moment_of(token))
        return {
            "fence": place.fence,
            "xid": place.xid,
            "seq": place.seq,
            "token": None if token is None else dialect.token(token),
            "created_at": moment,
            "until": until,
            "most": most,
        }


def _passed(row: tuple[Any, ...]) -> Passed:
    token, *rest = row
    return Passed(token if isinstance(token, UUID) else UUID(token), *rest)
