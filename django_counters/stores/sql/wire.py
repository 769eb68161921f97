"""Statements on a connection of psycopg, without a cursor. The only file that imports psycopg.

A cursor of the driver takes a third of the processor time of an increment, and sends ``BEGIN`` in
a message of its own. Below it are the driver's wrapper of libpq (``psycopg.pq``), its way from
values to text and back, and its generators, which send and wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from django.conf import settings
from django.db.backends.postgresql.base import Cursor
from django.db.backends.utils import CursorWrapper
from psycopg import ClientCursor, Connection, Error, OperationalError
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

DONE = frozenset({ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK})
ENCODING = b"client_encoding"
SAID_WITHIN = 5.0  # seconds, to tell the server, who may be far away
AGAIN_AFTER = 0.5  # seconds
ATTEMPTS = 10


class Wire:
    """One connection, as long as it has the encoding that it began with."""

    def __init__(self, cursor: ClientCursor[Any]) -> None:
        self._connection = cursor.connection
        self._libpq = cursor.connection.pgconn
        # The cursor knows the time zone of the settings.
        self._values = Transformer(cursor)
        self._encoding = cursor.connection.info.encoding
        self._encoded = self._libpq.parameter_status(ENCODING)

    def run(self, sql: str, params: Sequence[Any] | Mapping[str, Any]) -> list[Any] | None:
        """Execute one statement and return its rows; send nothing and return None if a cursor must.

        The statement that begins a transaction goes in one message with ``BEGIN``. With
        ``COUNTERS_PGPOOL`` a cursor has to send it, in two.

        Raises:
            psycopg.Error: as a cursor raises it. Without a SQLSTATE where the server committed
                the statement, or may have, and was cancelled before it was ready for the next.
        """
        if isinstance(params, Mapping) or self._libpq.parameter_status(ENCODING) != self._encoded:
            return None
        literals = tuple(map(self._values.as_literal, params))
        statement = sql.encode(self._encoding) % literals
        with self._connection.lock:
            begin = self._begin()
            if begin is None:
                return None
            results = self._exchange(begin + statement)
        result = results[-1]
        if result.status not in DONE:
            error = error_from_result(result, self._encoding)
            if self._connection.autocommit and results[0].status in DONE:
                raise OperationalError("the statement was done, then interrupted") from error
            raise error
        self._values.set_pgresult(result)
        return self._values.load_rows(0, result.ntuples, tuple)

    def _begin(self) -> bytes | None:
        """The text before a statement; None where that is more than is known here."""
        connection, libpq = self._connection, self._libpq
        if libpq.pipeline_status != PipelineStatus.OFF:
            return None
        if connection.autocommit or libpq.transaction_status != TransactionStatus.IDLE:
            return b""
        asked = (connection.isolation_level, connection.read_only, connection.deferrable)
        usual = asked == (None, None, None) and not getattr(settings, "COUNTERS_PGPOOL", False)
        return b"BEGIN;" if usual else None

    def _exchange(self, text: bytes) -> list[PGresult]:
        """Send a message and wait for the answer; its last result is any error."""
        try:
            self._libpq.send_query(text)
            return self._connection.wait(execute(self._libpq))
        except Error:
            raise
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """End what the server still does, after Ctrl-C or a time limit; else the connection."""
        if self._libpq.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            self._cancel()
            self._connection.wait(execute(self._libpq))
        except BaseException as error:
            self._libpq.finish()
            if not isinstance(error, Exception):
                raise

    def _cancel(self) -> None:
        """Cancel until there is an answer: the server ignores what comes before it has begun."""
        with DefaultSelector() as answer:
            answer.register(self._libpq.socket, EVENT_READ)
            for _ in range(ATTEMPTS):
                self._connection.cancel_safe(timeout=SAID_WITHIN)
                if not self._libpq.is_busy() or answer.select(AGAIN_AFTER):
                    return
        raise TimeoutError


def wire_of(cursor: CursorWrapper) -> Wire | None:
    """The wire below a cursor of Django; None where the cursor or its connection is special."""
    driver: Any = cursor.cursor
    own: object = type(driver.connection) is Connection and type(driver)
    return Wire(driver) if own is Cursor else None
