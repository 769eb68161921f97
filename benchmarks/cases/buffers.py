"""Counting in the memory of a process, compared with a dictionary, and with Redis."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from django.db import DEFAULT_DB_ALIAS

from benchmarks.capacity.meter import Meter
from benchmarks.cases.cached import client
from benchmarks.cases.cells import spending
from benchmarks.harness import Action, Pair, Side, Stored, Work, adds_up, loop, loops
from benchmarks.inspection import increment, value
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.write.buffer import Buffer
from django_counters.write.files import files_of
from django_counters.write.landing import lander_of
from django_counters.write.leadership import leadership_of

SLICE = 20_000  # calls of one slice; nothing of them leaves the process
CALLS = 500
# Processes of a machine, what all of them count, and how many intervals are a slice.
CREW, HOT, INTERVALS = 8, 20, 20
_numbers = count()


class _Locked:
    """The least that merges increments of several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sums: dict[str, int] = {}

    def increment(self, key: str, by: int = 1) -> None:
        with self._lock:
            self.sums[key] = self.sums.get(key, 0) + by


@contextmanager
def handle() -> Iterator[Pair]:
    """A handle, and a lock around a dictionary."""
    key = f"buffered:{next(_numbers)}"
    mine, theirs = Counter.objects.handle(key), _Locked()
    stored = adds_up(value(key), lambda: theirs.sums.get(key, 0))
    yield loops(mine.increment, partial(theirs.increment, key), stored, SLICE)
    Counter.objects.flush_buffers()


@contextmanager
def filed() -> Iterator[Pair]:
    """A handle whose buffer has a file, and one whose buffer is in memory."""
    mine, theirs = f"filed:{next(_numbers)}", f"buffered:{next(_numbers)}"
    handles = Counter.objects.handle(mine), Counter.objects.handle(theirs)
    stored = adds_up(value(mine), value(theirs))
    yield loops(handles[0].increment, handles[1].increment, stored, SLICE)
    Counter.objects.flush_buffers()


@contextmanager
def buffered() -> Iterator[Pair]:
    """The usual call, with a buffer and without."""
    mine, theirs = f"buffered:{next(_numbers)}", f"pages:buffered{next(_numbers)}"
    stored = adds_up(value(mine), value(theirs))
    yield loops(partial(increment, mine), partial(increment, theirs), stored, CALLS)
    Counter.objects.flush_buffers()


@contextmanager
def leader_server(program: str, space: str) -> Iterator[Pair]:
    """The same in processor time of a server."""
    with client() as server:
        meter = Meter(server)

        def side(action: Action) -> Side:
            return spending(meter, action, 2 * INTERVALS, 1, program)

        with _intervals(side, space) as pair:
            yield pair


@contextmanager
def leader() -> Iterator[Pair]:
    """The buffers of eight processes in one directory, and eight that are landed one by one."""
    with _intervals(lambda act: loop(act, INTERVALS), "shared") as pair:
        yield pair


@contextmanager
def _intervals(side: Callable[[Action], Side], space: str) -> Iterator[Pair]:
    names = [f"{space}:{next(_numbers)}" for _ in range(2 * HOT)]
    together, apart = ([_buffer(space) for _ in range(CREW)] for _ in range(2))
    stored = adds_up(_sum_of(together, names[:HOT]), _sum_of(apart, names[HOT:]))
    yield Pair(
        side(partial(_land_together, together, names[:HOT])),
        side(partial(_land_apart, apart, names[HOT:])),
        stored,
    )
    for one in (*together, *apart):
        one.leave()


def _buffer(space: str) -> Buffer:
    """That of a process: its files and its locks are its own."""
    policy = registry.policy(f"{space}:")
    assert policy.buffer, "it declares one"
    files = files_of(policy.recipe, policy.buffer, DEFAULT_DB_ALIAS)
    lander = lander_of(policy.recipe, DEFAULT_DB_ALIAS)
    crew = leadership_of(files, lander, policy.buffer)
    return Buffer(policy.buffer, lander, lambda: True, measured=False, files=files, leadership=crew)


def _count(crew: Sequence[Buffer], names: Sequence[str]) -> None:
    for one in crew:
        for name in names:
            one.add(name, 1)


def _land_together(crew: Sequence[Buffer], names: Sequence[str]) -> None:
    _count(crew, names)
    for one in crew:
        one.take_turn()
    # Its first step was to lead, or to hand over; the second one is to land, or to look for that.
    for one in crew:
        one.take_turn()


def _land_apart(crew: Sequence[Buffer], names: Sequence[str]) -> None:
    _count(crew, names)
    for one in crew:
        one.flush()


def _sum_of(crew: Sequence[Buffer], names: Sequence[str]) -> Stored:
    """How often all of it was counted; each time it is counted by each process once."""

    def stored() -> int:
        # On a busy machine one of them may still wait for its leader.
        for one in crew:
            one.flush()
        return sum(Counter.objects.values_of(names).values()) // (CREW * HOT)

    return stored


CASES: Mapping[str, Work] = {
    "buffer-handle": Work(handle),
    "buffer-handle-file": Work(filed),
    "buffer-increment": Work(buffered),
    "buffer-leader": Work(leader),
    "buffer-leader-database": Work(partial(leader_server, "database", "shared")),
    "buffer-leader-redis": Work(partial(leader_server, "redis", "filed")),
}
