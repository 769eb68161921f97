"""The collector: increments of a block, merged by key and applied last."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from asgiref.sync import AsyncToSync
from django.db import connections

from django_counters.errors import OutcomeUnknown
from django_counters.registry import registry
from django_counters.tables.schema import COUNTERS
from django_counters.tenants import acting_for, tenant
from django_counters.types import Cell, Sums, merged


class AsyncCollector:
    """The increments of one block; a block within has a buffer of its own until it succeeds."""

    def __init__(self, outer: AsyncCollector | None) -> None:
        self.closed = False
        self._outer = outer
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, Cell | None], int] = {}

    def close(self) -> None:
        """Collect no more."""
        self.closed = True

    def add(self, key: str, parts: Iterable[tuple[Cell | None, int]]) -> None:
        """Keep an increment: that of the total and those of its cells, together."""
        with self._lock:
            for cell, by in parts:
                self._sums[key, cell] = self._sums.get((key, cell), 0) + by

    def absorb(self, sums: Sums[str]) -> None:
        """Keep what a block within has collected."""
        with self._lock:
            for where, by in sums.items():
                self._sums[where] = self._sums.get(where, 0) + by

    def owed(self, key: str) -> int:
        """How much of one counter is collected and not yet applied."""
        outer = self._around()
        return self._sums.get((key, None), 0) + (outer.owed(key) if outer else 0)

    def settle(self, keys: Iterable[str], apply: Callable[[Sums[str]], object]) -> None:
        """Apply what is owed to some counters now; it is committed at once."""
        taken = self._taken(frozenset(keys))
        try:
            apply(merged(sums for _, sums in taken))
        except OutcomeUnknown:
            raise
        except BaseException:
            # Not counted, so it is still owed, and to whom it was.
            for buffer, sums in taken:
                buffer.absorb(sums)
            raise

    def sums(self) -> Sums[str]:
        """All that is collected."""
        with self._lock:
            return merged([self._sums])

    def _taken(self, keys: frozenset[str]) -> list[tuple[AsyncCollector, Sums[str]]]:
        with self._lock:
            own = {where: by for where, by in self._sums.items() if where[0] in keys}
            for where in own:
                del self._sums[where]
        outer = self._around()
        return [(self, own), *(outer._taken(keys) if outer else [])]

    def _around(self) -> AsyncCollector | None:
        """The block around this one; a task may outlive the block in which it began."""
        return None if self._outer is None or self._outer.closed else self._outer


Apply = Callable[[Sums[str]], object]
AsyncApply = Callable[[Sums[str]], Awaitable[object]]
Begin = Callable[[], AbstractContextManager[None]]


class Collector:
    """The increments of one block on one connection, in layers: a new one for each savepoint.

    While the block is open the connection tells of its savepoints, those of ``atomic()`` and those
    made by hand: one that is rolled back takes its layer and all later ones with it. It collects
    until its block ends, also where the end was interrupted and the end could not be noted.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._block = connection.atomic_blocks[-1]
        self._ended = False
        self._savepoints: list[str | None] = []
        self._layers: list[dict[tuple[str, Cell | None], int]] = [{}]

    @property
    def closed(self) -> bool:
        """Whether nothing would apply what is added."""
        return self._ended or self._block not in self.connection.atomic_blocks

    def close(self) -> None:
        """Collect no more."""
        self._ended = True

    def add(self, key: str, parts: Iterable[tuple[Cell | None, int]]) -> None:
        """Keep an increment: that of the total and those of its cells."""
        layer = self._layers[-1]
        for cell, by in parts:
            layer[key, cell] = layer.get((key, cell), 0) + by

    def owed(self, key: str) -> int:
        """How much of one counter is collected and not yet applied."""
        return sum(layer.get((key, None), 0) for layer in self._layers)

    def settle(self, keys: Iterable[str], apply: Apply) -> None:
        """Apply what is owed to some counters now."""
        wanted = frozenset(keys)
        owed = {where: by for where, by in self.sums().items() if where[0] in wanted}
        apply(owed)
        for (key, cell), by in owed.items():
            # Not taken out where it stands: an undone savepoint would undo what is applied here.
            self.add(key, ((cell, -by),))

    def sums(self) -> Sums[str]:
        """All that is collected."""
        return merged(self._layers)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Hear of all savepoints of the connection until the block ends."""
        connection = self.connection
        names = ("savepoint", "savepoint_rollback", "savepoint_commit")
        replaced = {name: vars(connection).get(name) for name in names}
        begin, undo, release = (getattr(connection, name) for name in names)

        def savepoint() -> Any:
            name = begin()
            self._begun(name)
            return name

        def savepoint_rollback(name: str) -> None:
            undo(name)
            self._undone(name)

        def savepoint_commit(name: str) -> None:
            release(name)
            self._released(name)

        vars(connection).update(
            savepoint=savepoint,
            savepoint_rollback=savepoint_rollback,
            savepoint_commit=savepoint_commit,
        )
        try:
            yield
        finally:
            for name, method in replaced.items():
                del vars(connection)[name]
                if method is not None:
                    vars(connection)[name] = method

    def _begun(self, savepoint: str | None) -> None:
        self._savepoints.append(savepoint)
        self._layers.append({})

    def _undone(self, savepoint: str) -> None:
        """All since a savepoint is gone; it stands itself. Since an older one, all is gone."""
        known = savepoint in self._savepoints
        at = self._savepoints.index(savepoint) if known else -1
        del self._savepoints[at + 1 :]
        self._layers[at + 1 :] = [{}]

    def _released(self, savepoint: str) -> None:
        """Increments after a savepoint are now part of those before it."""
        if savepoint in self._savepoints:
            at = self._savepoints.index(savepoint)
            self._layers[at:] = [merged(self._layers[at:])]
            del self._savepoints[at:]


_collectors: ContextVar[Mapping[tuple[str, str], Collector | AsyncCollector]] = ContextVar(
    "django_counters_collectors", default=MappingProxyType({})
)


def collector_of(using: str) -> Collector | AsyncCollector | None:
    """What collects for a database here: on the present connection, and not yet closed."""
    collectors = _collectors.get()
    collector = collectors.get((using, tenant())) if collectors else None
    if collector is None or collector.closed:
        return None
    connection = connections[using]
    if isinstance(collector, AsyncCollector):
        # A transaction of its own decides by itself about its increments.
        return None if connection.in_atomic_block else collector
    return collector if collector.connection is connection else None


@contextmanager
def collecting(using: str, begin: Begin, apply: Apply) -> Iterator[None]:
    """Collect until the block ends, then apply all as the last thing of its transaction."""
    with begin():
        if isinstance(collector_of(using), Collector):
            yield
            return
        collector, name = Collector(connections[using]), tenant()
        # Otherwise nothing would be applied, and the caller not told.
        collector.connection.validate_no_broken_transaction()
        with _known(using, collector), collector.following():
            yield
        # A transaction that is to be rolled back takes everything with it.
        if not collector.connection.needs_rollback:
            with acting_for(name):
                apply(collector.sums())


@asynccontextmanager
async def acollecting(using: str, apply: AsyncApply) -> AsyncIterator[None]:
    """The same for async code, which has no transactions: all is applied after the block."""
    outer = collector_of(using)
    if isinstance(outer, Collector):
        yield
        return
    buffer, name = AsyncCollector(outer), tenant()
    with _known(using, buffer):
        yield
    # A task may outlive the block in which it began.
    if outer is None or outer.closed:
        with acting_for(name):
            await apply(buffer.sums())
    else:
        outer.absorb(buffer.sums())


@contextmanager
def _known(using: str, collector: Collector | AsyncCollector) -> Iterator[None]:
    token = _collectors.set({**_collectors.get(), (using, tenant()): collector})
    try:
        yield
    finally:
        collector.close()
        # A generator may be resumed in another context, where a closed collector does no harm.
        with suppress(ValueError):
            _collectors.reset(token)


# Async code counts without a thread if Redis can be asked from the event loop itself.


def is_native(keys: object, using: str | None, *, writes: bool) -> bool:
    """Whether all of these are cached, and nothing of synchronous code comes into it.

    An app reads the counters that other databases count, too.
    """
    if within_synchronous_code() or not isinstance(keys, Iterable):
        # That code may have a transaction open, which only its own thread can see.
        return False
    if collector_of(COUNTERS.writing(using) if writes else COUNTERS.reading(using)) is not None:
        return False
    names = list(keys)
    return bool(names) and all(
        policy.recipe.can.outside and (writes or policy.spread is None)
        for policy in map(registry.policy, (key for key in names if isinstance(key, str)))
    )


def within_synchronous_code() -> bool:
    """Whether a thread waits for this event loop, and runs what we would give to a thread."""
    waiting = getattr(AsyncToSync, "loop_thread_executors", None)
    current = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    return waiting is None or current is not None or asyncio.get_running_loop() in waiting
