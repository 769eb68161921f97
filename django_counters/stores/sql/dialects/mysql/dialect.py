"""The dialect of MySQL and MariaDB."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

from django.db import Error

from django_counters.errors import InvalidConfiguration
from django_counters.measure import Kind, RowColumn
from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.cells import Cells, names
from django_counters.stores.sql.dialects.claims import POSITIONS, LandingStatements, Positions
from django_counters.stores.sql.dialects.mysql import statements
from django_counters.stores.sql.dialects.spelling import Spelling, Table, Together, plain
from django_counters.stores.sql.dialects.totals import Fold, Rights, SpreadStatements, Totals

_POSTGRESQL = "on MySQL and MariaDB. Use PostgreSQL"
#: What isn't offered, and the remedy.
LACKS: Mapping[str, str] = MappingProxyType(
    {
        "ledger": f"The ledger isn't offered {_POSTGRESQL}, or the strategy 'exact' or 'sharded'.",
        "detour": (
            f"A cached counter can't go to the ledger {_POSTGRESQL}, or set ON_REDIS_DOWN to "
            "'exact' or 'raise'."
        ),
        "history": f"HISTORY isn't offered {_POSTGRESQL}, or count by period with PER.",
        "conditions": f"A condition isn't offered {_POSTGRESQL}, or remove the option.",
    }
)


class Absent:
    """Stand in place of a topic's statements, and refuse each of them."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # Python asks what it is.
            raise AttributeError(name)
        raise InvalidConfiguration(problem=LACKS[self._what])


def absent(what: str) -> Any:
    """Return the statements of a topic that isn't offered."""
    return Absent(what)


#: What the statements need: SKIP LOCKED, JSON_TABLE and collations that compare bytes.
OLDEST_MYSQL, OLDEST_MARIADB = (8, 0, 19), (10, 6)
REDUCED = (
    "TRUNCATE, and whoever may drop triggers, passes the guard of adjustments.",
    "A shard belongs to a connection: two connections may have one, and wait for each other.",
    "Where a transaction makes the total of a batch, and is rolled back while several wait to make "
    "the same, these end in a deadlock; on MySQL so does any new total or shard.",
    "A read beside a rollup may miss for a moment what is just rolled up, on a server under load.",
    "Landings and adjustments, and on MySQL rollups, wait for what others hold as long as "
    "innodb_lock_wait_timeout says.",
)


def unfit(connection: Any) -> Iterator[str]:
    """What keeps counters from being right on a connection, as sentences."""
    connection.ensure_connection()
    version = tuple(connection.mysql_version)
    oldest = OLDEST_MARIADB if connection.mysql_is_mariadb else OLDEST_MYSQL
    if version < oldest:
        yield f"Counters need version {_dotted(oldest)} or newer; this is {_dotted(version)}."
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@sql_mode, @@default_storage_engine, @@innodb_rollback_on_timeout")
        modes, engine, takes_back = cursor.fetchone()
        # Its name depends on the server.
        cursor.execute(
            "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')"
        )
        levels = {level for _, level in cursor.fetchall()}
    if levels != {"READ-COMMITTED"}:
        yield (
            "Counters need isolation_level 'read committed' in OPTIONS; "
            f"this is {', '.join(sorted(levels))}."
        )
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(modes.split(",")):
        yield "Counters need STRICT_TRANS_TABLES in sql_mode: what does not fit would be cut off."
    if engine != "InnoDB":
        yield f"Counters need tables of InnoDB; new ones are of {engine}."
    if takes_back:
        yield (
            "Counters need innodb_rollback_on_timeout off: a lock that is not given in time would "
            "take back what came before it."
        )
    if not _takes_several(connection):
        yield "Counters need a driver that sends several statements in one text."


def _takes_several(connection: Any) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1; SELECT 2")
            return bool(cursor.nextset())
    except Error:
        return False


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


_INTO = f"INSERT INTO {POSITIONS} (source, part, position, timeline, moved_at)"
_ONE = "source = %s AND part = %s"


class MysqlPositions(Positions):
    """Reads, holds and moves rows of positions."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        now = spelling.clock
        # Looked at first: to insert a row that is there would wait for whoever holds it.
        self.make = (
            "SET @djc_source = %s, @djc_part = %s; "
            f"SELECT COUNT(*) INTO @djc_there FROM {POSITIONS} "
            "WHERE source = @djc_source AND part = @djc_part; "
            f"{_INTO} SELECT @djc_source, @djc_part, '', '', {now} FROM DUAL "
            f"WHERE @djc_there = 0 ON DUPLICATE KEY UPDATE source = {POSITIONS}.source; "
            f"{statements.FOUND}"
        )
        given = spelling.rows(
            source="text", part="text", before="text", after="text", line="text"
        ).replace("%s", "@djc_rows")
        there = "p.source = u.source AND p.part = u.part"
        moves = (
            f"{_exact('p.position')} = {_exact('u.`before`')} "
            f"AND {_exact('p.timeline')} IN ('', {_exact('u.line')})"
        )
        # A row that is to begin is made at its place, and then is moved from there like others.
        self.move = Together(
            f"{statements.ROOM}SET @djc_rows = %s; "
            f"{_INTO} SELECT u.source, u.part, '', u.line, {now} FROM {given} "
            f"WHERE u.`before` = '' ORDER BY u.source, u.part "
            f"ON DUPLICATE KEY UPDATE source = {POSITIONS}.source; "
            "SELECT JSON_ARRAYAGG(JSON_ARRAY(p.source, p.part, u.`after`, u.line)) INTO @djc_moved "
            f"FROM {given} STRAIGHT_JOIN {POSITIONS} p {statements.BY_KEY} ON {there} "
            f"WHERE {moves} FOR UPDATE; "
            f"UPDATE {self._moved()} STRAIGHT_JOIN {POSITIONS} p {statements.BY_KEY} ON {there} "
            f"SET p.position = u.`after`, p.timeline = u.line, p.moved_at = {now}; "
            f"SELECT u.source, u.part FROM {self._moved()}"
        )
        self.put = (
            f"{_INTO} VALUES (%s, %s, %s, %s, {now}) ON DUPLICATE KEY UPDATE "
            "position = VALUES(position), timeline = VALUES(timeline), moved_at = VALUES(moved_at)"
            "; SELECT 1"
        )
        self.label = (
            "SET @djc_line = %s, @djc_source = %s, @djc_part = %s; "
            f"UPDATE {POSITIONS} SET timeline = @djc_line "
            "WHERE source = @djc_source AND part = @djc_part; "
            f"SELECT position FROM {POSITIONS} WHERE source = @djc_source AND part = @djc_part"
        )
        self.relabel = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE {_ONE} AND {_exact('timeline')} "
            f"IN ({_exact('%s')}, {_exact('%s')}); {statements.FOUND}"
        )
        self.touch = (
            f"{_INTO} VALUES (%s, %s, '', '', {now}) "
            f"ON DUPLICATE KEY UPDATE moved_at = VALUES(moved_at); SELECT 1"
        )

    @staticmethod
    def _moved() -> str:
        columns = ("source", "part", "`after`", "line")
        each = (f"{name} {statements.TEXT} PATH '$[{n}]'" for n, name in enumerate(columns))
        return f"JSON_TABLE(@djc_moved, '$[*]' COLUMNS ({', '.join(each)})) AS u"


def _exact(text: str) -> str:
    """A text as bytes: the collation of the database may take different ones for equal."""
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


class MysqlCells(Cells):
    """Adds to cells, by a statement for each kind."""

    def add(self, kind: Kind) -> str:
        """Add rows of a kind."""
        return self._insert(kind, ", ".join(f"u.{letter}" for letter in kind.letters))

    def delete_some(self, table: str, columns: Sequence[RowColumn], which: str) -> str:
        """Delete some rows of a table with this primary key."""
        return statements.delete_some(table, which, "1", named_by=statements.named_by(columns))

    def drain(self, kind: Kind) -> str:
        """Delete some unlocked rows of a kind, and return them."""
        columns = names(kind.columns)
        order = ", ".join(f"`{name}`" for name in columns)
        return self._in.delete_some(kind.table, f"ORDER BY {order} LIMIT %s", ", ".join(columns))

    def _insert(self, kind: Kind, columns: str) -> str:
        quoted = [f"`{name}`" for name in names(kind.columns)]
        # The number that is added is the last one.
        same = quoted[-1 if kind.adds else 0]
        again = f"{same} = {kind.table}.{same}" + (f" + VALUES({same})" if kind.adds else "")
        return (
            f"INSERT INTO {kind.table} ({', '.join(quoted)}) SELECT {columns} "
            f"FROM {self.given(kind)} ON DUPLICATE KEY UPDATE {again}"
        )


class MysqlLanding(LandingStatements):
    """The statements that bring generations of increments into the totals."""

    may_ask = "SELECT true"
    # A copy that was put back elsewhere has another host, port or folder.
    whole = part = "SELECT CONCAT_WS(' ', @@hostname, @@port, @@datadir, DATABASE())"


_TYPES = {
    "text": statements.TEXT,
    "timestamptz": "DATETIME(6)",
    "numeric": "DECIMAL(40, 0)",
}
_CASTS = {
    "bigint": "SIGNED",
    "text": "CHAR",
    "timestamptz": "DATETIME(6)",
    "uuid": "CHAR",
    "numeric": "DECIMAL(40, 0)",
}


class MySQL(Dialect):
    """MySQL 8.0.19 and MariaDB 10.6, and newer, where statements see what others have committed.

    Texts are of several statements, and their rows are those of the last one: no statement says
    what it has written.
    """

    answers_often = True
    # MariaDB alone can, in whole seconds. It stays set in the session, for transactions alone.
    ends_idle = (
        "SET @djc_idle = 0 "
        "/*M!100300 , SESSION idle_transaction_timeout = CAST(CEIL(%s / 1000) AS SIGNED) */; "
        "SELECT 1"
    )
    every = ("",)
    lacks = LACKS
    reduced = REDUCED

    OVERFLOWED = ("1264", "1690")
    TIMED_OUT = ("1205", "3572")
    BUSY = ("1205", "3572", "1213", "1969", "3024", "1317")
    READ_ONLY = ("1290", "1792", "1836")
    LOST = ("2006", "2013", "2055", "1053", "1927", "4031")
    CANCELLED = ("1317", "1969", "3024")
    UNSERIALIZABLE = ("1213", "1020")

    now = clock = "UTC_TIMESTAMP(6)"
    ago, later = f"{now} - INTERVAL %s SECOND", f"{now} + INTERVAL %s SECOND"
    # Whoever has waited for a row asks for it anew: nothing but SYSDATE goes on. It is local time,
    # which may be of one hour twice: no more than the time that has passed is taken from it.
    microseconds = (
        "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) "
        "+ TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))"
    )

    # Whoever held a row in share mode, and then changes it, could wait in a circle.
    kept = " FOR UPDATE"
    array, gathered = "JSON_ARRAY", "JSON_ARRAYAGG"

    claims = statements.MysqlClaims
    ledger = "django_counters.ledger.sql.NoLedger"

    def __init__(self) -> None:
        super().__init__()
        self.conditions = absent("conditions")
        self.cells = MysqlCells(self)
        self.landing = MysqlLanding(self)
        self.positions = MysqlPositions(self)

    unfit = staticmethod(unfit)

    def code(self, error: Exception) -> str:
        """The number of an error; empty where the driver has none."""
        # Django makes some an IntegrityError of its own, which has no cause but the number.
        number, *_ = getattr(error.__cause__, "args", None) or error.args or ("",)
        return str(number or "") if isinstance(number, int) else ""

    def ended_transaction(self, error: Exception) -> bool:
        """Whether the server has taken back the whole transaction, as in a deadlock."""
        return self.code(error) in ("1213", "1206")

    def typed(self, given: str, kind: str) -> str:
        """A parameter that says its type."""
        return f"CAST({given} AS {_CASTS[kind]})"

    def as_text(self, given: str) -> str:
        """A value as text."""
        return f"CAST({given} AS CHAR)"

    def literal(self, text: str) -> str:
        """A text within a statement that has parameters."""
        return super().literal(text.replace("\\", "\\\\"))

    def ordered(self, key: str) -> str:
        """The order of bytes, which is that of the columns of keys."""
        return f"ORDER BY CAST({key} AS BINARY)"

    def since_1970(self, moment: str) -> str:
        """A moment in microseconds since 1970."""
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {moment})"

    def among(self, kind: str = "", given: str = "%s") -> str:  # noqa: ARG002 - values have types
        """The condition that a column is one of many, which the driver writes out."""
        return f"IN {given}"

    def rows(self, **columns: str) -> str:
        """The rows of one parameter."""
        each = (
            f"`{name}` {self._column(kind)} PATH '$[{number}]'"
            for number, (name, kind) in enumerate(columns.items())
        )
        return f"JSON_TABLE(%s, '$[*]' COLUMNS ({', '.join(each)})) AS u"

    def each(self, kind: str) -> str:
        """The rows of an array, which the driver writes out."""
        return f"JSON_TABLE(JSON_ARRAY%s, '$[*]' COLUMNS (k {self._column(kind)} PATH '$')) AS u"

    def pairs(self, column: str) -> str:
        """The rows of pairs."""
        each = "a BIGINT PATH '$[0]', b BIGINT PATH '$[1]'"
        return f"JSON_TABLE({column}, '$[*]' COLUMNS ({each})) AS u"

    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some rows that nobody holds."""
        return statements.delete_some(table, which, returning)

    def keys(self, keys: Sequence[object]) -> tuple[object, ...]:
        """A list in parentheses; an empty one would be none."""
        return tuple(key.hex if isinstance(key, UUID) else key for key in keys) or (None,)

    def columns(self, rows: Sequence[Sequence[Any]]) -> tuple[str]:
        """An array of rows, as JSON."""
        return (json.dumps(rows, default=str),)

    def sums(self, sums: Mapping[Any, int]) -> tuple[str]:
        """The same, of pairs."""
        return self.columns(list(sums.items()))

    def moment(self, moment: datetime) -> Any:
        """As columns hold it: in UTC, without its zone."""
        return plain(moment)

    def token(self, token: UUID) -> Any:
        """As columns hold it."""
        return plain(token)

    def whole(self, number: str) -> str:
        """A sum as a number of 64 bits."""
        return f"CAST({number} AS SIGNED)"

    def totals(self, table: Table) -> Totals:
        """The statements that change totals in place."""
        made = statements.MysqlNamedTotals if table.inserts else statements.MysqlTotals
        return made(self, table)

    def spread(self, table: Table, cap: int) -> SpreadStatements:
        """The statements that let increments wait in rows of their own."""
        return statements.MysqlSpread(self, table, cap)

    def rights(self, table: Table, cap: int) -> Rights:
        """The statements that let increments wait where there is a floor."""
        return statements.MysqlRights(self, table, statements.MysqlSpread(self, table, cap))

    def fold(self, table: Table, key_type: str) -> Fold:
        """The statements of a rollup."""
        return statements.MysqlFold(self, table, key_type)

    @staticmethod
    def _column(kind: str) -> str:
        """The type of a column of given rows."""
        if kind in ("int", "bigint", "smallint", "integer"):
            return "BIGINT"
        if "char" in kind:
            return kind
        return _TYPES.get(kind, "VARCHAR(255)" if kind == "uuid" else "BIGINT")
