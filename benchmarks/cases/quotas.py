"""Counting within the quota of a month, by many processes, compared with a row for each month."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from django.db import transaction
from django.db.models import F

from benchmarks.cases.exact import naive_value
from benchmarks.harness import Pair, Work, adds_up, lasting
from benchmarks.models import NaiveCounter
from benchmarks.team import processes
from django_counters.models import Counter

WRITERS = 8
QUOTA = 10**12


def within(key: str) -> None:
    """An increment that a quota may refuse."""
    Counter.objects.increment(f"calls:{key}")


def counted(key: str) -> None:
    """An increment that counts the month, and has no quota."""
    Counter.objects.increment(f"monthly:{key}")


def locked(key: str) -> None:
    """As one writes it without a library; it knows no total, and no other month."""
    with transaction.atomic():
        row = NaiveCounter.objects.select_for_update().get(key=key)
        if row.value >= QUOTA:
            raise AssertionError("the quota is used up")
        row.value = F("value") + 1
        row.save()


@contextmanager
def _beside(theirs: Callable[[str], object], seconds: float) -> Iterator[Pair]:
    key = f"quota:{theirs.__name__}"
    if theirs is locked:
        NaiveCounter.objects.create(key=key)
        left = partial(naive_value, key)
    else:
        left = partial(Counter.objects.value, f"monthly:{key}")
    with processes(WRITERS) as team:
        verify = adds_up(partial(Counter.objects.value, f"calls:{key}"), left)
        ways = partial(within, key), partial(theirs, key)
        subject, reference = (team.side(way, seconds) for way in ways)
        yield Pair(subject, reference, verify)


CASES: Mapping[str, Work] = {
    "quota": lasting(partial(_beside, counted)),
    "quota-naive": lasting(partial(_beside, locked)),
}
