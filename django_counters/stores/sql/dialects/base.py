"""A dialect: the capabilities of a database, and its statements by topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import InterfaceError, OperationalError

from django_counters.stores.sql.dialects import totals as standard
from django_counters.stores.sql.dialects.cells import Cells
from django_counters.stores.sql.dialects.claims import (
    ClaimSql,
    Conditions,
    LandingStatements,
    Positions,
)
from django_counters.stores.sql.dialects.spelling import Spelling, Table


class Errors:
    """Tells errors by the code that came with them.

    Attributes:
        has_server: whether there is a server, so that a connection to it can be lost.
        OVERFLOWED: how the codes of errors begin that say that a number did not fit; so do the
            others.
    """

    has_server = True
    OVERFLOWED: tuple[str, ...] = ()
    TIMED_OUT: tuple[str, ...] = ()
    BUSY: tuple[str, ...] = ()
    READ_ONLY: tuple[str, ...] = ()
    LOST: tuple[str, ...] = ()
    CANCELLED: tuple[str, ...] = ()
    UNSERIALIZABLE: tuple[str, ...] = ()

    def code(self, error: Exception) -> str:
        """The code of an error; empty where it has none."""
        return str(getattr(error.__cause__, "sqlstate", None) or "")

    def overflowed(self, error: Exception) -> bool:
        """Whether a number did not fit into its column."""
        return self.code(error).startswith(self.OVERFLOWED)

    def timed_out(self, error: Exception) -> bool:
        """Whether a statement waited too long for a lock."""
        return self.code(error).startswith(self.TIMED_OUT)

    def busy(self, error: Exception) -> bool:
        """Whether others held what is needed, or it took too long."""
        return self.code(error).startswith(self.BUSY)

    def read_only(self, error: Exception) -> bool:
        """Whether the database takes no changes."""
        return self.code(error).startswith(self.READ_ONLY)

    def refused_function(self, error: Exception) -> str:  # noqa: ARG002 - few have functions
        """The function that the role may not execute; empty where it is another error."""
        return ""

    def lost(self, error: Exception) -> bool:
        """Whether the connection ended before the answer, or with the server's last words."""
        if not self.unexplained(error):
            return self.code(error).startswith(self.LOST)
        return isinstance(error, InterfaceError | OperationalError)

    def cancelled(self, error: Exception) -> bool:
        """Whether a person or a time limit ended the statement."""
        return self.code(error).startswith(self.CANCELLED)

    def unexplained(self, error: Exception) -> bool:
        """Whether there is no reason from the server."""
        return self.has_server and not self.code(error)

    def unserializable(self, error: Exception) -> bool:
        """Whether the transaction does not see what others have changed."""
        return self.code(error).startswith(self.UNSERIALIZABLE)

    def ended_transaction(self, error: Exception) -> bool:  # noqa: ARG002 - most keep it open
        """Whether the server has taken back all of the transaction, and would begin another one."""
        return False

    def guard_numbers(self, error: Exception) -> tuple[int, ...] | None:  # noqa: ARG002 - none asks
        """The numbers of a guard that refused a change; else None."""
        return None

    def refused_by(self, error: Exception) -> str | None:  # noqa: ARG002 - there are no partitions
        """The constraint that refused a row; empty where no partition takes it; else None."""
        return None


class Dialect(Spelling, Errors):
    """One kind of database.

    Attributes:
        answers_often: a text may have several statements, and each of them an answer.
        appends_in_one_statement: one statement appends entries to the ledger, or says why not.
        ends_idle: lets the server end this transaction where it gets no statement for too long;
            empty where it cannot. Parameters: milliseconds, as text.
        every: the parameter of keys that stands for all.
        changes_chosen: one statement changes all rows that a query selects, or none.
        knows_time_zones: the driver gives moments in the zone of the connection, else in UTC.
        knows_transaction_horizon: a statement can tell which transactions have ended.
        ledger: the path of the statements of its ledger, a `ledger.sql.LedgerStatements`.
        limits_time: a transaction can say how long its statements wait, and how long they take.
        partitions: tables can have partitions.
        reduced: its shortcomings beside PostgreSQL, as sentences, where that is in use.
        several_writers: transactions write at the same time, and see or miss what others commit.
        tells_isolation: a transaction can say what its statements see.
    """

    answers_often = False
    appends_in_one_statement = False
    changes_chosen = False
    ends_idle = ""
    every: Any = None
    knows_time_zones = False
    knows_transaction_horizon = False
    limits_time = False
    partitions = False
    reduced: Sequence[str] = ()
    several_writers = True
    tells_isolation = False

    ledger: str
    landing: LandingStatements
    claims: type[ClaimSql]

    def __init__(self) -> None:
        self.cells = Cells(self)
        self.conditions = Conditions(self)
        self.positions = Positions(self)

    @property
    def present(self) -> str:
        """Ask for the present moment of the server, in microseconds since 1970."""
        return f"SELECT {self.microseconds}"

    def unfit(self, connection: Any) -> Iterable[str]:  # noqa: ARG002 - most ask nothing of it
        """What keeps counters from being right on a connection, as sentences. It connects."""
        return ()

    def install(self, using: str) -> None:
        """Make the functions that statements call, where they are not there yet."""

    def patience(self, setting: str) -> str:
        """How long a statement waits (``lock_timeout``), or may take (``statement_timeout``)."""
        raise NotImplementedError

    def hurry(self, setting: str) -> str:
        """Wait no longer within the transaction. Parameters: a duration."""
        raise NotImplementedError

    def totals(self, table: Table) -> standard.Totals:
        """The statements that change totals in place."""
        return standard.NamedTotals(self, table) if table.inserts else standard.Totals(self, table)

    def reads(self, table: Table) -> standard.Reads:
        """The statements that read totals and the amount that waits for them."""
        return standard.Reads(self, table)

    def spread(self, table: Table, cap: int) -> standard.SpreadStatements:
        """The statements that let increments wait in at most ``cap`` rows of their own."""
        return standard.SpreadStatements(self, table, cap)

    def rights(self, table: Table, cap: int) -> standard.Rights:
        """The same where there is a floor; as it stands here, for databases with one writer."""
        return standard.Rights(self, table, self.spread(table, cap))

    def fold(self, table: Table, key_type: str) -> standard.Fold:
        """The statements of a rollup; the type of the keys."""
        return standard.Fold(self, table, key_type)

    def chosen(self, query: str, tables: Sequence[Table]) -> str:
        """Add to columns of one table, in all rows that a query selects, or in none.

        Where a column of a row is outside of what admits the change, or something waits for it
        elsewhere, the only row of the result is of NULL. Else they are keys with new values. The
        query selects keys and these columns, in the order of the keys. Parameters: those of the
        query; for each column least, greatest, and the content type of the records; for each
        column by.
        """
        raise NotImplementedError
