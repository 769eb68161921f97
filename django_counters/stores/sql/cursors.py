"""Cursors that stay open between statements."""

from __future__ import annotations

import threading

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper


class KeptCursor(threading.local):
    """One cursor per thread: to make and close one takes a tenth of an increment's time.

    It is Django's own wrapper, so execute wrappers, the translation of errors and the refusal of
    broken transactions are as ever. Where queries are logged (``assertNumQueries``), and where
    somebody has put a ``cursor`` of his own onto the connection (test cases, toolbars), every
    statement gets a new one from there.
    """

    cursor: CursorWrapper | None = None

    def take(self, connection: BaseDatabaseWrapper) -> CursorWrapper:
        """A cursor on the present connection of this thread, which is opened if need be.

        It is the caller's alone until `give_back`: an execute wrapper may count, too.
        """
        # As connection.cursor() does: checks a connection that was idle, refuses an event loop.
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        if connection.queries_logged or "cursor" in vars(connection):
            return connection.cursor()
        kept, self.cursor = self.cursor, None
        # The driver's connection may have been closed and opened again since.
        if (
            kept is None
            or kept.db is not connection
            or kept.cursor.connection is not connection.connection
        ):
            return connection.cursor()
        return kept

    def give_back(self, cursor: CursorWrapper) -> None:
        """Keep a cursor whose rows have been read, unless it is of somebody's own kind."""
        if type(cursor) is CursorWrapper:
            self.cursor = cursor
