"""Holding one article, by many processes, compared with taking it in other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from django.db import transaction
from django.db.models import F

from benchmarks.cases.exact import STOCK, naive_value
from benchmarks.harness import Pair, Work, adds_up, lasting
from benchmarks.models import NaiveCounter, Reserved
from benchmarks.team import processes
from django_counters.contrib import holds
from django_counters.models import Counter
from example_project.scratch import tables

WRITERS = 8


def _put(key: str) -> None:
    Counter.objects.increment(key, STOCK)


def _put_naive(key: str) -> None:
    NaiveCounter.objects.create(key=key, value=STOCK)


def hold(key: str) -> None:
    """Take one, with a row that says until when."""
    holds.hold(key)


def hold_and_sell(key: str) -> None:
    """The same, and sell it."""
    holds.hold(key).commit()


def decrement(key: str) -> None:
    """Take one, and nothing else."""
    Counter.objects.decrement(key)


def locked(key: str) -> None:
    """As one writes it without a library."""
    with transaction.atomic():
        row = NaiveCounter.objects.select_for_update().get(key=key)
        if row.value < 1:
            raise AssertionError("sold out")
        Reserved.objects.create(key=key, quantity=1)
        row.value = F("value") - 1
        row.save()


@contextmanager
def _beside(
    mine: Callable[[str], object], theirs: Callable[[str], object], seconds: float
) -> Iterator[Pair]:
    naive = theirs is locked
    put, left = (_put_naive, naive_value) if naive else (_put, Counter.objects.value)
    name = f"{mine.__name__}:{theirs.__name__}"
    keys = f"stock:{name}", f"stock:{name}:reference"
    with tables(Reserved), processes(WRITERS) as team:
        _put(keys[0])
        put(keys[1])
        verify = adds_up(lambda: -Counter.objects.value(keys[0]), lambda: -left(keys[1]))
        ways = partial(mine, keys[0]), partial(theirs, keys[1])
        subject, reference = (team.side(way, seconds) for way in ways)
        yield Pair(subject, reference, verify)


CASES: Mapping[str, Work] = {
    "hold": lasting(partial(_beside, hold, decrement)),
    "hold-sold": lasting(partial(_beside, hold_and_sell, decrement)),
    "hold-naive": lasting(partial(_beside, hold, locked)),
}
