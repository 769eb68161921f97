"""How far sources are in the totals: a transaction that moves a position has landed what is in
between."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.transaction import TransactionManagementError

from django_counters.stores.base import Move
from django_counters.stores.sql.session import Session

_PAGE = 1000


class Moved(Exception):
    """Another transaction has moved a position: nothing of the page is landed here.

    The page is of no use any more. Read the positions again, and go on from there.

    Attributes:
        moves: those that were not possible.
    """

    def __init__(self, moves: Sequence[Move]) -> None:
        super().__init__(", ".join(map(str, moves)))
        self.moves = tuple(moves)


class Position(NamedTuple):
    """Where a part is, and in which history. Empty before its first page."""

    position: str = ""
    timeline: str = ""


class Age(NamedTuple):
    """How long ago a part was moved or touched, by the clock of its server."""

    source: str
    part: str
    position: str
    timeline: str
    age: timedelta


class SqlPositions:
    """The positions of one database. Holds no connection."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.positions

    def of(self, source: str) -> dict[str, Position]:
        """How far each part of a source is. One that never moved may be missing."""
        return self._found(self._sql.found, (source,))

    def among(self, source: str, parts: Collection[str]) -> dict[str, Position]:
        """How far some parts of a source are; nothing of those that never moved."""
        if not parts:
            return {}
        return self._found(self._sql.among, (source, self._session.dialect.keys(list(parts))))

    def make(self, source: str, part: str) -> None:
        """Make sure that there is a row, which `hold` can hold."""
        self._session.run(self._sql.make, (source, part))

    def hold(self, source: str, part: str, lease: float = 0) -> Position | None:
        """Hold one part until the transaction ends: a lease. None where another transaction has it.

        Args:
            source: the source.
            part: its part.
            lease: after how many seconds between two statements the server ends this transaction,
                where it can; 0: never.

        Raises:
            TransactionManagementError: no transaction is open: it would end at once.
        """
        self.lease(lease)
        rows = self._session.run(self._sql.hold, (source, part))
        return Position(*rows[0]) if rows else None

    def lease(self, seconds: float) -> None:
        """Let the server end this transaction where its owner stands still, if the server can.

        Args:
            seconds: how long it waits for the next statement; 0: for ever.

        Raises:
            TransactionManagementError: no transaction is open: it would hold for all that follow.
        """
        self._check_that_a_transaction_is_open()
        if seconds and self._session.dialect.ends_idle:
            self._session.run(self._session.dialect.ends_idle, (str(round(seconds * 1000)),))

    def move(self, moves: Sequence[Move]) -> None:
        """Move positions, each from where it must be, in the transaction of the counts in between.

        Waits for others who are just moving the same.

        Raises:
            Moved: one of them is elsewhere. The transaction has to be rolled back.
            TransactionManagementError: no transaction is open. The position would be moved before
                what it stands for is added, or without it.
            ValueError: a move goes nowhere, or two are of one part.
        """
        self._check_that_a_transaction_is_open()
        if not moves:
            return
        parts = {(move.source, move.part) for move in moves}
        if len(parts) < len(moves) or any(move.before == move.after for move in moves):
            raise ValueError("Each move is of another part, and goes somewhere.")
        # In one order, which MySQL takes from here: it finds each row by its key.
        rows = self._session.run(self._sql.move, self._session.dialect.columns(sorted(moves)))
        moved = {(source, part) for source, part in rows}
        if parts - moved:
            raise Moved([move for move in moves if (move.source, move.part) not in moved])

    def put(self, source: str, part: str, position: Position) -> None:
        """Put a part somewhere, wherever it was: pages that are being read are then dropped."""
        self._session.run(self._sql.put, (source, part, *position))

    def label(self, source: str, part: str, timeline: str) -> None:
        """Say in which history a position means something: no page of another one moves it.

        Waits for the transaction that is just moving it. One that never moved is there afterwards.
        """
        self.make(source, part)
        self._session.run(self._sql.label, (timeline, source, part))

    def relabel(self, source: str, part: str, before: str, after: str) -> bool:
        """The same from the history that it meant something in; False where that is a third one."""
        self.make(source, part)
        return bool(self._session.run(self._sql.relabel, (after, source, part, before, after)))

    def touch(self, source: str, part: str) -> None:
        """Say that a part is up to date as of now. Where it stands, and who moves it, is not asked.

        One that never moved is there afterwards, and stands nowhere.
        """
        self._session.run(self._sql.touch, (source, part))

    def ages(self, low: str, high: str) -> list[Age]:
        """The parts of all sources from one name on and before another one, in one query."""
        rows = self._session.run(self._sql.ages, (low, high), writes=False)
        # A clock that was set back makes nothing younger than now.
        return [
            Age(source, part, position, timeline, timedelta(microseconds=max(int(ago), 0)))
            for source, part, position, timeline, ago in rows
        ]

    def prune(self, source: str, before: datetime) -> int:
        """Forget parts of a source that have not moved since a moment; how many those were."""
        params, gone = (source, self._session.dialect.moment(before), _PAGE), 0
        while rows := len(self._session.run(self._sql.prune, params)):
            gone += rows
        return gone

    def _found(self, statement: str, params: Sequence[Any]) -> dict[str, Position]:
        rows = self._session.run(statement, params, writes=False)
        return {part: Position(position, timeline) for part, position, timeline in rows}

    def _check_that_a_transaction_is_open(self) -> None:
        if self._session.commits_at_once():
            raise TransactionManagementError("A position moves with what it is for.")
