"""The tables of the core, and the spelling of SQL that databases share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

from django.db import models

from django_counters.types import INT8

# -- Where totals stand and where increments wait: the names of tables and columns.

COUNTER = "django_counters_counter"
SHARDS = "django_counters_countershard"
SLOTS = "django_counters_slottedcounter"
DELTAS = "django_counters_counterdelta"
HORIZON = "django_counters_counterhorizon"
TOKENS = "django_counters_countertoken"
PARTITIONS = "django_counters_counterpartition"
ARCHIVE = "django_counters_counterarchive"
# On MySQL and MariaDB: a table of one row, which whoever adjusts holds.
CHAIN = "django_counters_counterchain"
# The number of rows of a table.
ROWS = "SELECT COUNT(*) FROM {}"

# The number of the row that is a total, where totals have no column.
TOTAL = -1


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """Where increments wait for their rollup: the names of a table and of its columns.

    Attributes:
        name: the table.
        owner: the columns that together name one counter.
        number: the column that tells the rows of one counter apart.
        value: the column that holds what waits.
        record: the model and the name of a counter that belongs to its records; None where
            counters have keys of their own.
    """

    name: str
    owner: tuple[str, ...]
    number: str
    value: str
    record: tuple[type[models.Model], str] | None = None

    @property
    def owned(self) -> str:
        """The condition that a row belongs to one counter. Parameters: address."""
        return " AND ".join(f"{column} = %s" for column in self.owner)


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Where totals stand: the names of a table and of its columns, not yet quoted.

    Attributes:
        name: the table.
        key: the column that finds a row.
        value: the column that holds the total.
        pending: where increments of these totals may wait.
        touched: the column that holds the time of the last change, if there is one.
        capacity: the least and the greatest number that the column can hold.
        inserts: whether a key that has no row yet gets one.
        label: what people call the column, where the key alone does not say it.
        outside: the column that holds what did not come through the ledger, where there may be
            entries of these totals.

    A table without a column for totals (``value`` is empty) is that of `Pending`: there the total
    of a counter is its row with the number `TOTAL`.
    """

    name: str
    key: str
    value: str
    pending: Pending
    touched: str | None = None
    capacity: tuple[int, int] = INT8
    inserts: bool = False
    label: str = ""
    outside: str = ""

    def quoted(self, quote: Callable[[str], str]) -> Table:
        """The same table with its names quoted for use in SQL text."""
        return replace(
            self,
            name=self.name and quote(self.name),
            key=self.key and quote(self.key),
            value=self.value and quote(self.value),
            touched=None if self.touched is None else quote(self.touched),
            outside=self.outside and quote(self.outside),
            pending=replace(
                self.pending,
                name=quote(self.pending.name),
                owner=tuple(quote(column) for column in self.pending.owner),
                number=quote(self.pending.number),
                value=quote(self.pending.value),
            ),
        )


# -- How a database writes what many statements have in common.

# The first statement of a transaction whose statements see what was committed before them.
READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

# Whether an entry ``e`` waits, in the `state` ``s``.
IN_TAIL = "e.xid >= s.h AND e.seq > s.f"


class Together(str):
    """Statements of which the last ones read what the first ones wrote: for a transaction."""

    __slots__ = ()


class Either(str):
    """The change of a row that is there, and the statement that makes it where it is not.

    Attributes:
        make: takes the same parameters; a lock that it would have to wait for is an error.
        patient: the same, but it waits.
    """

    __slots__ = ("make", "patient")

    def __new__(cls, change: str, make: str, patient: str) -> Self:
        """Of all three."""
        all_of_them = super().__new__(cls, change)
        all_of_them.make, all_of_them.patient = make, patient
        return all_of_them

    make: str
    patient: str


def plain(given: Any) -> Any:
    """A value as columns hold it that have no type for a moment (in UTC, no zone) or a token."""
    if isinstance(given, datetime):
        return str(given.astimezone(UTC).replace(tzinfo=None))
    return given.hex if isinstance(given, UUID) else given


class Spelling(ABC):
    """The words of a database, and the form of its parameters.

    The methods here are standard SQL. Methods without words in the standard are abstract.

    Attributes:
        now: the moment at which a statement begins.
        clock: the present moment, later than ``now`` where a statement had to wait.
        microseconds: the same of the server, in microseconds since 1970.
        ago, later: the moment so many seconds before or after now. Parameters: seconds.
        held: the end of a SELECT that holds its rows.
        kept: the same where others may change them, but not delete them.
        skipping: what follows where it leaves alone what another transaction holds.
        array: makes an array of JSON.
        gathered: makes one of many rows.
        lacks: what counters can't have there, and the remedy: "ledger", "history", "conditions" …
    """

    now = clock = "CURRENT_TIMESTAMP"
    microseconds: str
    ago: str
    later: str
    held = " FOR UPDATE"
    kept = " FOR KEY SHARE"
    skipping = " SKIP LOCKED"
    array: str
    gathered: str
    lacks: Mapping[str, str] = MappingProxyType({})

    def typed(self, given: str, kind: str) -> str:
        """A parameter that says its type."""
        return f"CAST({given} AS {kind})"

    def as_text(self, given: str) -> str:
        """A value as text."""
        return f"CAST({given} AS TEXT)"

    def namespace(self, key: str) -> str:
        """The part before the first colon of a key; empty where there is none."""
        return f"SUBSTRING({key} FROM 1 FOR GREATEST(POSITION(':' IN {key}) - 1, 0))"

    def ordered(self, key: str) -> str:
        """The order in which all writers hold rows."""
        return f"ORDER BY {key}"

    def literal(self, text: str) -> str:
        """A text within a statement that has parameters."""
        return "'" + text.replace("'", "''").replace("%", "%%") + "'"

    def fits(self, present: str, by: str) -> str:
        """The condition that a sum fits into 64 bits."""
        low, high = "(-9223372036854775807 - 1)", "9223372036854775807"
        return (
            f"(({by} >= 0 AND {present} <= {high} - {by}) "
            f"OR ({by} < 0 AND {present} >= {low} - {by}))"
        )

    def added(self, present: str, by: str) -> str:
        """A sum; where it does not fit, an error, or NULL, which the column refuses."""
        return f"{present} + {by}"

    def hold(self, table: Table, kind: str, *, skip: bool = False) -> str:
        """Hold totals in the order of their keys, so that no two transactions wait for each other.

        ``skip``: but those that another transaction holds. Parameters: keys. Rows: keys, totals.
        """
        return (
            f"SELECT {table.key}, {table.value} FROM {table.name} "
            f"WHERE {table.key} {self.among(kind)} "
            f"ORDER BY {table.key}{self.held}{self.skipping if skip else ''}"
        )

    def waits_for(self, table: Table) -> str:
        """Whether something is pending for the record of a row. Parameters: the content type."""
        pending, (kind, record, name) = table.pending, table.pending.owner
        assert pending.record is not None
        return (
            f"EXISTS (SELECT 1 FROM {pending.name} w WHERE w.{kind} = %s "
            f"AND w.{name} = {self.literal(pending.record[1])} "
            f"AND w.{record} = {self.as_text(f'{table.name}.{table.key}')})"
        )

    @abstractmethod
    def since_1970(self, moment: str) -> str:
        """A moment in microseconds since 1970."""

    @abstractmethod
    def among(self, kind: str = "", given: str = "%s") -> str:
        """The condition that a column of a type is one of many. Parameters: `keys`."""

    @abstractmethod
    def rows(self, **columns: str) -> str:
        """The rows ``u`` of the parameters that `columns` makes; the type of each column."""

    @abstractmethod
    def each(self, kind: str) -> str:
        """The rows ``u`` of `keys`, in a column ``k``."""

    @abstractmethod
    def pairs(self, column: str) -> str:
        """The rows of a column of JSON that holds pairs of integers, ``a`` and ``b``."""

    @abstractmethod
    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some unlocked rows. ``which``: conditions, order and limit."""

    @abstractmethod
    def keys(self, keys: Sequence[object]) -> Any:
        """The parameter of many keys."""

    @abstractmethod
    def columns(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """The parameters of rows."""

    def sums(self, sums: Mapping[Any, int]) -> tuple[Any, ...]:
        """The parameters of rows of a key and a sum."""
        return self.columns(list(sums.items()))

    def moment(self, moment: datetime) -> Any:
        """The parameter of a moment."""
        return moment

    def token(self, token: UUID) -> Any:
        """The parameter of a token."""
        return token

    def whole(self, number: str) -> str:
        """A sum as a number of 64 bits."""
        return self.typed(number, "bigint")

    def state(self) -> str:
        """Horizon, fence, and the time of the tail, also where there is no row of them yet."""
        return (
            "SELECT COALESCE(MAX(horizon), 0) AS h, COALESCE(MAX(fence), 0) AS f, "
            f"COALESCE(MAX(tail_since), {self.earliest}) AS since FROM {HORIZON}"
        )

    #: A moment before all others.
    earliest = "''"

    def tail_of(self, key: str) -> str:
        """The amount that waits in the ledger for one counter."""
        return f"SELECT SUM(delta) AS waits FROM {DELTAS} WHERE key = {key} AND {self.waits}"

    def from_outside(self, key: str, value: str) -> str:
        """What a new total has from outside the ledger: a value if entries wait, else NULL.

        Entries only wait for a counter without a total if that was deleted or renamed by hand.
        """
        if "ledger" in self.lacks:
            return "NULL"
        return (
            f"CASE WHEN NOT EXISTS (SELECT 1 FROM {COUNTER} c WHERE c.key = {key}) "
            f"AND ({self.tail_of(key)}) IS NOT NULL THEN {value} END"
        )

    def tails(self) -> str:
        """Rows of key, NULL, and the amount that waits in the ledger for some counters. Parameters:
        keys."""
        return f"SELECT key, NULL, delta FROM {DELTAS} WHERE key {self.among()} AND {self.waits}"

    #: The condition that an entry waits, where the horizon counts rollups.
    waits = f"xid >= (SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON})"
