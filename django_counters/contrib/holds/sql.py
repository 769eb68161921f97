"""The SQL of holds: statements of all databases, the function in PostgreSQL, and the store."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections

from django_counters import clock
from django_counters.stores.sql.dialects import Table, dialect_of
from django_counters.stores.sql.dialects.mysql import statements as mysql
from django_counters.stores.sql.dialects.postgresql.functions import INDEXED
from django_counters.stores.sql.dialects.spelling import Spelling, Together
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.totals import SqlReads

HOLDS = "django_counters_counterhold"
# The states of a row.
HELD, COMMITTED, RELEASED, EXPIRED = range(4)
_MINE = f"token = %s AND state = {HELD}"
_OF = f"h.field = %s AND h.key = %s AND h.state = {HELD}"


class HoldStatements:
    """The statements of holds. "Now" is the server's clock, read after all waiting.

    Attributes:
        take: hold a named counter in one statement: the row, then the total. Rows: the new value,
            and the expiry in microseconds since 1970; NULL, and nothing changed, if the token is
            in use or the total is too low. Empty if the database has no such statement.
            Parameters: token, key, quantity, the least sufficient value, seconds, note, actor.
    """

    take = ""

    def __init__(self, spelling: Spelling) -> None:
        now, later = spelling.clock, spelling.later
        ends = spelling.since_1970("expires_at")
        running = f"{_MINE} AND expires_at > {now}"
        #: Make a row, unless it exists. Parameters: token, label, key, quantity, note, actor,
        #: seconds. Rows: its expiry.
        self.claim = (
            f"INSERT INTO {HOLDS} (token, field, key, quantity, sold, state, note, actor, "
            f"expires_at, created_at) VALUES (%s, %s, %s, %s, 0, {HELD}, %s, %s, {later}, {now}) "
            f"ON CONFLICT DO NOTHING RETURNING {ends}"
        )
        age = f"{spelling.microseconds} - {spelling.since_1970('created_at')}"
        columns = "token, field, h.key, quantity, sold, state, note, actor, "
        columns += f"{age}, {ends}, expires_at <= {now}"
        #: One row, and whether it has expired. Parameters: token.
        self.find = f"SELECT {columns} FROM {HOLDS} h WHERE token = %s"
        #: A counter's active holds, the first to expire first. Parameters: label, key, limit.
        self.held = f"SELECT {columns} FROM {HOLDS} h WHERE {_OF} ORDER BY expires_at LIMIT %s"
        #: The unexpired held quantities of a counter: one actor's, and the total. Parameters:
        #: actor, label, key.
        self.quantities = (
            f"SELECT SUM(CASE WHEN actor = %s THEN quantity END), SUM(quantity) FROM {HOLDS} h "
            f"WHERE {_OF} AND expires_at > {now}"
        )
        #: Rows: how many holds are active, and how many name an actor.
        self.left = (
            f"SELECT COUNT(CASE WHEN state = {HELD} THEN 1 END), "
            f"COUNT(CASE WHEN actor <> '' THEN 1 END) FROM {HOLDS}"
        )
        #: Sell all of it. Parameters: token. Rows, also of the next one: token, label, key,
        #: quantity.
        returning = "RETURNING token, field, key, quantity"
        self.commit = (
            f"UPDATE {HOLDS} SET state = {COMMITTED}, sold = quantity WHERE {running} {returning}"
        )
        #: Sell a part of it. Parameters: quantity, token, quantity.
        self.commit_some = (
            f"UPDATE {HOLDS} SET state = {COMMITTED}, sold = %s "
            f"WHERE {running} AND quantity >= %s {returning}"
        )
        #: Give it back. Parameters: token. Rows: those of ``commit``.
        self.release = f"UPDATE {HOLDS} SET state = {RELEASED} WHERE {_MINE} {returning}"
        #: Move its expiry later, never earlier. Parameters: seconds, seconds, token. Rows: expiry.
        self.extend = (
            f"UPDATE {HOLDS} SET expires_at = CASE WHEN expires_at > {later} THEN expires_at "
            f"ELSE {later} END WHERE {running} RETURNING {ends}"
        )
        #: The held and sold quantities, the total and its pending amount, of one moment.
        #: Parameters: label, key, those of ``Reads.one``, which replaces the braces.
        self.stock = (
            f"SELECT h.held, h.sold, r.* FROM (SELECT SUM(CASE WHEN state = {HELD} THEN quantity "
            f"END) AS held, SUM(sold) AS sold FROM {HOLDS} t WHERE t.field = %s AND t.key = %s) h "
            "CROSS JOIN ({}) r"
        )
        over = f"state = {HELD} AND expires_at <= {now}"
        #: Whether a counter has expired holds. Parameters: label, key.
        self.overdue = f"SELECT 1 FROM {HOLDS} h WHERE {_OF} AND expires_at <= {now} LIMIT 1"
        #: End a counter's expired holds, except those that another transaction is ending.
        #: Parameters: label, key, limit. Rows: quantities.
        self.expire = (
            f"WITH due AS MATERIALIZED (SELECT token FROM {HOLDS} h WHERE {_OF} "
            f"AND expires_at <= {now} ORDER BY expires_at LIMIT %s{spelling.held}"
            f"{spelling.skipping}) UPDATE {HOLDS} SET state = {EXPIRED} "
            f"WHERE token IN (SELECT token FROM due) AND {over} RETURNING quantity"
        )
        #: The counters of the holds that expired first. Parameters: the number of holds.
        self.due = (
            f"SELECT d.field, d.key FROM (SELECT h.field, h.key, h.expires_at FROM {HOLDS} h "
            f"WHERE {over} ORDER BY expires_at LIMIT %s) d GROUP BY d.field, d.key "
            "ORDER BY MIN(d.expires_at)"
        )
        #: Delete some ended holds that expired long ago. Parameters: seconds, limit.
        old = f"WHERE state <> {HELD} AND expires_at < {spelling.ago} LIMIT %s"
        self.prune = self._delete_some(spelling, old)
        #: Counters with active holds that expired long ago. Parameters: seconds. Rows: label, key,
        #: quantity.
        self.forgotten = (
            f"SELECT h.field, h.key, SUM(h.quantity) FROM {HOLDS} h WHERE h.state = {HELD} "
            f"AND h.expires_at < {spelling.ago} GROUP BY h.field, h.key ORDER BY h.field, h.key"
        )

    def _delete_some(self, spelling: Spelling, which: str) -> str:
        return spelling.delete_some(HOLDS, which)


_MINE_IN_MYSQL = f"token = @djc_token AND state = {HELD}"


class MysqlHolds(HoldStatements):
    """The same in MySQL and MariaDB."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        now, later = spelling.clock, spelling.later
        ends = spelling.since_1970("expires_at")
        running = f"{_MINE_IN_MYSQL} AND expires_at > {now}"
        self.claim = (
            f"SET @djc_token = %s; INSERT INTO {HOLDS} (token, field, `key`, quantity, note, "
            "actor, expires_at, created_at, sold, state) "
            "SELECT IF(LAST_INSERT_ID(1), @djc_token, NULL), %s, %s, %s, %s, %s, "
            f"{later}, {now}, 0, {HELD} ON DUPLICATE KEY UPDATE "
            f"token = IF(LAST_INSERT_ID(0), NULL, {HOLDS}.token); "
            f"{mysql.MADE.replace('SELECT 1 FROM DUAL', f'SELECT {ends} FROM {HOLDS}')} "
            "AND token = @djc_token"
        )
        row = f"SELECT token, field, `key`, quantity FROM {HOLDS} WHERE token = @djc_token"
        changed = f"{row} AND ROW_COUNT() > 0"
        self.commit = (
            f"SET @djc_token = %s; UPDATE {HOLDS} SET state = {COMMITTED}, sold = quantity "
            f"WHERE {running}; {changed}"
        )
        self.commit_some = (
            f"SET @djc_sold = %s, @djc_token = %s; UPDATE {HOLDS} SET state = {COMMITTED}, "
            f"sold = @djc_sold WHERE {running} AND quantity >= %s; {changed}"
        )
        self.release = (
            f"SET @djc_token = %s; UPDATE {HOLDS} SET state = {RELEASED} "
            f"WHERE {_MINE_IN_MYSQL}; {changed}"
        )
        self.extend = (
            f"SET @djc_ends = GREATEST({later}, {later}), @djc_token = %s; UPDATE {HOLDS} "
            f"SET expires_at = GREATEST(expires_at, @djc_ends) WHERE {running}; "
            f"SELECT {ends} FROM {HOLDS} WHERE token = @djc_token AND ROW_COUNT() > 0"
        )
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {mysql.TEXT} PATH '$[0]', "
            "d BIGINT PATH '$[1]')) AS u"
        )
        self.expire = Together(
            f"{mysql.ROOM}SELECT JSON_ARRAYAGG(JSON_ARRAY(d.token, d.quantity)) INTO @djc_rows "
            f"FROM (SELECT token, quantity FROM {HOLDS} WHERE field = %s AND `key` = %s "
            f"AND state = {HELD} AND expires_at <= {now} ORDER BY expires_at LIMIT %s "
            f"FOR UPDATE SKIP LOCKED) d; UPDATE {gone} STRAIGHT_JOIN {HOLDS} t {mysql.BY_KEY} "
            f"ON t.token = u.k SET t.state = {EXPIRED}; SELECT u.d FROM {gone}"
        )

    def _delete_some(self, spelling: Spelling, which: str) -> str:  # noqa: ARG002
        return mysql.delete_some(HOLDS, which, "1", named_by={"token": mysql.TEXT})


# The row comes first. So a second transaction with the same token takes nothing, and the total is
# locked as briefly as possible.
FUNCTION = f"""
CREATE OR REPLACE FUNCTION django_counters_hold(
  t text, k text, q bigint, bound bigint, seconds float8, said text, whose text,
  OUT v bigint, OUT ends bigint)
{INDEXED} AS $body$
BEGIN
  INSERT INTO {HOLDS}
    (token, field, key, quantity, sold, state, note, actor, expires_at, created_at)
  VALUES (t, '', k, q, 0, 0, said, whose, CLOCK_TIMESTAMP() + make_interval(secs => seconds),
    CLOCK_TIMESTAMP())
  ON CONFLICT DO NOTHING
  RETURNING (EXTRACT(EPOCH FROM expires_at) * 1000000)::bigint INTO ends;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  v := django_counters_add(-q, bound, k);
  IF v IS NULL THEN
    DELETE FROM {HOLDS} h WHERE h.token = t;
  END IF;
END $body$
"""


class InPostgres(HoldStatements):
    """The same in PostgreSQL: a function keeps its plans."""

    take = "SELECT v, ends FROM django_counters_hold(%s, %s, %s, %s, %s, %s, %s)"


_OF_VENDOR: Mapping[str, type[HoldStatements]] = {"mysql": MysqlHolds, "postgresql": InPostgres}


def statements(using: str) -> HoldStatements:
    """Return the statements for a database. Opens no connection."""
    return _OF_VENDOR.get(connections[using].vendor, HoldStatements)(dialect_of(using))


_PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The time from a hold's expiry until its row is deleted. Until then its token can be repeated.
KEPT = timedelta(days=30)
#: The time from an active hold's expiry until it is reported as a drift.
LATE = timedelta(hours=1)


class HoldRequest(NamedTuple):
    """A quantity to hold, and the duration in seconds."""

    token: str
    label: str
    key: str
    quantity: int
    seconds: float
    note: str = ""
    actor: str = ""


class HoldRow(NamedTuple):
    """The row of a hold. ``age`` is in seconds; ``over``: whether it has expired."""

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
        """Return whether it is held and hasn't expired."""
        return self.state == HELD and not self.over


class Ended(NamedTuple):
    """A hold that has just ended."""

    token: str
    label: str
    key: str
    quantity: int


class SqlHolds:
    """Makes and ends rows of holds, in the caller's transaction if there is one."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = statements(using)
        self.at_once = bool(self._sql.take)
        self.waits_for_others = self._session.dialect.several_writers

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def take(self, request: HoldRequest, least: int) -> tuple[int, datetime] | None:
        """Hold a quantity of a named counter in one statement; return the value and the expiry.

        None, and nothing changed, if the token is in use or the total is below ``least``.
        """
        named = (request.token, request.key, request.quantity, least)
        params = (*named, request.seconds, request.note, request.actor)
        ((value, ends),) = self._run(self._sql.take, params)
        return None if value is None else (int(value), _moment(ends))

    def claim(self, request: HoldRequest) -> datetime | None:
        """Make a row and return its expiry; None if the token is in use.

        Waits for a transaction that is making the same row.
        """
        named = (request.token, request.label, request.key, request.quantity)
        params = (*named, request.note, request.actor, request.seconds)
        rows = self._run(self._sql.claim, params)
        return _moment(rows[0][0]) if rows else None

    def find(self, token: str) -> HoldRow | None:
        """Return the row of a hold."""
        rows = self._session.run(self._sql.find, (token,), writes=False)
        return _row(rows[0]) if rows else None

    def held(self, label: str, key: str, limit: int) -> list[HoldRow]:
        """Return the holds of a counter, the first to expire first."""
        rows = self._session.run(self._sql.held, (label, key, limit), writes=False)
        return [_row(row) for row in rows]

    def quantities(self, label: str, key: str, actor: str) -> tuple[int, int]:
        """Return the unexpired held quantities of a counter: the actor's, and the total."""
        rows = self._session.run(self._sql.quantities, (actor, label, key), writes=False)
        ((own, total),) = rows
        return int(own or 0), int(total or 0)

    def left(self) -> tuple[int, int]:
        """Return how many holds are active, and how many name an actor."""
        ((active, named),) = self._session.run(self._sql.left, (), writes=False)
        return int(active), int(named)

    def commit(self, token: str, quantity: int | None) -> Ended | None:
        """End a running hold of at least this quantity as sold."""
        if quantity is None:
            return self._ended(self._sql.commit, (token,))
        return self._ended(self._sql.commit_some, (quantity, token, quantity))

    def release(self, token: str) -> Ended | None:
        """End a hold."""
        return self._ended(self._sql.release, (token,))

    def extend(self, token: str, seconds: float) -> datetime | None:
        """Extend a running hold to at least so many seconds from now; return its expiry."""
        rows = self._run(self._sql.extend, (seconds, seconds, token))
        return _moment(rows[0][0]) if rows else None

    def overdue(self, label: str, key: str) -> bool:
        """Return whether a counter has active holds that have expired."""
        return bool(self._session.run(self._sql.overdue, (label, key), writes=False))

    def expire(self, label: str, key: str, limit: int) -> list[int]:
        """End expired holds of a counter; return their quantities."""
        return [int(q) for (q,) in self._run(self._sql.expire, (label, key, limit))]

    def due(self, limit: int) -> list[tuple[str, str]]:
        """Return the counters of expired holds, the oldest first."""
        rows = self._session.run(self._sql.due, (limit,), writes=False)
        return [(str(label), str(key)) for label, key in rows]

    def forgotten(self) -> list[tuple[str, str, int]]:
        """Return the counters of active holds that expired over an hour ago, and the quantities."""
        late = (LATE.total_seconds(),)
        rows = self._session.run(self._sql.forgotten, late, writes=False)
        return [(str(label), str(key), int(quantity)) for label, key, quantity in rows]

    def prune(self) -> int:
        """Delete ended holds that expired over 30 days ago, in batches; return their number."""
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
    """Reads the counters of one table together with their holds."""

    def __init__(self, table: Table, using: str) -> None:
        super().__init__(table, using)
        self._sql = statements(using).stock.format(self._reads.one)

    def stock(self, label: str, text: str, key: Hashable) -> tuple[int | None, int, int]:
        """Return the value of a counter, None if it has none; the quantities held and sold."""
        params = (label, text, *self._reading(key))
        ((held, sold, total, pending),) = self._session.run(self._sql, params, writes=False)
        is_there = total is not None or pending is not None
        value = int(total or 0) + int(pending or 0) if is_there else None
        return value, int(held or 0), int(sold or 0)


def _moment(microseconds: int) -> datetime:
    return clock.shown(_EPOCH + timedelta(microseconds=int(microseconds)))


def _row(row: Sequence[Any]) -> HoldRow:
    token, label, key, quantity, sold, state, note, actor, age, ends, over = row
    columns = (int(quantity), int(sold), state, note, actor, int(age) / 1_000_000)
    return HoldRow(token, label, key, *columns, _moment(ends), bool(over))
