"""Adjustments: what it costs to say who corrected what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from django.db import connection, transaction

from benchmarks.harness import (
    Pair,
    Work,
    adds_up,
    expect,
    loops,
)
from benchmarks.inspection import value
from django_counters.models import Counter, CounterAdjustment

SLICE = 50  # calls of one slice
MANY = 100  # counters of one case


def _adjust(key: str) -> None:
    Counter.objects.adjust(key, by=1, reason="a benchmark", actor="benchmarks")


@contextmanager
def _statements() -> Iterator[Pair]:
    """The same statements on a bare cursor; each side has rows of its own in the audit."""
    mine = "views:adjusted"
    _adjust(mine)
    insert = (
        f"INSERT INTO {CounterAdjustment._meta.db_table} "
        '(number, field, key, before, after, delta, reason, "case", actor_id, actor_name, '
        "approver_id, approver_name, request_id, created_at, digest) VALUES "
        "(%s, '', 'views:bare', %s, %s, 1, 'a benchmark', '', '', 'benchmarks', '', '', '', "
        "CLOCK_TIMESTAMP(), %s)"
    )

    def bare() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtext('django_counters_adjustments'))::text"
            )
            cursor.execute(
                "INSERT INTO django_counters_counter AS t (key, value, updated_at) "
                "VALUES ('views:bare', 1, CLOCK_TIMESTAMP()) ON CONFLICT (key) DO UPDATE "
                "SET value = t.value + 1 RETURNING value"
            )
            ((value,),) = cursor.fetchall()
            cursor.execute(
                f"SELECT number, digest FROM {CounterAdjustment._meta.db_table} "
                "ORDER BY number DESC LIMIT 1"
            )
            ((number, digest),) = cursor.fetchall()
            cursor.execute(insert, (number + 1, value - 1, value, digest))

    adds = adds_up(value(mine), value("views:bare"))

    def verify(subject: int, reference: int) -> None:
        adds(subject, reference)
        rows = CounterAdjustment.objects.filter(key__in=[mine, "views:bare"])
        expect("the adjustments", rows.count(), 1 + subject + reference)

    yield loops(lambda: _adjust(mine), bare, verify, SLICE)


@contextmanager
def _many() -> Iterator[Pair]:
    """Cases of many counters; the reference adjusts as many one by one."""
    cases = count()
    keys = [f"views:many{number}" for number in range(MANY)]

    def whole() -> None:
        Counter.objects.adjust_many(
            by=dict.fromkeys(keys, 1),
            reason="a benchmark",
            actor="benchmarks",
            case=f"case {next(cases)}",
        )

    def singly() -> None:
        for key in keys:
            _adjust(key)

    def verify(subject: int, reference: int) -> None:
        for key in keys:
            expect(key, Counter.objects.value(key), subject + reference)

    yield loops(whole, singly, verify, 1)


CASES: Mapping[str, Work] = {
    "adjust": Work(_statements),
    "adjust-many": Work(_many, slices=4),  # each is hundreds of adjustments
}
