"""Ways that fail between a cache and the database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.core.cache import cache
from django.db import transaction
from django.db.models import F

from django_counters.cached.flush import flush
from django_counters.models import Counter
from example_project.demonstrations.actors import Work, actors, alone
from example_project.demonstrations.outcome import Demonstration, Outcome
from example_project.demonstrations.tables import Page

# What is counted in the cache; the page has no other key.
KEY = "demonstration"


class Killed(BaseException):
    """Ends a flush where it stands, as SIGKILL would: nothing of it is done any more."""


def _visited(times: int) -> Page:
    cache.set(KEY, 0, None)
    for _ in range(times):
        cache.incr(KEY)
    return Page.objects.create()


def _every_minute(pk: int) -> Work:
    views = cache.get(KEY)
    yield
    Page.objects.filter(pk=pk).update(views=F("views") + views)
    yield
    cache.set(KEY, 0, None)


def _landed(expected: int, page: Page) -> Outcome:
    page.refresh_from_db()
    cache.delete(KEY)
    return Outcome(expected, page.views)


def _get_and_set() -> Outcome:
    page = _visited(3)
    with actors(_every_minute(page.pk)) as (job,):
        job.goes_on()
        cache.incr(KEY)
        job.ends()
    alone(_every_minute(page.pk))
    return _landed(4, page)


def _killed_after_update() -> Outcome:
    page = _visited(3)
    with actors(_every_minute(page.pk)) as (job,):
        job.goes_on()
        job.goes_on()
        # It is left here: the update is done, the set is not.
    alone(_every_minute(page.pk))
    return _landed(3, page)


def _at(wanted: str, call: Callable[[], object], name: str) -> None:
    """A step of a flush: make the call before the one that is wanted."""
    if name == wanted:
        call()


def _count_during_a_flush() -> Outcome:
    key = "views:a"
    for _ in range(3):
        Counter.objects.increment(key)
    between = partial(Counter.objects.increment, key)
    flush(step=partial(_at, "apply", _once(between)))
    flush()
    return Outcome(4, _in_the_total(key))


def _in_the_total(key: str) -> int:
    """What has landed in the database; what waits in Redis is no part of it."""
    return int(Counter.objects.get(key=key).value)


def _once(call: Callable[[], object]) -> Callable[[], None]:
    left = [call]

    def do() -> None:
        if left:
            left.pop()()

    return do


def _kill_a_flush() -> Outcome:
    key = "views:b"
    for _ in range(3):
        Counter.objects.increment(key)
    try:
        flush(step=partial(_at, "acknowledge", _die))
    except Killed:
        flush()
    return Outcome(3, _in_the_total(key))


def _die() -> None:
    raise Killed


def _undone(change: Callable[[], object]) -> None:
    with transaction.atomic():
        change()
        transaction.set_rollback(True)


def _incr_and_roll_back() -> Outcome:
    cache.set(KEY, 0, None)
    _undone(partial(cache.incr, KEY))
    return Outcome(0, int(cache.get(KEY)))


def _count_and_roll_back() -> Outcome:
    _undone(partial(Counter.objects.increment, "views:c"))
    return Outcome(0, Counter.objects.value("views:c"))


WAYS = {
    "cache-get-and-set": Demonstration(_get_and_set, _count_during_a_flush),
    "killed-after-update": Demonstration(_killed_after_update, _kill_a_flush),
    "rolled-back": Demonstration(_incr_and_roll_back, _count_and_roll_back),
}
