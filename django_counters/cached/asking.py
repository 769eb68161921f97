"""The questions to Redis and to the database for the values of cached counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from asgiref.sync import sync_to_async
from django.db import Error

from django_counters.cached.store import NO_TOTALS, CachedParts, CachedState, Lease
from django_counters.errors import CounterError, CounterUnavailable, RecordMissing
from django_counters.stores.sql.outbox import SqlLanded

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending

# Steps that synchronous and async code take.

_T = TypeVar("_T")
Steps = Generator[Any, Any, _T]


class Pause(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


def run(steps: Steps[_T], send: Callable[[Any], Any]) -> _T:
    """Take all steps, one after the other; ``send`` answers what is not a function."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _taken(step, send)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: _T = end.value
        return value


async def arun(steps: Steps[_T], send: Callable[[Any], Awaitable[Any]]) -> _T:
    """`run` for async code: functions run in Django's thread for synchronous code."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await _ataken(step, send)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: _T = end.value
        return value


def _taken(step: Any, send: Callable[[Any], Any]) -> Any:
    if isinstance(step, Pause):
        return time.sleep(step.seconds)
    return step() if callable(step) else send(step)


def _ataken(step: Any, send: Callable[[Any], Awaitable[Any]]) -> Awaitable[Any]:
    if isinstance(step, Pause):
        return asyncio.sleep(step.seconds)
    return sync_to_async(step)() if callable(step) else send(step)


# The questions.

# How long a caller waits for another one that asks: a second, which is two turns, then it asks,
# too.
PAUSES = (0.005, 0.01, 0.02, 0.04, *(0.08,) * 12)


_NOTHING = CachedParts(0, 0, 0, exists=False)
# What Redis calls counters, and their keys.
Names = Mapping[str, Hashable]


class Asking:
    """Asks Redis first: what lands meanwhile is then told from what does not.

    Totals that Redis does not know come from the database, and are left there for others. Of those
    who need one at the same time one asks the database, and the others wait for him, or go on with
    a total that is still young enough for them.
    """

    def __init__(self, pending: RedisPending, landed: SqlLanded) -> None:
        self._pending = pending
        self._landed = landed

    def ask(self, counters: Names, max_age: float | None) -> Steps[dict[Hashable, CachedParts]]:
        """The parts of values; exact ones, or those with totals ``max_age`` seconds old."""
        age = NO_TOTALS if max_age is None else int(max_age * 1000)
        found: Mapping[str, CachedState] = yield self._pending.look(counters, age)
        for pause in PAUSES:
            missing = [counter for counter, f in found.items() if f.total is None]
            # A caller that has to ask for one anyway gets the others with the same statement.
            if not missing or not all(found[counter].asked for counter in missing):
                break
            yield Pause(pause)
            found = {**found, **(yield self._pending.look(missing, age))}
        return (yield from self.parts(found, counters))

    def base(
        self, counter: str, key: Hashable, found: CachedState
    ) -> Steps[tuple[Lease, int] | None]:
        """The total of one counter without what waits in Redis, and the lease it goes with.

        Landed increments that still wait there are taken out of it: as long as the lease is good,
        Redis has it, too. None where there is no lease.

        Raises:
            RecordMissing: its record is gone.
        """
        generations = [generation for generation, _ in found.waits]
        amounts, landed = yield partial(self._landed.read_landed, [key], generations)
        total, pending = amounts.get(key) or (None, 0)
        if total is None and not pending and not self._landed.inserts:
            raise RecordMissing(key=self._landed.label(key))
        if found.lease is None:
            return None
        value = (total or 0) + pending
        totals = {counter: value} if landed.isdisjoint(generations) else {}
        yield from self._fill(totals, {counter: found})
        return found.lease, value - sum(by for one, by in found.waits if one in landed)

    def landed_only(self, keys: Sequence[Hashable]) -> Steps[dict[Hashable, CachedParts]]:
        """The parts of values without Redis."""
        amounts, _ = yield partial(self._landed.read_landed, keys, ())
        return {
            key: CachedParts(a.total or 0, a.pending) if (a := amounts.get(key)) else _NOTHING
            for key in keys
        }

    def parts(
        self, found: Mapping[str, CachedState], keys: Names
    ) -> Steps[dict[Hashable, CachedParts]]:
        """The parts of values; totals that Redis does not know come from the database."""
        seen = {
            keys[counter]: CachedParts(f.total, f.pending, f.age)
            for counter, f in found.items()
            if f.total is not None
        }
        unknown = {counter: f for counter, f in found.items() if f.total is None}
        if unknown:
            try:
                seen.update((yield from self._with_totals(unknown, keys)))
            except (CounterError, Error):
                # An early question need not have an answer yet; but a transaction is broken.
                kept = _kept(unknown, keys)
                if len(kept) < len(unknown) or not (yield self._landed.commits_at_once):
                    raise
                seen.update(kept)
        return seen

    def _with_totals(
        self, found: Mapping[str, CachedState], keys: Names
    ) -> Steps[dict[Hashable, CachedParts]]:
        generations = sorted({generation for f in found.values() for generation, _ in f.waits})
        wanted = [keys[counter] for counter in found]
        amounts, landed = yield partial(self._landed.read_landed, wanted, generations)
        seen: dict[Hashable, CachedParts] = {}
        totals: dict[str, int] = {}
        for counter, f in found.items():
            total, pending = amounts.get(keys[counter]) or (None, 0)
            waits = sum(amount for generation, amount in f.waits if generation not in landed)
            exists = total is not None or pending != 0
            seen[keys[counter]] = CachedParts(total or 0, pending + waits, 0, exists)
            # Increments landed since are in this total, and would be added to it once more.
            fillable = exists or self._landed.inserts
            if f.lease and fillable and landed.isdisjoint(g for g, _ in f.waits):
                totals[counter] = (total or 0) + pending
        yield from self._fill(totals, found)
        return seen

    def _fill(self, totals: Mapping[str, int], found: Mapping[str, CachedState]) -> Steps[None]:
        """Leave totals for others, or let others ask who wait for them."""
        # What only this transaction sees is not for others.
        if totals and not (yield self._landed.sees_settled):
            totals = {}
        fills = {
            counter: (totals.get(counter), f.lease)
            for counter, f in found.items()
            if f.lease and (counter in totals or not f.asked)
        }
        if fills:
            # Where it fails, it is asked for again.
            with suppress(CounterUnavailable):
                yield self._pending.fill(fills)


def _kept(found: Mapping[str, CachedState], keys: Names) -> dict[Hashable, CachedParts]:
    """Values with totals that are still good."""
    return {
        keys[counter]: CachedParts(f.kept[0], f.pending, f.kept[1])
        for counter, f in found.items()
        if f.kept
    }
