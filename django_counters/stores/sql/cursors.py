"""Cursors that stay open between statements."""

from __future__ import annotations

import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import ProgrammingError
from django.db.backends import utils
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_counters.stores.sql.dialects import DIALECTS
from django_counters.tenants import makes_cursors

if TYPE_CHECKING:
    from django_counters.stores.sql.wire import Wire

# Tools that trace statements put a method of their own in its place.
_EXECUTE = vars(CursorWrapper)["execute"]
_UNTRACED = type(_EXECUTE) is FunctionType and _EXECUTE.__code__.co_filename == utils.__file__


class LastAnswer:
    """A driver's cursor where a text has several statements: its rows are the last ones.

    All answers are read at once. Another query on the connection before the rows are fetched, as an
    execute wrapper may send, would mistake a left answer for its own.
    """

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._rows: list[Any] = []

    def execute(self, sql: str, params: Any = None) -> Any:
        done = self._cursor.execute(sql, params)
        rows = self._cursor.fetchall()
        while self._cursor.nextset():
            if self._cursor.description:
                rows = self._cursor.fetchall()
        self._rows = list(rows)
        return done

    def fetchall(self) -> list[Any]:
        return self._rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class Kept:
    """Django's own cursor, and the way below it, where there is one.

    Attributes:
        tells_all: whether the last statement was run in the way that tells each of its results.
    """

    def __init__(self, cursor: CursorWrapper) -> None:
        if DIALECTS[cursor.db.vendor].answers_often:
            cursor.cursor = LastAnswer(cursor.cursor)
        self.cursor = cursor
        self.driver: Any = cursor.cursor
        self.tells_all = False
        self._wire = _wire(cursor)

    def run(self, connection: BaseDatabaseWrapper, sql: str, params: Any) -> list[Any]:
        """Execute one statement and return its rows; the cursor is used only if it has to be."""
        if self._wire and not connection.execute_wrappers and CursorWrapper.execute is _EXECUTE:
            connection.validate_no_broken_transaction()
            self.tells_all = True
            with connection.wrap_database_errors:
                found = self._wire.run(sql, params)
            if found is not None:
                return found
        self.tells_all = False
        self.cursor.execute(sql, params)
        try:
            # The driver's own method: Django's wrapper makes a new function for each fetch.
            with connection.wrap_database_errors:
                rows: list[Any] = self.driver.fetchall()
        except ProgrammingError as error:
            # psycopg refuses to fetch where a statement that was done has no rows. Within a
            # pipeline an error of the server is raised here, too: it has a code.
            is_of_server = getattr(error.__cause__, "sqlstate", None)
            if is_of_server or not getattr(self.driver, "statusmessage", None):
                raise
            return []
        return rows


class KeptCursor(threading.local):
    """One cursor per thread: to make and close one takes a tenth of an increment's time.

    It is Django's own wrapper, so execute wrappers, the translation of errors and the refusal of
    broken transactions are as ever. Every statement gets a new cursor if queries are logged
    (``assertNumQueries``), if a tool has put its own ``cursor`` onto the connection (test cases,
    toolbars), or if the backend makes cursors in its own way, which may set the tenant. Where no
    tool looks, it is not used (`Kept.run`).
    """

    kept: Kept | None = None

    def take(self, connection: BaseDatabaseWrapper) -> Kept:
        """A cursor on the present connection of this thread, which is opened if need be.

        It is the caller's alone until `give_back`: an execute wrapper may count, too.
        """
        # As connection.cursor() does: checks a connection that was idle, refuses an event loop.
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        if connection.queries_logged or _is_looked_at(connection) or makes_cursors(connection):
            return Kept(connection.cursor())
        kept, self.kept = self.kept, None
        # The driver's connection may have been closed and opened again since.
        if (
            kept is None
            or kept.cursor.db is not connection
            or kept.driver.connection is not connection.connection
        ):
            return Kept(connection.cursor())
        return kept

    def give_back(self, kept: Kept) -> None:
        """Keep a cursor whose rows have been read, unless it is of another kind."""
        if type(kept.cursor) is CursorWrapper:
            self.kept = kept


def _is_looked_at(connection: BaseDatabaseWrapper) -> bool:
    """Whether a tool has put its own ``cursor`` onto a connection.

    A method of the connection's own class is none: Django leaves one there after a test case.
    """
    put = vars(connection).get("cursor")
    return put is not None and getattr(put, "__func__", None) is not type(connection).cursor


def _wire(cursor: CursorWrapper) -> Wire | None:
    """The layer below a cursor of psycopg, which is optional."""
    if not _UNTRACED or type(cursor) is not CursorWrapper or not apps.ready:
        return None
    if cursor.db.Database.__name__ != "psycopg":
        return None
    from django_counters.stores.sql.wire import wire_of

    return wire_of(cursor)
