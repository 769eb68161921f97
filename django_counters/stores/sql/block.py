"""The ``with`` block of a transaction, which says what its errors mean and is left for certain."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from django.db import Error, connections, transaction

from django_counters.exceptions import CounterError, OutcomeUnknown

Explain = Callable[[Error, bool], None]


class Block(AbstractContextManager[None]):
    """A transaction, or a savepoint in the caller's.

    An exception of a signal handler can make Python leave the end of a block out. It is made up for
    when the block is thrown away, unless that is too late: in the middle of another one.

    Args:
        using: the database.
        explain: raises our own error for one that has a name; told whether it came from COMMIT.
        own: what happens within is ours. The errors of other people's code pass unchanged.
        durable: refuse to be a savepoint.
    """

    def __init__(
        self, using: str, explain: Explain, *, own: bool = True, durable: bool = False
    ) -> None:
        self._using = using
        self._explain = explain
        self._own = own
        self._atomic = transaction.atomic(using=using, durable=durable)
        self._commits = False
        self._is_open = False

    def __enter__(self) -> None:
        self._is_open = True
        self._commits = commits_at_once(self._using)
        entered = False
        try:
            self._atomic.__enter__()
            entered = True
        except Error as error:
            self._explain(error, False)
            raise
        finally:
            if not entered:
                self._leave()
                self._is_open = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is GeneratorExit and not self._is_innermost():
            return
        connection = connections[self._using]
        driver = connection.connection
        try:
            self._atomic.__exit__(kind, error, trace)
        except Error as failure:
            committing = self._commits and error is None
            if committing and connection.connection is not driver:
                # Django has connected anew, or tried to: that error is not the one of COMMIT.
                raise OutcomeUnknown(using=self._using) from failure
            if self._own or error is None:
                # Before COMMIT it is known that nothing was counted; in COMMIT it may not be.
                self._explain(failure, committing)
            raise
        finally:
            self._leave()
            self._is_open = False
        if self._own and isinstance(error, Error) and not isinstance(error, CounterError):
            self._explain(error, False)

    def __del__(self) -> None:
        # One that has ended asks for no connection: it may be thrown away anywhere.
        if getattr(self, "_is_open", False) and self._is_innermost():
            self.__exit__(GeneratorExit, GeneratorExit(), None)

    def _is_innermost(self) -> bool:
        """Whether what ends now is this block, in its own thread."""
        return connections[self._using].atomic_blocks[-1:] == [self._atomic]

    def _leave(self) -> None:
        """Be out of the outermost transaction, also where its begin or end was interrupted.

        A signal handler that raises there, as a time limit of Celery does, can leave Django in the
        block or the driver in the transaction: nothing that follows would be committed.
        """
        connection = connections[self._using]
        driver = connection.connection
        begun = _has_begun(driver)
        if self._commits and (connection.in_atomic_block or not connection.autocommit or begun):
            connection.in_atomic_block = connection.closed_in_transaction = False
            connection.savepoint_ids, connection.atomic_blocks = [], []
            connection.close()


def _has_begun(driver: Any) -> bool:
    """Whether the driver is in a transaction: Django's word for it may differ from its own."""
    # That of mysqlclient is asked while it is open; those of psycopg and sqlite3 have attributes.
    asked = getattr(driver, "open", False) and getattr(driver, "get_autocommit", None)
    commits = asked() if asked else getattr(driver, "autocommit", True)
    return not commits or getattr(driver, "in_transaction", False)


def commits_at_once(using: str) -> bool:
    """Whether a statement of this thread is a transaction of its own. Opens no connection."""
    connection = connections[using]
    if connection.connection is None:
        return bool(connection.settings_dict["AUTOCOMMIT"])
    return connection.autocommit and not connection.in_atomic_block


def interrupts_statement(using: str) -> bool:
    """Whether this is a signal handler that has interrupted a statement of its own thread.

    psycopg holds the lock of a connection until its statement has ended. The connection is this
    thread's, so another statement would wait forever.
    """
    lock = getattr(connections[using].connection, "lock", None)
    return lock is not None and bool(lock.locked())


def refuse_transaction(using: str) -> None:
    """Raise the error of a durable block where this thread has a transaction. Opens none."""
    if not commits_at_once(using) and not is_of_a_test_case(using):
        raise RuntimeError("Nothing is landed within a transaction, which could take it back.")


def is_of_a_test_case(using: str, *, outermost: bool = False) -> bool:
    """Whether the innermost (or the outermost) block of this thread is that of a `TestCase`.

    It stands for no transaction of the caller: it is always rolled back, and no hook of it runs.
    """
    blocks = connections[using].atomic_blocks
    # Django's own mark, by which durable blocks are allowed within a test case.
    return bool(blocks) and getattr(blocks[0 if outermost else -1], "_from_testcase", False)
