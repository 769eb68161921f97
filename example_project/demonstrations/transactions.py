"""Ways that fail around a commit: keys in any order, trying again, adding up what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db import OperationalError, connection, transaction
from django.db.models import F

from django_counters.models import Counter
from django_counters.upkeep import rollup
from example_project.demonstrations.actors import PATIENCE, Work, actors, alone
from example_project.demonstrations.outcome import Demonstration, Outcome
from example_project.demonstrations.tables import Change, Page


def _count_each(keys: Sequence[str]) -> Work:
    with transaction.atomic():
        for key in keys:
            Counter.objects.increment(key)
            yield


def _any_order() -> Outcome:
    keys = ["clicks:a", "clicks:b"]
    with actors(_count_each(keys), _count_each(keys[::-1])) as (one, other):
        one.goes_on()
        other.goes_on()
        # Each of them holds what the other one asks for now.
        waiting = [one.begins(), other.begins()]
        refused = [error for future in waiting if (error := future.exception(PATIENCE))]
        for actor, future in zip((one, other), waiting, strict=True):
            if not future.exception():
                actor.ends()
    remark = "deadlock detected" if "deadlock detected" in str(refused) else ""
    return Outcome(4, sum(Counter.objects.values_of(keys).values()), remark)


def _count_all(keys: Sequence[str]) -> Work:
    with transaction.atomic():
        Counter.objects.increment_many(dict.fromkeys(keys, 1))
        yield


def _one_batch() -> Outcome:
    keys = ["taps:a", "taps:b"]
    with actors(_count_all(keys), _count_all(keys[::-1])) as (one, other):
        one.goes_on()
        waiting = other.begins()
        one.ends()
        waiting.result(PATIENCE)
        other.ends()
    return Outcome(4, sum(Counter.objects.values_of(keys).values()))


def _without_an_answer(change: Callable[[], object]) -> None:
    """Make a change, and lose the connection before its answer has arrived.

    Raises:
        OperationalError: the server has ended the connection. The change is committed.
    """
    change()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def _twice(change: Callable[[], object]) -> Work:
    """Make a change, and again if its answer is lost."""
    yield
    try:
        _without_an_answer(change)
    except OperationalError:
        connection.close()
        change()


def _retry() -> Outcome:
    alone(_twice(lambda: Counter.objects.increment("orders:a")))
    return Outcome(1, Counter.objects.value("orders:a"))


def _retry_with_token() -> Outcome:
    alone(_twice(lambda: Counter.objects.increment("orders:b", token="order-4711")))
    return Outcome(1, Counter.objects.value("orders:b"))


def _log() -> Work:
    with transaction.atomic():
        Change.objects.create(by=1)
        yield


def _roll_up(page: Page, last: int) -> int:
    """Add up the changes after ``last``; return the last one that was seen."""
    rows = list(Change.objects.filter(id__gt=last).order_by("id"))
    Page.objects.filter(pk=page.pk).update(views=F("views") + sum(row.by for row in rows))
    return rows[-1].pk if rows else last


def _what_is_new() -> Outcome:
    page = Page.objects.create()
    Change.objects.create(by=1)
    with actors(_log()) as (late,):
        late.goes_on()
        Change.objects.create(by=1)
        last = _roll_up(page, 0)
        late.ends()
    _roll_up(page, last)
    page.refresh_from_db()
    return Outcome(3, page.views)


def _append() -> Work:
    with transaction.atomic():
        Counter.objects.increment("entries:a")
        yield


def _ledger() -> Outcome:
    Counter.objects.increment("entries:a")
    with actors(_append()) as (late,):
        late.goes_on()
        Counter.objects.increment("entries:a")
        rollup()
        late.ends()
    rollup()
    return Outcome(3, Counter.objects.value("entries:a"))


WAYS = {
    "any-order": Demonstration(_any_order, _one_batch),
    "try-again": Demonstration(_retry, _retry_with_token),
    "add-up-what-is-new": Demonstration(_what_is_new, _ledger),
}
