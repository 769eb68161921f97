"""Sessions of a database: statements, transactions, errors, and the identity of the database."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import Error, ProgrammingError, connections, transaction
from django.db.backends import utils
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.creation import TEST_DATABASE_PREFIX
from django.db.backends.utils import CursorWrapper
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_counters import errors
from django_counters.stores.sql.dialects import DIALECTS, Pending, dialect_of
from django_counters.stores.sql.dialects.spelling import READ_COMMITTED, ROWS, Either, Together
from django_counters.tenants import makes_cursors, tenant

if TYPE_CHECKING:
    from django_counters.stores.sql.wire import Wire

# -- One database, as the stores see it: runs their statements, and says what an error means.
# Cursors stay open between statements.

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
                raise errors.OutcomeUnknown(using=self._using) from failure
            if self._own or error is None:
                # Before COMMIT it is known that nothing was counted; in COMMIT it may not be.
                self._explain(failure, committing)
            raise
        finally:
            self._leave()
            self._is_open = False
        if self._own and isinstance(error, Error) and not isinstance(error, errors.CounterError):
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
        # Django's word for it may differ from that of the driver. That of mysqlclient is asked
        # while it is open; those of psycopg and sqlite3 have attributes.
        asked = getattr(driver, "open", False) and getattr(driver, "get_autocommit", None)
        commits = asked() if asked else getattr(driver, "autocommit", True)
        begun = not commits or getattr(driver, "in_transaction", False)
        if self._commits and (connection.in_atomic_block or not connection.autocommit or begun):
            connection.in_atomic_block = connection.closed_in_transaction = False
            connection.savepoint_ids, connection.atomic_blocks = [], []
            connection.close()


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


# Tools that trace statements put a method of their own in its place.
_EXECUTE = vars(CursorWrapper)["execute"]
_UNTRACED = type(_EXECUTE) is FunctionType and _EXECUTE.__code__.co_filename == utils.__file__
# How often a row is tried to be made that others make and take back.
_TURNS = 100


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
        backend: Any = type(connection)
        # A tool may have put its own ``cursor`` there. A method of the class is none: Django leaves
        # one there after a test case.
        put = vars(connection).get("cursor")
        is_looked_at = put is not None and getattr(put, "__func__", None) is not backend.cursor
        if connection.queries_logged or is_looked_at or makes_cursors(backend):
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


def _wire(cursor: CursorWrapper) -> Wire | None:
    """The layer below a cursor of psycopg, which is optional."""
    is_plain = _UNTRACED and type(cursor) is CursorWrapper and apps.ready
    if not is_plain or cursor.db.Database.__name__ != "psycopg":
        return None
    from django_counters.stores.sql.wire import wire_of

    return wire_of(cursor)


class Session:
    """Holds no connection: each thread's own is asked for at each statement."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.dialect = dialect_of(using)
        self.quote = connections[using].ops.quote_name
        self._kept = KeptCursor()

    def commits_at_once(self) -> bool:
        """Whether a statement of this thread is a transaction of its own. Opens no connection."""
        return commits_at_once(self.using)

    def all_or_nothing(self, *, own: bool = True) -> Block:
        """A transaction, or a savepoint in the caller's.

        ``own``: what happens within is ours. The errors of other people's code pass unchanged.
        """
        self.connect()
        return Block(self.using, self.translate, own=own)

    def connect(self) -> None:
        """Open the connection of this thread."""
        try:
            connections[self.using].ensure_connection()
        except Error as error:
            raise self._unreachable(error) from error

    @contextmanager
    def serializable(self, what: str) -> Iterator[None]:
        """A block that others may spoil for a transaction which keeps one snapshot.

        Raises:
            RetryTransaction: they did; ``what`` it was that failed.
        """
        try:
            yield
        except Error as error:
            if self.dialect.unserializable(error):
                raise errors.RetryTransaction(what=what) from error
            raise

    @contextmanager
    def read_committed(self) -> Iterator[None]:
        """A transaction whose statements see what was committed before them, or a savepoint."""
        begins = self.commits_at_once()
        with self.all_or_nothing():
            if begins and self.dialect.several_writers:
                self.execute(READ_COMMITTED)
            yield

    @contextmanager
    def hurried(self, duration: str) -> Iterator[None]:
        """Within a transaction, wait no longer than some milliseconds for locks of others.

        After an error it is the rollback that brings the patience back; else what was set would
        stay in a transaction of the caller.
        """
        if not self.dialect.limits_time:
            yield
            return
        hurry = self.dialect.hurry("lock_timeout")
        ((patience,),) = self.run(self.dialect.patience("lock_timeout"), (), writes=False)
        self.run(hurry, (duration,))
        yield
        self.run(hurry, (patience,))

    def translate(self, error: Error, committing: bool = False) -> None:
        """Raise our own error for one that has a name, of a read or of COMMIT.

        Where the server refuses to commit, it says why. Any other error, such as that of a driver
        that was interrupted, leaves it open; so does a cancellation, which the server also heeds
        just after it has committed.
        """
        if committing and (self.dialect.unexplained(error) or self.dialect.cancelled(error)):
            raise errors.OutcomeUnknown(using=self.using) from error
        self._raise_translated(error, unknown=committing)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise our own errors for those of Django, in a block that uses the ORM."""
        self.connect()
        try:
            yield
        except errors.CounterError:
            raise
        except Error as error:
            self.translate(error)
            raise

    def now(self) -> datetime:
        """The present moment of the database, in UTC: hosts may have wrong clocks."""
        ((microseconds,),) = self.run(self.dialect.present, (), writes=False)
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(microseconds))

    def execute(self, sql: str) -> None:
        """Execute one statement that has no rows."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(sql)

    def copy(self, sql: str, lines: Iterable[bytes]) -> None:
        """Send lines to a COPY, within a transaction."""
        connection = connections[self.using]
        with (
            connection.cursor() as cursor,
            connection.wrap_database_errors,
            cursor.copy(sql) as copy,
        ):
            copy.write(b"".join(lines))

    def count(self, *tables: str) -> int:
        """Return the number of rows of some tables, in one statement for each."""
        counts = (self.run(ROWS.format(table), (), writes=False) for table in tables)
        return sum(int(rows) for ((rows,),) in counts)

    def run(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any], *, writes: bool = True
    ) -> Sequence[tuple[Any, ...]]:
        """Execute one statement and return its rows."""
        if isinstance(sql, Together) and self.commits_at_once():
            with self.all_or_nothing():
                return self.run(sql, params, writes=writes)
        if isinstance(sql, Either):
            return self._changed_or_made(sql, params)
        connection = connections[self.using]
        try:
            kept = self._kept.take(connection)
        except Error as error:
            raise self._unreachable(error) from error
        # A driver that knows already that its connection is lost sends nothing.
        sends = not getattr(connection.connection, "closed", False)
        try:
            rows = kept.run(connection, sql, params)
        except Error as error:
            # An open transaction is rolled back by the database: this is known.
            commits = connection.autocommit and not connection.in_atomic_block
            if connection.in_atomic_block and self.dialect.ended_transaction(error):
                # What follows would be a transaction without what came before.
                connection.needs_rollback = True
            unknown = writes and sends and commits
            if unknown and not kept.tells_all and self.dialect.cancelled(error):
                # The driver's cursor does not tell whether the statement was done before.
                raise errors.OutcomeUnknown(using=self.using) from error
            self._raise_translated(error, unknown=unknown)
            raise
        if len(rows) < 2:
            # A cursor holds on to its last result: not to that of a batch.
            self._kept.give_back(kept)
        return rows

    def _changed_or_made(self, sql: Either, params: Any) -> Sequence[tuple[Any, ...]]:
        """Change a row, or make it. While another transaction makes it, wait to change it.

        Each further turn means that the other transaction was rolled back, or that somebody waits
        for a row beside it. Who waits may be waited for, so the last turn does that.
        """
        for _ in range(_TURNS):
            if rows := self.run(str(sql), params):
                return rows
            try:
                return self.run(sql.make, params)
            except Error as error:
                if not self.dialect.timed_out(error):
                    raise
        return self.run(sql.patient, params)

    def _raise_translated(self, error: Error, *, unknown: bool) -> None:
        """Raise our own error for one that has a name; ``unknown``: it may have been counted."""
        if self.dialect.read_only(error):
            raise errors.ReadOnlyDatabase(using=self.using) from error
        if function := self.dialect.refused_function(error):
            raise errors.FunctionDenied(using=self.using, function=function) from error
        if self.dialect.lost(error):
            raise (
                errors.OutcomeUnknown(using=self.using) if unknown else self._unreachable(error)
            ) from error
        driver = connections[self.using].connection
        if isinstance(error, transaction.TransactionManagementError) and (
            getattr(driver, "closed", False)
        ):
            # It was lost at the end of a savepoint, about which Django raises nothing.
            reason = "the connection was lost in a transaction"
            raise errors.CounterUnavailable(using=self.using, reason=reason) from error

    def _unreachable(self, error: Error) -> errors.CounterUnavailable:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return errors.CounterUnavailable(using=self.using, reason=reason.rstrip("."))


class Owner:
    """Tells the rows of one counter, and those of one kind of counters, from all others."""

    def __init__(self, pending: Pending, session: Session) -> None:
        self._record = pending.record
        self._kinds = ContentType.objects.db_manager(session.using)
        self._session = session

    def kind(self) -> tuple[int, ...]:
        """The content type of the records. Django remembers it, and when to forget it."""
        if self._record is None:
            return ()
        try:
            return (int(self._kinds.get_for_model(self._record[0]).pk),)
        except Error as error:
            self._session.translate(error)
            raise

    def address(self, key: Hashable) -> tuple[Any, ...]:
        """The values of the columns of ``owner`` for one counter."""
        if self._record is None:
            return (key,)
        return (*self.kind(), str(key), self._record[1])

    def scope(self) -> tuple[Any, ...]:
        """What narrows the table down to these counters."""
        return () if self._record is None else (*self.kind(), self._record[1])


def aware(moment: datetime | str, *, local: bool) -> datetime:
    """A moment as the driver gave it, with its time zone.

    ``local``: one without a zone is the time of Django's own zone where ``USE_TZ`` is off; that of
    a column that Django wrote is, and any of PostgreSQL. What we write ourselves is UTC.
    """
    found = parse_datetime(moment) if isinstance(moment, str) else moment
    assert found is not None
    if found.tzinfo is not None:
        return found
    return (
        timezone.make_aware(found) if local and not settings.USE_TZ else found.replace(tzinfo=UTC)
    )


# -- Which database this is, where several share a Redis.

# Databases in the memory of a process all have the same few names.
_PROCESS = secrets.token_hex(6)
# What tests add, so that each of them counts on its own.
_apart = ""


@contextmanager
def isolated() -> Iterator[None]:
    """Count in parts that nothing else knows, in this process."""
    global _apart  # noqa: PLW0603
    before, _apart = _apart, f" {secrets.token_hex(6)}"
    try:
        yield
    finally:
        _apart = before


def isolation() -> str:
    """Return what the innermost block of `isolated` adds; "" outside."""
    return _apart


def part_of(using: str) -> str:
    """Return the text that keeps tenants and tests apart in Redis; "" for a site without tenants.

    A site may call its database by several names, such as that of a pool, so these do not count.
    """
    settings = connections[using].settings_dict
    root, _ = os.path.splitext(str(settings["TEST"].get("NAME") or TEST_DATABASE_PREFIX))
    is_of_tests = _is_in_memory(using) or str(settings["NAME"]).startswith(root)
    name = tenant()
    return (_place_of(using) if is_of_tests else "") + _apart + (name and f"\0{name}")


def _place_of(using: str) -> str:
    name = str(connections[using].settings_dict["NAME"])
    if _is_in_memory(using):
        return f"{name} {_PROCESS}"
    on_disk = connections[using].vendor == "sqlite" and not name.startswith("file:")
    return os.path.realpath(name) if on_disk else name


def _is_in_memory(using: str) -> bool:
    connection: Any = connections[using]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def identity_of(using: str) -> str:
    """What no other database has, not even a restored copy; of SQLite, where its file is."""
    session = Session(using)
    sql = session.dialect.landing
    if not session.dialect.has_server:
        return _place_of(using)
    ((may_ask,),) = session.run(sql.may_ask, (), writes=False)
    ((identity,),) = session.run(sql.whole if may_ask else sql.part, (), writes=False)
    return str(identity)
