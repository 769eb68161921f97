"""The same faults, met by three common ways: `F()`, `INCR` and a job that saves, `INCR` alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from django.core.cache import cache
from django.db import OperationalError, connection, transaction
from django.db.models import F

from example_project.demonstrations.actors import PATIENCE, Actor, Work, actors, alone, in_turn
from example_project.demonstrations.outcome import Outcome
from example_project.demonstrations.tables import Page

_numbers = itertools.count()


class Way(Protocol):
    """One counter of a page, kept in one of these ways."""

    page: Page

    def add(self, by: int = 1) -> None: ...
    def take(self) -> bool: ...
    def save(self) -> Work: ...
    def value(self) -> int: ...
    def lose_answer(self) -> None: ...


class Column:
    """`filter().update(views=F("views") + 1)`."""

    def __init__(self) -> None:
        self.page = Page.objects.create()
        self._rows = Page.objects.filter(pk=self.page.pk)

    def add(self, by: int = 1) -> None:
        """One statement."""
        self._rows.update(views=F("views") + by)

    def take(self) -> bool:
        """One statement, which has the condition in it."""
        return bool(self._rows.filter(views__gte=1).update(views=F("views") - 1))

    def save(self) -> Work:
        """Do nothing: the column is the count."""
        yield

    def value(self) -> int:
        """Return the column."""
        return self._rows.get().views

    def lose_answer(self) -> None:
        """End the connection after the commit."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


class RedisAlone:
    """`cache.incr()` of django-redis: the number stays in Redis."""

    def __init__(self) -> None:
        self.page = Page.objects.create()
        self._key = f"peer:{next(_numbers)}"
        cache.set(self._key, 0, None)

    def add(self, by: int = 1) -> None:
        """One command; a transaction of the database doesn't matter to it."""
        cache.incr(self._key, by)

    def take(self) -> bool:
        """Decrement, and undo it if nothing was left."""
        if cache.decr(self._key) >= 0:
            return True
        cache.incr(self._key)
        return False

    def save(self) -> Work:
        """Do nothing: Redis has the count."""
        yield

    def value(self) -> int:
        """Return the number in Redis."""
        return int(cache.get(self._key))

    def lose_answer(self) -> None:
        """End as a client does whose connection is reset after the command has run."""
        raise OperationalError("the connection was reset")


class RedisWithJob(RedisAlone):
    """`cache.incr()`, and a job that adds the number to the column with `F()`."""

    def save(self) -> Work:
        """Read the number, add it to the column, and take what was read off the number."""
        views = cache.get(self._key)
        yield
        Page.objects.filter(pk=self.page.pk).update(views=F("views") + views)
        yield
        cache.decr(self._key, views)

    def value(self) -> int:
        """Run the job once more, and return the column."""
        alone(self.save())
        self.page.refresh_from_db()
        return self.page.views


WAYS: Mapping[str, Callable[[], Way]] = {
    "F()": Column,
    "INCR and a job": RedisWithJob,
    "django-redis": RedisAlone,
}


def _visit(way: Way) -> Work:
    Page.objects.get(pk=way.page.pk)
    yield
    way.add()


def _read_add_write(way: Way) -> Outcome:
    in_turn(_visit(way), _visit(way))
    return Outcome(2, way.value())


def _rename(way: Way) -> Work:
    page = Page.objects.get(pk=way.page.pk)
    yield
    page.title = "new"
    page.save()


def _stale_save(way: Way) -> Outcome:
    with actors(_rename(way)) as (editor,):
        editor.goes_on()
        way.add()
        alone(way.save())
        editor.ends()
    return Outcome(1, way.value())


def _sell(way: Way, sold: list[bool]) -> Work:
    yield
    sold.append(way.take())


def _check_then_decrement(way: Way) -> Outcome:
    way.add()
    sold: list[bool] = []
    in_turn(_sell(way, sold), _sell(way, sold))
    return Outcome(1, sum(sold))


def _count_each(*ways: Way) -> Work:
    with transaction.atomic():
        for way in ways:
            way.add()
            yield


def _any_order(make: Callable[[], Way]) -> Outcome:
    ways = make(), make()
    with actors(_count_each(*ways), _count_each(*ways[::-1])) as both:
        for actor in both:
            actor.goes_on()
        waiting = [actor.begins() for actor in both]
        refused = str([error for future in waiting if (error := future.exception(PATIENCE))])
        _end(both, [future.exception() is None for future in waiting])
    remark = "deadlock detected" if "deadlock detected" in refused else ""
    return Outcome(4, sum(way.value() for way in ways), remark)


def _end(going: list[Actor], alive: list[bool]) -> None:
    for actor, goes_on in zip(going, alive, strict=True):
        if goes_on:
            actor.ends()


def _twice(way: Way) -> Work:
    yield
    try:
        way.add()
        way.lose_answer()
    except OperationalError:
        connection.close()
        way.add()


def _try_again(way: Way) -> Outcome:
    alone(_twice(way))
    return Outcome(1, way.value())


def _add_late(way: Way) -> Work:
    with transaction.atomic():
        way.add()
        yield


def _add_up_what_is_new(way: Way) -> Outcome:
    way.add()
    with actors(_add_late(way)) as (late,):
        # Where the late visit holds the row, the other one waits for it: it comes first here.
        way.add()
        late.goes_on()
        alone(way.save())
        late.ends()
    return Outcome(3, way.value())


def _cache_get_and_set(way: Way) -> Outcome:
    way.add(3)
    with actors(way.save()) as (job,):
        job.goes_on()
        way.add()
        job.ends()
    return Outcome(4, way.value())


def _killed_after_update(way: Way) -> Outcome:
    way.add(3)
    with actors(way.save()) as (job,):
        job.goes_on()
        job.goes_on()
        # It is left here: the update is done, and the number in Redis is still there.
    return Outcome(3, way.value())


def _roll_back(way: Way) -> Work:
    with transaction.atomic():
        way.add()
        transaction.set_rollback(True)
    yield


def _rolled_back(way: Way) -> Outcome:
    alone(_roll_back(way))
    return Outcome(0, way.value())


SCENES: Mapping[str, Callable[[Any], Outcome]] = {
    "read-add-write": _read_add_write,
    "stale-save": _stale_save,
    "check-then-decrement": _check_then_decrement,
    "any-order": _any_order,
    "try-again": _try_again,
    "add-up-what-is-new": _add_up_what_is_new,
    "cache-get-and-set": _cache_get_and_set,
    "killed-after-update": _killed_after_update,
    "rolled-back": _rolled_back,
}


def outcomes(name: str) -> dict[str, Outcome]:
    """Return what each of these ways counts in one scene."""
    scene = SCENES[name]
    return {way: scene(make if scene is _any_order else make()) for way, make in WAYS.items()}
