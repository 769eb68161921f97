"""The shortest way to one counter: everything but adding is done once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from django.db import connections

from django_counters.exceptions import InvalidConfiguration
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.incidents import record_unsent
from django_counters.types import check_integer, namespace_of
from django_counters.write.buffers import buffers
from django_counters.write.change import Change, Ref
from django_counters.write.landing import SOURCE
from django_counters.write.mapped import HIGH, LOW
from django_counters.write.native import (
    hand_over,
    has_to_be_async,
    in_event_loop,
    within_synchronous_code,
)
from django_counters.write.page import is_mergeable
from django_counters.write.pipeline import change

_ONE = 1


class _Unsure:
    """A connection for which it is not known whether a transaction is open."""

    in_atomic_block = True


class _Here(threading.local):
    """The connection of this thread, which knows whether a transaction is open.

    To ask Django for it takes longer than all else. An event loop has other connections than the
    thread it runs in, so there it has to be asked for.
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
        if ref.buffer is None:
            problem = f"{namespace_of(ref.text)!r} declares no BUFFER, which a handle counts in"
            raise InvalidConfiguration(problem=problem)
        self.key = ref.text
        self._ref = ref
        self._buffer = buffers.of(ref)
        self._here = _Here(ref.using)
        # Where its amount is in the file, if there is one: asked once for each file.
        self._cell: tuple[memoryview[int] | None, int] = (None, 0)
        # A counter by period has another entry in each period: no buffer has this one.
        self._entry: Any = self.key if ref.measure is None else ""

    def increment(self, by: int = 1) -> None:
        """Add ``by`` to the counter, in memory; within a transaction when that commits.

        It lands within the seconds that the namespace declares. Safe in any number of threads, in
        event loops, and in children of the process. Where the buffer is full it is landed by this
        call, or the change is counted by itself: then this raises what `increment` of the manager
        does. In an event loop that synchronous code waits for, its thread counts it next, in its
        transaction if it has one: what cannot be counted then is an incident.

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

    def decrement(self, by: int = 1) -> None:
        """Subtract ``by`` from the counter; see `increment`."""
        self.increment(-check_integer(by))

    def _change(self, by: int) -> None:
        """Count in the way that asks everything."""
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
    """Count for a caller who has gone on, and cannot be told."""
    ref = asked.ref
    try:
        change(asked)
    except Exception as error:
        record_unsent(ref.using, SOURCE, {ref.text: asked.by}, error)
        raise


def _know(ref: Ref) -> None:
    """Let a thread ask the database for the measure of a counter, and wait: once in a process."""
    measures = registry.measures(ref.using)

    def ask(measure: Measure) -> None:
        try:
            measures.ensure(measure)
        finally:
            connections[ref.using].close()

    if ref.measure is not None and not measures.knows(ref.measure):
        with ThreadPoolExecutor(1, "django_counters_measure") as apart:
            apart.submit(ask, ref.measure).result()
