"""The holds, in one database: rows that are made and ended with the change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django_counters import clock
from django_counters.stores.sql.dialects.holds import HELD
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.totals import SqlReads

_PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: How long what has ended is kept: its token is known for as long.
KEPT = timedelta(days=30)
#: The time after which an expired hold is worth a question.
LATE = timedelta(hours=1)


class Asked(NamedTuple):
    """The quantity to hold, and for how many seconds."""

    token: str
    label: str
    key: str
    quantity: int
    seconds: float
    note: str = ""
    actor: str = ""


class Row(NamedTuple):
    """What there is of a hold: ``age`` in seconds, ``over``: whether its time is."""

    token: str
    label: str
    key: str
    quantity: int
    sold: int
    state: int
    note: str
    actor: str
    age: float
    expires_at: datetime
    over: bool

    @property
    def runs(self) -> bool:
        """Whether it is held, and its time is not over."""
        return self.state == HELD and not self.over


class Ended(NamedTuple):
    """A hold that has just ended."""

    token: str
    label: str
    key: str
    quantity: int


class SqlHolds:
    """Makes and ends rows of holds, in the caller's transaction if there is one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.dialect.holds
        self.at_once = bool(self._sql.take)
        self.waits_for_others = session.dialect.several_writers

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def take(self, asked: Asked, least: int) -> tuple[int, datetime] | None:
        """Hold something of a named counter in one statement; the new value, and when it expires.

        None, and nothing changed, where the token is known, or the total is not at ``least``.
        """
        wanted = (asked.token, asked.key, asked.quantity, least)
        params = (*wanted, asked.seconds, asked.note, asked.actor)
        ((value, ends),) = self._run(self._sql.take, params)
        return None if value is None else (int(value), _moment(ends))

    def claim(self, asked: Asked) -> datetime | None:
        """Make a row; when it expires. None where there is one. Waits for who just makes it."""
        named = (asked.token, asked.label, asked.key, asked.quantity)
        params = (*named, asked.note, asked.actor, asked.seconds)
        rows = self._run(self._sql.claim, params)
        return _moment(rows[0][0]) if rows else None

    def find(self, token: str) -> Row | None:
        """What there is of a hold."""
        rows = self._session.run(self._sql.find, (token,), writes=False)
        return _row(rows[0]) if rows else None

    def held(self, label: str, key: str, limit: int) -> list[Row]:
        """The holds of a counter, the first to expire first."""
        rows = self._session.run(self._sql.held, (label, key, limit), writes=False)
        return [_row(row) for row in rows]

    def quantities(self, label: str, key: str, actor: str) -> tuple[int, int]:
        """How much of a counter is held and not over: by one actor, and in total."""
        rows = self._session.run(self._sql.quantities, (actor, label, key), writes=False)
        ((own, total),) = rows
        return int(own or 0), int(total or 0)

    def commit(self, token: str, quantity: int | None) -> Ended | None:
        """End a hold that runs, and has as much, as sold."""
        if quantity is None:
            return self._ended(self._sql.commit, (token,))
        return self._ended(self._sql.commit_some, (quantity, token, quantity))

    def release(self, token: str) -> Ended | None:
        """End a hold."""
        return self._ended(self._sql.release, (token,))

    def extend(self, token: str, seconds: float) -> datetime | None:
        """Let a hold that runs do so for at least so many seconds; until when it does."""
        rows = self._run(self._sql.extend, (seconds, seconds, token))
        return _moment(rows[0][0]) if rows else None

    def overdue(self, label: str, key: str) -> bool:
        """Whether holds of a counter are over and not ended."""
        return bool(self._session.run(self._sql.overdue, (label, key), writes=False))

    def expire(self, label: str, key: str, limit: int) -> list[int]:
        """End holds of a counter that are over; their quantities."""
        return [int(q) for (q,) in self._run(self._sql.expire, (label, key, limit))]

    def due(self, limit: int) -> list[tuple[str, str]]:
        """The counters of holds that are over, the oldest first."""
        rows = self._session.run(self._sql.due, (limit,), writes=False)
        return [(str(label), str(key)) for label, key in rows]

    def forgotten(self) -> list[tuple[str, str, int]]:
        """The counters whose holds are over for long, and how much of each."""
        late = (LATE.total_seconds(),)
        rows = self._session.run(self._sql.forgotten, late, writes=False)
        return [(str(label), str(key), int(quantity)) for label, key, quantity in rows]

    def prune(self) -> int:
        """Forget what has ended long ago; how many. In small batches."""
        gone = 0
        while rows := len(self._session.run(self._sql.prune, (KEPT.total_seconds(), _PAGE))):
            gone += rows
        return gone

    def _ended(self, sql: str, params: Sequence[Any]) -> Ended | None:
        rows = self._run(sql, params)
        if not rows:
            return None
        token, label, key, quantity = rows[0]
        return Ended(str(token), str(label), str(key), int(quantity))

    def _run(self, sql: str, params: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        with self._session.serializable("the hold"):
            return self._session.run(sql, params)


class SqlStock(SqlReads):
    """Reads what there is of the counters of one table together with their holds."""

    def stock(self, label: str, text: str, key: Hashable) -> tuple[int | None, int, int]:
        """The value of a counter, None where there is none; the quantities held and sold."""
        sql = self._session.dialect.holds.stock.format(self._reads.one)
        params = (label, text, *self._reading(key))
        ((held, sold, total, pending),) = self._session.run(sql, params, writes=False)
        is_there = total is not None or pending is not None
        value = int(total or 0) + int(pending or 0) if is_there else None
        return value, int(held or 0), int(sold or 0)


def _moment(microseconds: int) -> datetime:
    return clock.shown(_EPOCH + timedelta(microseconds=int(microseconds)))


def _row(row: Sequence[Any]) -> Row:
    token, label, key, quantity, sold, state, note, actor, age, ends, over = row
    told = (int(quantity), int(sold), state, note, actor, int(age) / 1_000_000)
    return Row(token, label, key, *told, _moment(ends), bool(over))
