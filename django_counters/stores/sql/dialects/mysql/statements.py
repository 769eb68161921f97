"""The statements of MySQL and MariaDB, where they differ from those of other databases."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django_counters.effects import kinds
from django_counters.measure import RowColumn
from django_counters.stores.sql.dialects import claims
from django_counters.stores.sql.dialects import totals as standard
from django_counters.stores.sql.dialects.spelling import (
    HORIZON,
    TOKENS,
    TOTAL,
    Either,
    Spelling,
    Together,
    plain,
)

# Waiting.

#: After a table: rows that are named are found by their primary key. Of a small table the server
#: would read all rows, and hold or wait for each.
BY_KEY = "FORCE INDEX (PRIMARY)"


#: Before a statement that waits for no lock. For MySQL it is a comment.
AT_ONCE = "/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ "


# Rows that are deleted and returned: held first, by their primary keys.

#: What is gathered has room: MariaDB cuts it off after a megabyte, MySQL a list after a kilobyte.
ROOM = "SET group_concat_max_len = 4294967295; "
#: A column of JSON_TABLE has the character set of the database, which may not have those of a key.
TEXT = "VARCHAR(255) CHARACTER SET utf8mb4"
_KEY, _MOMENT, _NUMBER = TEXT, "DATETIME(6)", "BIGINT"
# Digits compare with a column of any collation.
_DIGITS = "VARCHAR(255)"


#: One row where the statement before has found one.
FOUND = "SELECT 1 FROM DUAL WHERE ROW_COUNT() > 0"
#: One row where it has inserted one, or has changed it, and has kept that.
MADE = f"{FOUND} AND LAST_INSERT_ID() = 1"


def named_by(columns: Iterable[RowColumn]) -> Mapping[str, str]:
    """Return the names of columns, with their types here."""
    types = {"text": _KEY, "timestamptz": _MOMENT}
    return {column.name: types.get(column.type, _NUMBER) for column in columns}


# The primary keys of tables of which some rows are deleted, beside those of kinds.
_NAMED_BY: Mapping[str, Mapping[str, str]] = {
    claims.POSITIONS: {"source": _KEY, "part": _KEY},
    TOKENS: {"digest": _DIGITS},
    claims.BATCHES: {"generation": _DIGITS},
    claims.SOURCES: {"source": _KEY, "slot": _NUMBER},
}


def _of_kind(table: str) -> Mapping[str, str]:
    return next(named_by(kind.keys) for kind in kinds() if kind.table == table)


def delete_some(
    table: str, which: str, returning: str, named_by: Mapping[str, str] | None = None
) -> str:
    """Delete some rows, and tell columns of their primary key: those that nobody holds.

    What others insert after they were found stays.

    Args:
        named_by: the columns of the primary key and their types, for the table of another app.
    """
    named = named_by or _NAMED_BY.get(table) or _of_kind(table)
    held = ", ".join(f"`{name}`" for name in named)
    kept = ", ".join(_kept(f"d.`{name}`", name) for name in named)
    each = ", ".join(f"`{n}` {kind} PATH '$[{i}]'" for i, (n, kind) in enumerate(named.items()))
    gone = f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS ({each})) AS u"
    same = " AND ".join(f"t.`{name}` = {_given(name)}" for name in named)
    asked = [name.strip() for name in returning.split(",")]
    told = ", ".join(_given(name) if name in named else name for name in asked)
    return Together(
        f"{ROOM}SELECT JSON_ARRAYAGG(JSON_ARRAY({kept})) INTO @djc_rows FROM "
        f"(SELECT {held} FROM {table} {which} FOR UPDATE SKIP LOCKED) d; "
        f"DELETE t FROM {gone} STRAIGHT_JOIN {table} t {BY_KEY} ON {same}; "
        f"SELECT {told} FROM {gone}"
    )


def _kept(column: str, name: str) -> str:
    return f"HEX({column})" if name == "digest" else column


def _given(name: str) -> str:
    return "UNHEX(u.`digest`)" if name == "digest" else f"u.`{name}`"


# Totals. No statement returns what it has written, so the next one of the text does:
# ``LAST_INSERT_ID(expression)`` keeps a number of 64 bits for it, without a sign.

_LEAST, _MOST = -(2**63), 2**63 - 1
#: The number that was kept.
KEPT = "CAST(LAST_INSERT_ID() AS SIGNED)"


class MysqlTotals(standard.Totals):
    """Changes totals whose rows others insert."""

    def _changing(self, comparison: str, by: str, limit: str, asks: bool, also: str) -> str:
        """Add, where the row exists and allows it."""
        table = self._table
        # The column may be one without a sign.
        new = f"CAST(LAST_INSERT_ID(CAST({table.value} AS SIGNED) + {by}) AS SIGNED)"
        touched = f", {table.touched} = {self._in.now}" if table.touched else ""
        waits = f" AND NOT {self._in.waits_for(table)}" if asks else ""
        return (
            f"UPDATE {table.name} SET {table.value} = {new}{touched} "
            f"WHERE {table.value} {comparison} {limit} AND {table.key} = %s{waits}{also}; "
            f"SELECT {KEPT} FROM DUAL WHERE ROW_COUNT() > 0"
        )


class MysqlNamedTotals(standard.NamedTotals):
    """Changes totals, and makes those that are missing."""

    def _changing(self, comparison: str, by: str, limit: str, asks: bool, also: str) -> str:  # noqa: ARG002 - no actor counts in one statement
        """Add, or insert where there is no row yet, if the value allows it.

        An INSERT waits for nobody. If the first transaction to insert a row rolls back, all that
        wait to insert it hold the gap, and each waits for the others.
        """
        table = self._table
        given = f"SET @djc_by = {by}, @djc_bound = {limit}, @djc_key = %s; "
        pending, (key,) = table.pending, table.pending.owner
        waiting = f"SELECT 1 FROM {pending.name} s WHERE s.{key} = @djc_key"
        waits = f" AND NOT EXISTS ({waiting})" if asks else ""
        admits = f"{table.value} {comparison} @djc_bound{waits}"
        change = (
            f"{given}UPDATE {table.name} SET {table.touched} = {self._in.now}, "
            f"{table.value} = CAST(LAST_INSERT_ID({table.value} + @djc_by) AS SIGNED) "
            f"WHERE {table.key} = @djc_key AND {admits}; "
            f"SELECT {KEPT} FROM DUAL WHERE ROW_COUNT() > 0"
        )
        # What is refused needs no lock: others hold the row of a stock that is sold out.
        looks = (
            f"{given}SET @djc_refused = NULL; SELECT 1 INTO @djc_refused FROM {table.name} "
            f"WHERE {table.key} = @djc_key AND NOT ({admits}); "
        )
        # A row is inserted only with a value that its bounds admit.
        there = f"SELECT 1 FROM {table.name} p WHERE p.{table.key} = @djc_key"
        asked = f"(0 {comparison} @djc_bound OR EXISTS ({there})){waits}" if asks else "true"
        made = self._made(comparison, f"@djc_refused IS NULL AND {asked}")
        return Either(change, f"{looks}{AT_ONCE}{made}", f"{looks}{made}")

    def _made(self, comparison: str, asked: str) -> str:
        """Insert, or add to what others have inserted meanwhile.

        Two rows are affected where one was changed; one where it was inserted, and then 1 is kept,
        or left as it was, and then 0 is kept.
        """
        table = self._table
        value, touched = f"{table.name}.{table.value}", f"{table.name}.{table.touched}"
        allowed = f"{value} {comparison} @djc_bound"
        return (
            f"INSERT INTO {table.name} ({table.key}, {table.value}, {table.touched}) "
            "SELECT @djc_key, IF(LAST_INSERT_ID(1), @djc_by, @djc_by), "
            f"{self._in.now} FROM DUAL WHERE {asked} ON DUPLICATE KEY UPDATE "
            # From left to right: what is asked of the value comes before the value changes.
            f"{touched} = IF({allowed}, VALUES({table.touched}), {touched}), "
            f"{value} = IF({allowed}, CAST(LAST_INSERT_ID({value} + @djc_by) AS SIGNED), "
            f"IF(LAST_INSERT_ID(0), {value}, {value})); "
            f"SELECT IF(ROW_COUNT() = 2, {KEPT}, @djc_by) FROM DUAL "
            "WHERE ROW_COUNT() = 2 OR (ROW_COUNT() = 1 AND LAST_INSERT_ID() = 1)"
        )

    @cached_property
    def add_many(self) -> str:
        """Insert or add many. A sum that does not fit is an error."""
        table, (owner,) = self._table, self._table.pending.owner
        value = f"{table.name}.{table.value}"
        given = self._in.rows(k="text", d="bigint").replace("%s", "@djc_rows")
        shards = (
            f"SELECT SUM(w.{table.pending.value}) FROM {table.pending.name} w "
            f"WHERE w.{owner} = t.{table.key}"
        )
        return Together(
            "SET @djc_rows = %s; "
            f"INSERT INTO {table.name} ({table.key}, {table.value}, {table.touched}) "
            f"SELECT u.k, u.d, {self._in.now} FROM {given} {self._in.ordered('u.k')} "
            f"ON DUPLICATE KEY UPDATE {table.touched} = VALUES({table.touched}), "
            f"{value} = {value} + VALUES({table.value}); "
            # A value that is wider than its column is an error here, too.
            f"SELECT v.k, IF(v.v BETWEEN {_LEAST} AND {_MOST}, v.v, {_MOST} + ABS(SIGN(v.v))) "
            f"FROM (SELECT t.{table.key} AS k, t.{table.value} + COALESCE(({shards}), 0) AS v "
            f"FROM {given} "
            f"STRAIGHT_JOIN {table.name} t ON t.{table.key} = u.k) v"
        )


# Increments that wait in rows of their own: each connection has one of them.


class MysqlSpread(standard.SpreadStatements):
    """Adds to the row that has the number of the connection, or to the one that is wanted."""

    @cached_property
    def add(self) -> str:
        """Add, or insert where there is no row yet. See `MysqlNamedTotals` for whom it waits."""
        pending = self._table.pending
        marks = ", ".join(self.owned_by())
        given = (
            f"{self.given()}, @djc_low = %s, @djc_high = %s, @djc_fits = NULL; "
            f"SELECT 1 INTO @djc_fits FROM ({self.source()}) t "
            f"WHERE t.total + ({self.others()}) BETWEEN @djc_low AND @djc_high; "
        )
        change = (
            f"UPDATE {pending.name} p SET p.{pending.value} = p.{pending.value} + @djc_by "
            f"WHERE {self.owned()} AND p.{pending.number} = @djc_row AND @djc_fits; "
        )
        make = (
            f"INSERT INTO {pending.name} ({', '.join(pending.owner)}, {pending.number}, "
            f"{pending.value}) SELECT {marks}, @djc_row, @djc_by FROM DUAL WHERE @djc_fits "
            f"ON DUPLICATE KEY UPDATE {pending.name}.{pending.value} = "
            f"{pending.name}.{pending.value} + @djc_by; {self.answer}"
        )
        return Either(f"{given}{change}{self.answer}", f"{given}{AT_ONCE}{make}", f"{given}{make}")

    def arrange(
        self,
        by: int,
        wanted: int | None,
        key: Hashable,
        address: tuple[Any, ...],
        floor: int | None = None,  # noqa: ARG002 - see `MysqlRights`
    ) -> tuple[Any, ...]:
        """The parameters of ``add``."""
        low, high = self._table.capacity
        limits = (low - min(by, 0), high - max(by, 0))
        return (by, wanted, key, *address, *limits, *self.again(key))

    def again(self, key: Hashable) -> tuple[Hashable, ...]:
        """The key, as often as a text asks for a total by it: a variable has not its type."""
        return (key, key) if self._table.value and not self._table.inserts else ()

    def given(self) -> str:
        """Name the parameters. Parameters: by, the number of a row, key, address."""
        owners = "".join(f", {name} = %s" for name in self.owned_by())
        return (
            f"SET @djc_by = %s, @djc_row = COALESCE(%s, CONNECTION_ID() %% {self.cap}), "
            f"@djc_key = %s{owners}"
        )

    def owned_by(self) -> list[str]:
        """What the columns of ``owner`` are compared with."""
        return [f"@djc_owner{number}" for number, _ in enumerate(self._table.pending.owner)]

    def owned(self, alias: str = "p") -> str:
        """The condition that a row belongs to the counter."""
        pairs = zip(self._table.pending.owner, self.owned_by(), strict=True)
        return " AND ".join(f"{alias}.{column} = {name}" for column, name in pairs)

    def others(self) -> str:
        """What waits for the counter."""
        pending = self._table.pending
        return (
            f"SELECT COALESCE(SUM(p.{pending.value}), 0) FROM {pending.name} p WHERE {self.owned()}"
        )

    def source(self) -> str:
        """The total, where there is a column for it."""
        return self._source().replace("%s", self.key)

    @property
    def key(self) -> str:
        """What keys are compared with."""
        return "@djc_key" if self._table.inserts else "%s"

    @property
    def answer(self) -> str:
        """The value, as others see it too, and the number of the row, where one was changed."""
        return (
            f"SELECT ({self.others()}) + COALESCE(({self.source()}), 0), @djc_row "
            "FROM DUAL WHERE ROW_COUNT() > 0"
        )


class MysqlRights(standard.Rights):
    """Takes from a row that nobody holds and that has enough: at best that of the connection.

    Whoever finds none holds none: so it may wait for the total, then for all rows.
    """

    _spread: MysqlSpread

    @cached_property
    def take(self) -> str:
        """Take away. Without a transaction a row that was found is asked again when it is held."""
        pending, spread = self._table.pending, self._spread
        enough = f"{spread.owned()} AND p.{pending.value} >= -@djc_by AND NOT @djc_strange"
        found = (
            f"SELECT p.{pending.number} INTO @djc_found FROM {pending.name} p WHERE {enough} "
            f"AND p.{pending.number}"
        )
        free = f"LIMIT 1 FOR UPDATE{self._in.skipping}; "
        return (
            f"{spread.given()}, @djc_floor = %s, @djc_found = NULL; "
            # SET would hold all that it reads, in share mode; a SELECT holds nothing.
            f"{self._looks()}; "
            f"{found} >= @djc_row {free}{found} >= 0 AND @djc_found IS NULL {free}"
            "SET @djc_row = @djc_found; "
            f"UPDATE {pending.name} p SET p.{pending.value} = p.{pending.value} + @djc_by "
            f"WHERE {enough} AND p.{pending.number} = @djc_row; {spread.answer}"
        )

    def _looks(self) -> str:
        """Whether rows have to be shared anew before one is taken from.

        They are strange where another strategy has left one below zero, or the total below the
        floor. Where fewer than half of those that there may be have enough, writers
        would meet at these.
        """
        table, pending, spread = self._table, self._table.pending, self._spread
        total = f"SELECT t.{table.value} FROM {table.name} t WHERE t.{table.key} = {spread.key}"
        have = f"COALESCE(SUM(p.{pending.value}), 0) + ({spread.source()}) - @djc_floor"
        rich = f"COALESCE(SUM(p.{pending.value} >= -@djc_by), 0)"
        return (
            f"SELECT COALESCE(MIN(p.{pending.value}) < 0, false) "
            f"OR COALESCE(({total}), 0) < @djc_floor "
            f"OR 2 * {rich} < LEAST({spread.cap}, ({have}) DIV -@djc_by) INTO @djc_strange "
            f"FROM {pending.name} p WHERE {spread.owned()} AND p.{pending.number} >= 0"
        )

    def arrange(
        self, by: int, floor: int, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        again = self._spread.again(key)
        return (by, None, key, *address, floor, *again[:1], *again)

    @cached_property
    def gather(self) -> str:
        """Take rows of one counter away, waiting for those that somebody holds."""
        pending, spread = self._table.pending, self._spread
        owners = ", ".join(f"{name} = %s" for name in spread.owned_by())
        gone = "JSON_TABLE(@djc_rows, '$[*]' COLUMNS (n BIGINT PATH '$[0]', d BIGINT PATH '$[1]'))"
        return (
            f"{ROOM}SET {owners}, @djc_most = %s; "
            f"SELECT JSON_ARRAYAGG(JSON_ARRAY(p.{pending.number}, p.{pending.value})) "
            f"INTO @djc_rows FROM {pending.name} p WHERE {spread.owned()} "
            f"AND p.{pending.number} >= 0 AND p.{pending.value} <= @djc_most FOR UPDATE; "
            f"DELETE p FROM {gone} AS u STRAIGHT_JOIN {pending.name} p {BY_KEY} "
            f"ON {spread.owned()} AND p.{pending.number} = u.n; SELECT u.d FROM {gone} AS u"
        )

    @cached_property
    def share(self) -> str:
        """Make rows of one counter with the same value, but those that are there already."""
        pending, spread = self._table.pending, self._spread
        owners = ", ".join(f"{name} = %s" for name in spread.owned_by())
        columns = ", ".join((*pending.owner, pending.number, pending.value))
        marks = ", ".join(spread.owned_by())
        numbers = "JSON_TABLE(@djc_rows, '$[*]' COLUMNS (n FOR ORDINALITY, k BIGINT PATH '$'))"
        # Nothing but a row that is there can be ignored: the numbers fit.
        return (
            f"SET {owners}, @djc_by = %s, @djc_rows = JSON_ARRAY%s; "
            f"INSERT IGNORE INTO {pending.name} ({columns}) "
            f"SELECT {marks}, u.k, @djc_by FROM {numbers} AS u; "
            f"SET @djc_made = ROW_COUNT(); SELECT 1 FROM {numbers} AS u WHERE u.n <= @djc_made"
        )


# Rollups.


class _Total(NamedTuple):
    """Where totals stand, and what a new one is: among the slots where they have no column."""

    table: str
    key: str
    value: str
    columns: str
    row: str
    there: str
    scope: str = ""


def _a_row_for_each(given: str) -> str:
    """As many rows as the statement before it has changed, of a list with one for each."""
    return (
        f"SET @djc_made = ROW_COUNT(); SELECT 1 FROM JSON_TABLE({given}, '$[*]' "
        "COLUMNS (n FOR ORDINALITY)) AS u WHERE u.n <= @djc_made"
    )


class MysqlFold(standard.Fold):
    """The statements of a rollup. A row is deleted when it is held, and has been read then."""

    @cached_property
    def ensure(self) -> str:
        """Make totals that are missing. Whoever changes one that is there is not waited for."""
        total, rows = self._total, self._rows
        there = f"SELECT 1 FROM {total.table} t WHERE {total.there}"
        # IGNORE ignores existing rows only: pending rows have the same keys, and NULL, which means
        # no keys, isn't one. It would become an empty key.
        return (
            f"{total.scope}SET @djc_keys = JSON_ARRAY%s; "
            f"INSERT IGNORE INTO {total.columns} SELECT {total.row} FROM {rows} "
            f"WHERE u.k IS NOT NULL AND NOT EXISTS ({there}) {self._in.ordered('u.k')}; "
            f"{_a_row_for_each('@djc_keys')}"
        )

    @cached_property
    def ensure_at_once(self) -> str:
        """Make totals that are missing; an error of a lock where somebody is just making one."""
        return self.ensure.replace("INSERT ", f"{AT_ONCE}INSERT ", 1)

    @cached_property
    def hold_one(self) -> str:
        """Lock one total. Its INSERT doesn't wait; see `MysqlNamedTotals`."""
        given, _, make = self.hold.partition("INSERT ")
        at_once = f"{given}{AT_ONCE}INSERT {make}"
        locked = Either(given + make.rpartition("; ")[2], at_once, self.hold)
        return locked if self._table.inserts else self.hold

    def _made(self, present: str) -> str:  # noqa: ARG002 - what becomes of one is of standard SQL
        """Hold all totals, and make those that are missing."""
        total, rows = self._total, self._rows
        kept = f"{total.table}.{total.value} = {total.table}.{total.value}"
        return Together(
            f"{total.scope}SET @djc_keys = JSON_ARRAY%s; INSERT INTO {total.columns} "
            f"SELECT {total.row} FROM {rows} {self._in.ordered('u.k')} "
            f"ON DUPLICATE KEY UPDATE {kept}; SELECT t.{total.key} FROM {rows} "
            f"STRAIGHT_JOIN {total.table} t {BY_KEY} ON {total.there} FOR UPDATE"
        )

    @cached_property
    def _rows(self) -> str:
        """The keys that are given, in a column ``k``."""
        return self._in.each("text").replace("%s", "@djc_keys").replace("JSON_ARRAY@", "@")

    @cached_property
    def _total(self) -> _Total:
        table, pending = self._table, self._table.pending
        if table.value:
            columns = f"{table.name} ({table.key}, {table.value}, {table.touched})"
            row, there = f"u.k, 0, {self._in.now}", f"t.{table.key} = u.k"
            return _Total(table.name, table.key, table.value, columns, row, there)
        kind, key, label = pending.owner
        return _Total(
            pending.name,
            key,
            pending.value,
            f"{pending.name} ({kind}, {label}, {key}, {pending.number}, {pending.value})",
            f"@djc_kind, @djc_name, u.k, {TOTAL}, 0",
            f"t.{kind} = @djc_kind AND t.{label} = @djc_name AND t.{key} = u.k "
            f"AND t.{pending.number} = {TOTAL}",
            "SET @djc_kind = %s, @djc_name = %s; ",
        )

    @cached_property
    def take(self) -> str:
        """Delete rows without a lock, and return their amounts."""
        number = self._table.pending.number
        half = f"p.{self._key} IN %s AND ABS(p.{number}) %% 2 = %s"
        return self._gone(half, self._in.skipping, "u.k, u.d, 1")

    @cached_property
    def gather(self) -> str:
        """Delete all rows, waiting for whoever holds some."""
        number = self._table.pending.number
        return self._gone(f"p.{number} >= 0 AND p.{self._key} IN %s", "", "u.k, u.d")

    def _gone(self, which: str, skipping: str, columns: str) -> str:
        """Delete rows; parameters: the scope, and those of the condition."""
        pending, scoped = self._table.pending, self._scoped()
        record = pending.record
        has_sums = "u.d" in columns
        value, d = (f", p.{pending.value}", ", d BIGINT PATH '$[2]'") if has_sums else ("", "")
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {TEXT} PATH '$[0]', "
            f"n BIGINT PATH '$[1]'{d})) AS u"
        )
        scope = "SET @djc_kind = %s, @djc_name = %s; " if record else ""
        for name in ("@djc_kind", "@djc_name") if record else ():
            scoped = scoped.replace("%s", name, 1)
        return Together(
            f"{ROOM}{scope}SELECT JSON_ARRAYAGG(JSON_ARRAY(p.{self._key}, p.{pending.number}"
            f"{value})) INTO @djc_rows FROM {pending.name} p "
            f"WHERE {scoped} AND {which} FOR UPDATE{skipping}; "
            f"DELETE p FROM {gone} STRAIGHT_JOIN {pending.name} p {BY_KEY} "
            f"ON {scoped} AND p.{self._key} = u.k AND p.{pending.number} = u.n; "
            f"SELECT {columns} FROM {gone}"
        )

    @cached_property
    def credit(self) -> str:
        """Add sums to totals. A row for each."""
        table, pending = self._table, self._table.pending
        kind, value = self._type if table.value else "text", table.value or pending.value
        rows = self._in.rows(k=kind, d="bigint").replace("%s", "@djc_rows")
        scope, also = "", ""
        if table.value:
            name, there = table.name, f"t.{table.key} = u.k"
            if table.touched:
                also += f", t.{table.touched} = {self._in.now}"
            if table.outside:
                also += f", t.{table.outside} = t.{table.outside} + u.d"
        else:
            of, record, label = pending.owner
            scope, name = "SET @djc_kind = %s, @djc_name = %s; ", pending.name
            there = (
                f"t.{of} = @djc_kind AND t.{label} = @djc_name AND t.{record} = u.k "
                f"AND t.{pending.number} = {TOTAL}"
            )
        return (
            f"{scope}SET @djc_rows = %s; UPDATE {rows} STRAIGHT_JOIN {name} t {BY_KEY} "
            f"ON {there} SET t.{value} = CAST(t.{value} AS SIGNED) + u.d{also}; "
            f"{_a_row_for_each('@djc_rows')}"
        )

    @cached_property
    def orphans(self) -> str:
        """Delete what waits for records that are no more. A row for each."""
        table = self._table
        record = (
            f"SELECT 1 FROM {table.name} t WHERE t.{table.key} {self._in.among(self._type)} "
            f"AND {self._in.as_text(f't.{table.key}')} = p.{self._key}"
        )
        which = f"p.{self._key} IN %s AND NOT EXISTS ({record})"
        return self._gone(which, self._in.skipping, "1")


# Claims: the second to insert a name waits for the first one to commit or not.

NOW = "UTC_TIMESTAMP(6)"
_WINDOW = f"COALESCE((SELECT token_window FROM {HORIZON} WHERE id = 1), 172800000000)"
_FRESH = (
    f"(@djc_at IS NULL OR (@djc_at > {NOW} - INTERVAL {_WINDOW} MICROSECOND "
    f"AND @djc_at < {NOW} + INTERVAL 1 HOUR))"
)


class MysqlClaims(claims.ClaimSql):
    """Claims of MySQL.

    A row that is there counts as affected whether it changes or not, so each says by
    ``LAST_INSERT_ID`` what became of it.
    """

    column = "`{}`"

    def __init__(self, table: claims.ClaimTable, spelling: Spelling) -> None:
        super().__init__(table, spelling)
        columns = [self.column.format(name) for name in table.columns]
        self.keys = table.keys
        self.answer = self.answer.removesuffix(" RETURNING 1")
        given = f"SELECT IF(LAST_INSERT_ID(1), %s, NULL){', %s' * (len(columns) - 1)}, {NOW}"
        into = f"INSERT INTO {table.name} ({', '.join(columns)}, {table.moment})"
        asked = f" FROM DUAL WHERE {_FRESH}" if table.are_tokens else ""
        beside = "SET @djc_at = %s; " if table.are_tokens else ""
        self._beside = len(table.beside)
        column = f"{table.name}.{columns[0]}"
        self._once = (
            f"{beside}{into} {given}{asked} ON DUPLICATE KEY UPDATE "
            f"{column} = IF(LAST_INSERT_ID(0), NULL, {column}); "
            "SET @djc_made = ROW_COUNT() > 0 AND LAST_INSERT_ID() = 1; "
            "SET @djc_new = CONCAT(@djc_new, @djc_made); "
        )
        changed = [f"{c} = VALUES({c})" for c in (*columns[table.keys :], table.moment)]
        self._put = f"{into} VALUES ", f" ON DUPLICATE KEY UPDATE {', '.join(changed)}"
        self._row = f"({', '.join(['%s'] * len(columns))}, {NOW})"

    def claim(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert what is not there, one after the other, in the order of the names.

        Rows: the names that are new; bytes as hexadecimal digits.
        """
        ordered = sorted(rows, key=lambda row: _hex(row[0]))
        params: list[Any] = []
        for row in ordered:
            given, beside = row[: len(row) - self._beside], row[len(row) - self._beside :]
            # Of a token and its moment the window needs the moment alone.
            params += map(plain, (*beside[1:], *given))
        names = json.dumps([_hex(row[0]) for row in ordered])
        told = (
            "SELECT u.k FROM JSON_TABLE(%s, '$[*]' COLUMNS (n FOR ORDINALITY, "
            f"k {TEXT} PATH '$')) AS u WHERE SUBSTRING(@djc_new, u.n, 1) = '1'"
        )
        return f"SET @djc_new = ''; {self._once * len(ordered)}{told}", (*params, names)

    def put(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert rows, or change what is there, in the order of the names."""
        head, tail = self._put
        ordered = sorted(rows, key=lambda row: tuple(row[: self.keys]))
        return f"{head}{', '.join([self._row] * len(rows))}{tail}", self.values(ordered)

    def values(self, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The parameters of rows."""
        return [plain(given) for row in rows for given in row]


def _hex(name: Any) -> str:
    return name.hex if isinstance(name, UUID) else name.hex() if isinstance(name, bytes) else name
