"""One database, as the stores see it: runs their statements, and says what an error means."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import Error, connections
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_counters.exceptions import (
    CounterError,
    CounterUnavailable,
    FunctionDenied,
    OutcomeUnknown,
    ReadOnlyDatabase,
    RetryTransaction,
)
from django_counters.stores.sql.block import Block, commits_at_once
from django_counters.stores.sql.cursors import KeptCursor
from django_counters.stores.sql.dialects import Pending, dialect_of
from django_counters.stores.sql.dialects.spelling import READ_COMMITTED, Either, Together

# How often a row is tried to be made that others make and take back.
_TURNS = 100


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
                raise RetryTransaction(what=what) from error
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
            raise OutcomeUnknown(using=self.using) from error
        self._raise_translated(error, unknown=committing)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise our own errors for those of Django, in a block that uses the ORM."""
        self.connect()
        try:
            yield
        except CounterError:
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
                raise OutcomeUnknown(using=self.using) from error
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
            raise ReadOnlyDatabase(using=self.using) from error
        if function := self.dialect.refused_function(error):
            raise FunctionDenied(using=self.using, function=function) from error
        if self.dialect.lost(error):
            raise (
                OutcomeUnknown(using=self.using) if unknown else self._unreachable(error)
            ) from error

    def _unreachable(self, error: Error) -> CounterUnavailable:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return CounterUnavailable(using=self.using, reason=reason.rstrip("."))


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
