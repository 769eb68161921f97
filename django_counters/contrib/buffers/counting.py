"""Counting through buffers: the changes that wait in them, their values, handles and flushes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from asgiref.sync import AsyncToSync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections

from django_counters.contrib.buffers.buffer import Buffer, PendingAmount
from django_counters.contrib.buffers.files import HIGH, LOW
from django_counters.contrib.buffers.options import Buffering
from django_counters.contrib.buffers.pages import entry_of, is_mergeable
from django_counters.contrib.buffers.process import buffers
from django_counters.contrib.buffers.threads import in_event_loop
from django_counters.errors import CounterUnavailable, InvalidConfiguration, UnsupportedBounds
from django_counters.event import PLAIN
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql import session
from django_counters.stores.sql.incidents import record_unsent
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.tables import NAMED
from django_counters.twins import alters_data, twin
from django_counters.types import UNBOUNDED, Delta, Unknown, check_integer, namespace_of, sums_of
from django_counters.write.changes import Change, Ref, named
from django_counters.write.collector import within_synchronous_code
from django_counters.write.pages import SOURCE, Page
from django_counters.write.pipeline import change

#: Why the value of a change is `Unknown`.
BUFFERED = "it waits in the buffer of this process"
_ONE = 1


class BufferIntake(Buffering):
    """Puts the changes of a namespace into the buffers of this process; see `Intake`."""

    __slots__ = ()
    reason = "increments in the buffers of other processes are not known"

    def keep(self, change: Change) -> Unknown | None:
        """Put a change into the buffer of its counter; None if it is counted without one.

        Within a transaction, when that commits. In a test case, which is always rolled back, and
        if the buffer has no room, it is counted without one.

        Raises:
            UnsupportedBounds: no process knows the pending changes of others.
            CounterUnavailable: the buffer is full, in a signal handler that interrupted a
                statement.
        """
        ref = change.ref
        if change.token is not None or change.immediately:
            return None
        if change.bounds is not UNBOUNDED:
            raise UnsupportedBounds(key=ref.label, strategy="buffered")
        return self.keep_delta(ref, change.delta)

    def keep_delta(self, ref: Ref, delta: Delta) -> Unknown | None:
        """Put the delta of a change into a buffer, as `keep` does."""
        using, entry = ref.using, entry_of(delta)
        if entry is None:
            return None
        buffer = buffers.of(ref, self)
        if not session.commits_at_once(using):
            if session.is_of_a_test_case(using):
                return None
            sums = {(delta.key, cell): by for cell, by in sums_of(delta)}
            SqlLanded(NAMED, using).after_commit(sums, buffer.put, merge=True)
            return Unknown(ref.text, Unknown.COMMIT)
        if buffer.add(entry, delta.by):
            return Unknown(ref.text, BUFFERED)
        if session.interrupts_statement(using):
            raise CounterUnavailable(
                using=using,
                reason="the buffer is full, and this signal handler has interrupted a statement",
            )
        return None

    def akeep(self, change: Change) -> Unknown | None:
        """`keep` for async code, where no transaction is open; None if that needs a thread."""
        ref = change.ref
        if ref.measure is not None or change.event is not PLAIN:
            return None
        if not is_mergeable(change.by) or not buffers.of(ref, self).add(ref.text, change.by):
            return None
        return Unknown(ref.text, BUFFERED)

    def pending(self, keys: Collection[str], using: str) -> Before | None:
        """Return what buffers have of counters, before these are read; None if there are none."""
        return Before(keys, using, self) if buffers.are_there else None


class Before:
    """The pending amounts of counters before their values are read.

    A page that is flushed concurrently may be in these values, or not. So `after` looks again: if
    nothing was sent, and the same pages are counted as before, the sum is known.

    Args:
        keys: the counters.
        using: the database.
        buffering: the declaration of their namespaces.
    """

    def __init__(self, keys: Collection[str], using: str, buffering: Buffering) -> None:
        self._using = using
        self._buffering = buffering
        self._held = self._look(keys)
        self._landed = self._claims()

    def after(self) -> tuple[dict[str, int], list[str]]:
        """Return the amounts to add to the values, and the counters to read again."""
        landed = self._claims()
        now = self._look(self._held)
        known: dict[str, int] = {}
        again = []
        for key, held in self._held.items():
            stands = key in now and held.marks <= now[key].marks
            if stands and all(landed[page] == self._landed[page] for page, _ in held.sent):
                known[key] = held.amount + sum(by for page, by in held.sent if not landed[page])
            else:
                again.append(key)
        return known, again

    def _look(self, keys: Collection[str]) -> Mapping[str, PendingAmount]:
        found: dict[str, PendingAmount] = {}
        for key in keys:
            found.update(self._buffer_of(key).held([key]))
        return found

    def _buffer_of(self, key: str) -> Buffer:
        return buffers.of(named(key, self._using), self._buffering)

    def _claims(self) -> dict[Page, bool]:
        """Return whether each sent page is counted. Asks once for each page."""
        found: dict[Page, bool] = {}
        for key, held in self._held.items():
            lander = self._buffer_of(key).lander
            for page, _ in held.sent:
                if page not in found:
                    found[page] = lander.has_landed(page)
        return found


class _Unsure:
    """Stands for a connection that may have a transaction open."""

    in_atomic_block = True


class _ThreadConnection(threading.local):
    """The connection of this thread, with its open transaction.

    Getting it from Django takes longer than all else. An event loop has other connections than the
    thread it runs in, so there each call gets it from Django.
    """

    def __init__(self, using: str) -> None:
        present: Any = connections[using]
        sure = present.settings_dict["AUTOCOMMIT"] and not in_event_loop()
        self.connection: Any = present if sure else _Unsure()


class Handle:
    """Counts one counter in the buffer of this process.

    Attributes:
        key: the counter.
    """

    __slots__ = ("_buffer", "_cell", "_entry", "_here", "_ref", "key")

    def __init__(self, ref: Ref) -> None:
        if not isinstance(ref.intake, BufferIntake):
            problem = f"{namespace_of(ref.text)!r} declares no BUFFER, which a handle counts in"
            raise InvalidConfiguration(problem=problem)
        self.key = ref.text
        self._ref = ref
        self._buffer = buffers.of(ref, ref.intake)
        self._here = _ThreadConnection(ref.using)
        # Where its amount is in the file, if there is one: looked up once for each file.
        self._cell: tuple[memoryview[int] | None, int] = (None, 0)
        # A counter by period has another entry in each period: no buffer has this one.
        self._entry: Any = self.key if ref.measure is None else ""

    @alters_data
    def increment(self, by: int = 1) -> None:
        """Add ``by`` to the counter, in memory; within a transaction when that commits.

        It is flushed within the ``seconds`` of the namespace. Any number of threads, event loops
        and forked children can share a handle. If the buffer is full, this call flushes it, or
        counts the change by itself, and then raises what `CounterManager.increment` raises. In an
        event loop that synchronous code waits for, the thread of that code counts it next, in its
        transaction if it has one. If that fails, the change becomes an incident.

        Raises:
            InvalidDelta: ``by`` isn't an integer.
        """
        if by is not _ONE:
            by = check_integer(by)
            if not by:
                return
            if not is_mergeable(by):
                self._change(by)
                return
        if self._here.connection.in_atomic_block:
            self._change(by)
            return
        buffer = self._buffer
        cells, place = self._cell
        with buffer.lock:
            interval = buffer.interval
            if cells is interval.cells and self._entry in interval.entries:
                amount = interval.entries[self._entry] + by
                if cells is None:
                    interval.entries[self._entry] = amount
                    return
                if LOW <= amount <= HIGH:
                    cells[place] = interval.entries[self._entry] = amount
                    return
        self._change(by)
        self._cell = buffer.cell_of(self._entry)

    @alters_data
    def decrement(self, by: int = 1) -> None:
        """Subtract ``by`` from the counter; see `increment`."""
        self.increment(-check_integer(by))

    def _change(self, by: int) -> None:
        """Count it as any other change."""
        asked = Change(self._ref, by)
        if has_to_be_async():
            if within_synchronous_code():
                # Only the thread that waits for us sees whether it has a transaction open.
                hand_over(partial(_change_unheard, asked))
                return
            if self._entry and is_mergeable(by) and self._buffer.add(self.key, by):
                return
            _know(self._ref)
        change(asked)

    def __repr__(self) -> str:
        return f"<handle: {self.key}>"


def _change_unheard(asked: Change) -> None:
    """Count for a caller that didn't wait. An error becomes an incident."""
    ref = asked.ref
    try:
        change(asked)
    except Exception as error:
        record_unsent(ref.using, SOURCE, {ref.text: asked.by}, error)
        raise


def hand_over(work: Callable[[], object]) -> None:
    """Give work to the thread that waits for this event loop, without waiting for it.

    Raises:
        SynchronousOnlyOperation: that thread isn't known.
        RuntimeError: it doesn't wait any more.
    """
    current = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    waiting = getattr(AsyncToSync, "loop_thread_executors", {})
    found: Executor | None = current or waiting.get(asyncio.get_running_loop())
    if found is None:
        raise SynchronousOnlyOperation("Which thread waits for this event loop is not known.")
    found.submit(work)


def has_to_be_async() -> bool:
    """Return whether this is an event loop, in which Django forbids the use of the database."""
    return in_event_loop() and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")


def _know(ref: Ref) -> None:
    """Load the measure of a counter in a thread, and wait for it: once in a process."""
    measures = registry.measures(ref.using)

    def ask(measure: Measure) -> None:
        try:
            measures.ensure(measure)
        finally:
            connections[ref.using].close()

    if ref.measure is not None and not measures.knows(ref.measure):
        with ThreadPoolExecutor(1, "django_counters_measure") as apart:
            apart.submit(ask, ref.measure).result()


def handle(key: str, *, using: str | None = None) -> Handle:
    """Return the shortest way to one counter, for the hottest paths.

    Keep it: to make a handle takes longer than to count. It also counts in children of the process.

    Raises:
        InvalidKey: ``key`` can't be a key.
        InvalidConfiguration: its namespace declares no ``BUFFER``.
    """
    return Handle(named(key, using))


@alters_data
def flush(*, using: str | None = None) -> int:
    """Flush the buffers of this process, and return the number of sums that were flushed.

    Other processes keep their pending increments.

    Args:
        using: the database; all, if None.

    Raises:
        Busy, CounterUnavailable, OutcomeUnknown: the rest is still pending, and is flushed later.
        RuntimeError: the caller has a transaction, which could undo the flush.
    """
    for key, _ in buffers.those_of(using):
        session.refuse_transaction(key.using)
    return buffers.flush(using)


aflush = twin(flush)
