"""Statements about claims, conditions and positions: rows that decide whether a change counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django_counters.measure import ConditionKind
from django_counters.stores.sql.dialects.spelling import READ_COMMITTED, TOKENS, Spelling, Table
from django_counters.stores.sql.dialects.totals import SpreadStatements, Totals

# -- The statements of claims, whose rows say that something was done, and of flushes.

BATCHES = "django_counters_counterbatch"
SOURCES = "django_counters_countersource"


class ClaimTable(NamedTuple):
    """A table of which each row is a claim.

    Attributes:
        name: the table.
        columns: the columns of a row, with the types of PostgreSQL. The first ``keys`` of them are
            the primary key: the name that is claimed.
        moment: the column with the time of the claim, by the clock of the database.
        keys: how many columns make up the name.
        beside: values for the condition that are not kept.
        are_tokens: whether the condition is that of tokens: see `ClaimSql.fresh`.
    """

    name: str
    columns: Mapping[str, str]
    moment: str
    keys: int = 1
    beside: Mapping[str, str] = {}
    are_tokens: bool = False


# Beside its digest a UUIDv7 and its time are given; of any other text NULL twice.
TOKENS_USED = ClaimTable(
    TOKENS,
    {"digest": "bytea", "fingerprint": "bytea", "result": "text"},
    "created_at",
    beside={"token": "uuid", "at": "timestamptz"},
    are_tokens=True,
)
BATCHES_LANDED = ClaimTable(
    BATCHES,
    {
        "generation": "uuid",
        "slot": "smallint",
        "source": "text",
        "counters": "int",
        "total": "numeric",
    },
    "applied_at",
)
SOURCES_SEEN = ClaimTable(
    SOURCES,
    {"source": "text", "slot": "smallint", "seen": "text", "timeline": "text"},
    "seen_at",
    keys=2,
)


class ClaimSql:
    """The statements of one table of claims; the common part of all databases.

    Attributes:
        found: the columns of the rows of a first column. Parameters: that.
        held: the same, held until the transaction ends.
        known: the first column of rows. Parameters: those, as ``keys`` of the dialect makes them.
        answer: change the last column. Parameters: that, the first column.
        prune: delete some of those before a moment. Parameters: the moment, how many at most. A
            row for each.
    """

    #: Delete a new claim to a token that an entry of the ledger has. Parameters: the name, the
    #: token and its time. A row if it did. Empty where the claim itself sees to it.
    take_back = ""
    #: Hold a text until the transaction ends, unless another transaction holds it. Rows: whether.
    #: Parameters: the text. Empty where there is one writer.
    try_alone = ""
    #: The condition that a token ``g`` is in its window and, where there is no `take_back`, not in
    #: the ledger.
    fresh = ""
    #: How a column is written.
    column = "{}"

    def __init__(self, table: ClaimTable, spelling: Spelling) -> None:
        columns = [self.column.format(name) for name in table.columns]
        names, first = ", ".join(columns[: table.keys]), columns[0]
        changed = [f"{column} = EXCLUDED.{column}" for column in columns[table.keys :]]
        changed.append(f"{table.moment} = EXCLUDED.{table.moment}")
        given = {**table.columns, **table.beside}
        self._head = f"WITH g ({', '.join(given)}) AS (VALUES "
        self._row = f"({', '.join(map(self._typed, given.values()))})"
        self._insert = (
            f") INSERT INTO {table.name} ({', '.join(columns)}, {table.moment}) "
            f"SELECT {', '.join(columns)}, {spelling.clock} FROM g WHERE "
            f"{self.fresh if table.are_tokens else 'true'}"
        )
        self._order = f" ORDER BY {names}"
        self._once = f" ON CONFLICT DO NOTHING RETURNING {first}"
        self._last = f" ON CONFLICT ({names}) DO UPDATE SET {', '.join(changed)} RETURNING 1"
        self.found = (
            f"SELECT {', '.join(columns)} FROM {table.name} WHERE {first} = %s ORDER BY {names}"
        )
        self.held = self.found + spelling.held
        among = spelling.among(next(iter(table.columns.values())))
        self.known = f"SELECT {first} FROM {table.name} WHERE {first} {among}"
        self.answer = f"UPDATE {table.name} SET {columns[-1]} = %s WHERE {first} = %s RETURNING 1"
        old = f"WHERE {table.moment} < %s ORDER BY {table.moment} LIMIT %s"
        self.prune = spelling.delete_some(table.name, old)

    def claim(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert what is not there, in the order of the names. Rows: the first columns of it."""
        return self._inserting(rows) + self._once, self.values(rows)

    def put(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert rows, or change what is there, in the order of the names. A row for each."""
        return self._inserting(rows) + self._last, self.values(rows)

    def values(self, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The parameters of rows."""
        return [given for row in rows for given in row]

    def _inserting(self, rows: Sequence[Sequence[Any]]) -> str:
        # Not arrays: the server sees that there is no UUIDv7, and does not plan to look for it.
        order = self._order if len(rows) > 1 else ""
        return f"{self._head}{', '.join([self._row] * len(rows))}{self._insert}{order}"

    def _typed(self, kind: str) -> str:
        """A parameter of a type."""
        return "%s"


# The transaction of a flush.


class LandingStatements:
    """The statements that bring generations of increments into the totals.

    Attributes:
        begin: the first statement of the transaction.
        settings: what holds for this transaction alone, where the database limits time. Parameters:
            for how many milliseconds a statement waits for a lock, and how many it may take, as
            texts.
        together: amounts, and the generations that are there, of one moment. The statement of
            ``Reads.many`` stands where the braces are. Parameters: those of it, generations.
            Rows: key, total, pending, NULL, or NULL three times and a generation.
        settled: whether a statement of this transaction sees what is committed by now, and nothing
            else, where that can be told.
        may_ask: whether the caller may execute ``whole``; else ``part`` says what it can. Each has
            one row of one column.
        whole: which database this is, where a server has it.
    """

    # Where transactions keep one snapshot, what another landing has just written is an error.
    begin = READ_COMMITTED
    settings = settled = may_ask = whole = part = ""

    def __init__(self, spelling: Spelling) -> None:
        self.together = (
            "SELECT r.*, NULL FROM ({}) r UNION ALL SELECT NULL, NULL, NULL, generation "
            f"FROM {BATCHES} WHERE generation {spelling.among('uuid')}"
        )


# -- The statements about rows that make a change count; see `measure.ConditionKind`.


class Conditions:
    """Makes and deletes the rows of conditions."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    def claim(self, kind: ConditionKind) -> str:
        """Make a row, unless there is one. Parameters: its columns. Rows: one if it is new."""
        return f"{self._insert(kind)} DO NOTHING RETURNING 1"

    def renew(self, kind: ConditionKind) -> str:
        """Do the same, or set the moment of a row that was made until another moment.

        Parameters: its columns, that moment.
        """
        *key, made = (column.name for column in kind.columns)
        return (
            f"{self._insert(kind)} ({', '.join(key)}) DO UPDATE SET {made} = EXCLUDED.{made} "
            f"WHERE a.{made} <= %s RETURNING 1"
        )

    def _insert(self, kind: ConditionKind) -> str:
        names = ", ".join(column.name for column in kind.columns)
        values = ", ".join("%s" for _ in kind.columns)
        return f"INSERT INTO {kind.table} AS a ({names}) VALUES ({values}) ON CONFLICT"

    def release(self, kind: ConditionKind) -> str:
        """Delete a row. Parameters: its columns but the last. Rows: when it was made."""
        *key, made = (column.name for column in kind.columns)
        return (
            f"DELETE FROM {kind.table} WHERE {' AND '.join(f'{name} = %s' for name in key)} "
            f"RETURNING {made}"
        )

    def hold(self, table: Table) -> str:
        """Keep others from deleting a record until the transaction ends. Parameters: its key.

        A transaction that deletes one holds it, and then deletes its rows: so a transaction that
        deletes such a row by itself holds the record before it. Empty if there is one writer.
        """
        held = f"SELECT 1 FROM {table.name} WHERE {table.key} = %s{self._in.kept}"
        return held if self._in.kept and table.value and table.pending.record else ""

    def totals(
        self, kind: ConditionKind, sql: Totals, table: Table, one: str, by: int, *, alone: bool
    ) -> str | None:
        """Return one statement that adds one to a total, or takes one away, on a condition.

        The row comes first. Parameters: its columns; if one is taken away from a record, that of
        `hold`; limit, and with ``kind.whole`` for a named counter nothing else; those of a change;
        those of ``one``, which reads a value. Rows: none if the record is missing; the new value,
        and the present one if the row was not as it has to be. If both are NULL, the change was
        refused, and the row is as it was. None: the database has no such statement.

        ``alone``: without cells. The row may then be one text, which has "=" before the present
        value.
        """
        return None

    def spread(
        self,
        kind: ConditionKind,
        sql: SpreadStatements,
        table: Table,
        one: str,
        by: int,
        *,
        alone: bool,
    ) -> str | None:
        """Return one statement that does the same if increments wait.

        Parameters: the columns of the row; of a record that of `hold`; those of
        `SpreadStatements.arrange`, or with ``kind.whole`` for a named counter the number of a row;
        those of ``one``. Rows: the new value, the number of the row that was taken, the present
        value.
        """
        return None


# -- The statements about how far a source is in the totals.

POSITIONS = "django_counters_counterposition"


class Positions:
    """Reads, holds and moves rows of positions. "Now" is the server's clock, after all waiting."""

    def __init__(self, spelling: Spelling) -> None:
        columns = "source, part, position, timeline"
        given = spelling.rows(source="text", part="text", before="text", after="text", line="text")
        there = "p.source = u.source AND p.part = u.part"
        insert = f"INSERT INTO {POSITIONS} ({columns}, moved_at)"
        #: Make the row of a part, unless there is one. Parameters: source, part.
        self.make = (
            f"{insert} VALUES (%s, %s, '', '', {spelling.clock}) ON CONFLICT DO NOTHING RETURNING 1"
        )
        #: The rows of a source. Parameters: source. Rows: part, position, timeline.
        self.found = f"SELECT part, position, timeline FROM {POSITIONS} WHERE source = %s"
        #: Some of them. Parameters: source, `keys` of parts. Rows: the same.
        self.among = f"{self.found} AND part {spelling.among('text')}"
        #: One row, held until the transaction ends. Empty where another transaction holds it.
        #: Parameters: source, part. Rows: position, timeline.
        self.hold = (
            f"SELECT position, timeline FROM {POSITIONS} WHERE source = %s AND part = %s"
            f"{spelling.held}{spelling.skipping}"
        )
        #: Move rows that are where they should be, in one order: a compare-and-set that waits for
        #: the transaction that is just moving the same. Parameters: `columns` of source, part, from
        #: where, to where, timeline. Rows: source and part of those that were moved.
        self.move = (
            f"WITH u AS (SELECT * FROM {given}) {insert} "
            f"SELECT u.source, u.part, u.after, u.line, {spelling.clock} FROM u "
            f"WHERE u.before = '' OR EXISTS (SELECT 1 FROM {POSITIONS} p WHERE {there}) "
            "ORDER BY u.source, u.part ON CONFLICT (source, part) DO UPDATE SET "
            "position = EXCLUDED.position, timeline = EXCLUDED.timeline, "
            f"moved_at = EXCLUDED.moved_at WHERE {POSITIONS}.position = (SELECT u.before FROM u "
            "WHERE u.source = EXCLUDED.source AND u.part = EXCLUDED.part) "
            f"AND {POSITIONS}.timeline IN ('', EXCLUDED.timeline) RETURNING source, part"
        )
        #: Put one row somewhere, wherever it was. Parameters: source, part, position, timeline.
        self.put = (
            f"{insert} VALUES (%s, %s, %s, %s, {spelling.clock}) ON CONFLICT (source, part) "
            "DO UPDATE SET position = EXCLUDED.position, timeline = EXCLUDED.timeline, "
            "moved_at = EXCLUDED.moved_at RETURNING 1"
        )
        #: Say in which history a row means something. It waits for the transaction that moves the
        #: row. Parameters: timeline, source, part. Rows: position.
        self.label = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE source = %s AND part = %s "
            "RETURNING position"
        )
        #: The same where it is one of two. Parameters: timeline, source, part, timelines. Rows: 1.
        self.relabel = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE source = %s AND part = %s "
            "AND timeline IN (%s, %s) RETURNING 1"
        )
        #: Say that a row is of now, and nothing else; make it where there is none. Parameters:
        #: source, part.
        self.touch = (
            f"{insert} VALUES (%s, %s, '', '', {spelling.clock}) ON CONFLICT (source, part) "
            f"DO UPDATE SET moved_at = {spelling.clock} RETURNING 1"
        )
        #: The rows of sources from one on and before another one, and how many microseconds ago
        #: each was moved. Parameters: the two. Rows: source, part, position, timeline, how many.
        ago = f"{spelling.microseconds} - {spelling.since_1970('moved_at')}"
        self.ages = (
            f"SELECT source, part, position, timeline, {ago} FROM {POSITIONS} "
            "WHERE source >= %s AND source < %s"
        )
        #: Delete some that are still. Parameters: source, before which moment, how many at most.
        old = "WHERE source = %s AND moved_at < %s ORDER BY moved_at LIMIT %s"
        self.prune = spelling.delete_some(POSITIONS, old)
