"""The statements of claims, whose rows say that something was done, and of flushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django_counters.stores.sql.dialects.spelling import READ_COMMITTED, Spelling
from django_counters.stores.sql.dialects.tables import TOKENS

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
    now = ""
    #: The condition that a token ``g`` is in its window and, where there is no `take_back`, not in
    #: the ledger.
    fresh = ""
    #: Ends a SELECT that holds its rows.
    holding = ""
    #: The condition that a row is one of those that a SELECT of ``row`` finds.
    among_found = ""
    row = ""

    def __init__(self, table: ClaimTable) -> None:
        columns = list(table.columns)
        names, first = ", ".join(columns[: table.keys]), columns[0]
        changed = [f"{column} = EXCLUDED.{column}" for column in columns[table.keys :]]
        changed.append(f"{table.moment} = EXCLUDED.{table.moment}")
        given = {**table.columns, **table.beside}
        self._head = f"WITH g ({', '.join(given)}) AS (VALUES "
        self._row = f"({', '.join(map(self._typed, given.values()))})"
        self._insert = (
            f") INSERT INTO {table.name} ({', '.join(columns)}, {table.moment}) "
            f"SELECT {', '.join(columns)}, {self.now} FROM g WHERE "
            f"{self.fresh if table.are_tokens else 'true'}"
        )
        self._order = f" ORDER BY {names}"
        self._once = f" ON CONFLICT DO NOTHING RETURNING {first}"
        self._last = f" ON CONFLICT ({names}) DO UPDATE SET {', '.join(changed)} RETURNING 1"
        self.found = (
            f"SELECT {', '.join(columns)} FROM {table.name} WHERE {first} = %s ORDER BY {names}"
        )
        self.held = self.found + self.holding
        self.known = (
            f"SELECT {first} FROM {table.name} WHERE {first} {self._among(table.columns[first])}"
        )
        self.answer = f"UPDATE {table.name} SET {columns[-1]} = %s WHERE {first} = %s RETURNING 1"
        old = f"SELECT {self.row} FROM {table.name} WHERE {table.moment} < %s"
        old = self.among_found.format(f"{old} ORDER BY {table.moment} LIMIT %s")
        self.prune = f"DELETE FROM {table.name} WHERE {old} RETURNING 1"

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

    def _among(self, kind: str) -> str:
        """That a column of a type is one of some. Parameters: these."""
        raise NotImplementedError

    def _typed(self, kind: str) -> str:
        """A parameter of a type."""
        raise NotImplementedError


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
    settings: str
    settled: str
    may_ask: str
    whole: str
    part: str

    def __init__(self, spelling: Spelling) -> None:
        self.together = (
            "SELECT r.*, NULL FROM ({}) r UNION ALL SELECT NULL, NULL, NULL, generation "
            f"FROM {BATCHES} WHERE generation {spelling.among('uuid')}"
        )
