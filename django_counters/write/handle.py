"""The shortest way to one counter: everything but adding is done once."""

from __future__ import annotations

import os
import threading
from typing import Any

from django.db import connections

from django_counters.exceptions import InvalidConfiguration
from django_counters.types import check_delta, namespace_of
from django_counters.write.buffers import buffers
from django_counters.write.change import Change, Ref
from django_counters.write.native import in_event_loop
from django_counters.write.pipeline import change

_ONE = 1


class _Unsure:
    """A connection of which nobody knows whether a transaction is open."""

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

    __slots__ = ("_buffer", "_entry", "_here", "_ref", "key")

    def __init__(self, ref: Ref) -> None:
        if ref.buffer is None:
            problem = f"{namespace_of(ref.text)!r} declares no BUFFER, which a handle counts in"
            raise InvalidConfiguration(problem=problem)
        self.key = ref.text
        self._ref = ref
        self._buffer = buffers.of(ref)
        self._here = _Here(ref.using)
        # What is counted by period has another entry in each of them: no buffer has this one.
        self._entry: Any = self.key if ref.measure is None else ""

    def increment(self, by: int = 1) -> None:
        """Add ``by`` to the counter, in memory; within a transaction when that commits.

        It lands within the seconds that the namespace declares. Safe in any number of threads, in
        event loops, and in children of the process. Where the buffer is full it is landed by this
        call, or the change is counted by itself: then this raises what `increment` of the manager
        does.

        Raises:
            InvalidDelta: ``by`` is no integer other than zero.
        """
        if by is not _ONE:
            by = check_delta(by)
        if self._here.connection.in_atomic_block:
            self._change(by)
            return
        buffer = self._buffer
        with buffer.lock:
            if self._entry in buffer.entries:
                buffer.entries[self._entry] += by
                return
        self._change(by)

    def decrement(self, by: int = 1) -> None:
        """Subtract ``by`` from the counter; see `increment`."""
        self.increment(-check_delta(by))

    def _change(self, by: int) -> None:
        """Count in the way that asks everything."""
        here = self._entry and in_event_loop() and not _may_have_transactions()
        if here and self._buffer.add(self.key, by):
            return
        change(Change(self._ref, by))

    def __repr__(self) -> str:
        return f"<handle: {self.key}>"


def _may_have_transactions() -> bool:
    """Whether Django lets synchronous code in an event loop use the database."""
    return bool(os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"))
