"""What processes do to counters while others adjust them."""

from __future__ import annotations

import random
from typing import Any

from django_counters.errors import ValueChanged
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters

# Of increments, in the time of one adjustment of as many counters.
BATCHES = 10
CASE = ["e:a", "e:b", "l:a", "s:a"]
DECLARED: dict[str, Any] = {
    "e": {},
    "l": {"STRATEGY": "ledger"},
    "s": {"STRATEGY": "sharded"},
}


def take_turns(number: int, times: int, counters: int) -> int:
    """Adjust one of some counters by one, or to one more than was seen; by how much in all."""
    key = f"c:{number % counters}"
    if number % 3 < 2:
        by = 1 if number % 3 else -1
        for _ in range(times):
            Counter.objects.adjust(key, by=by, reason="turn", actor=str(number))
        return by * times
    return sum(_next(key, number) for _ in range(times))


def _next(key: str, number: int) -> int:
    seen = Counter.objects.value(key)
    while True:
        try:
            return Counter.objects.adjust(
                key, to=seen + 1, expected=seen, reason="turn", actor=str(number)
            ).delta
        except ValueChanged as error:
            seen = error.current


def one_case(number: int, keys: list[str], step: int) -> tuple[int, int]:
    """Adjust many counters for the one case of all processes."""
    report = Counter.objects.adjust_many(
        by=dict.fromkeys(keys, 5), reason="r", actor=str(number), case="T-17", step=step
    )
    assert not report.refused
    return len(report.changes), report.done


def next_case() -> None:
    """Adjust four counters in two steps; each call that has ended is a case."""
    case = f"T-{CounterAdjustment.objects.count() // len(CASE)}"
    with override_counters(**DECLARED):
        report = Counter.objects.adjust_many(
            by=dict.fromkeys(CASE, 5), reason="r", actor="ann", case=case, step=2
        )
    assert len(report.changes) == len(CASE)


def against_batches(number: int, keys: list[str], rounds: int) -> None:
    """Adjust many, or count many, of the same counters in an order by chance."""
    chance = random.Random(number)
    for turn in range(rounds):
        chance.shuffle(keys)
        if number % 2:
            for _ in range(BATCHES):
                Counter.objects.increment_many(dict.fromkeys(keys, 1))
        else:
            case = f"{number}-{turn}"
            Counter.objects.adjust_many(
                by=dict.fromkeys(keys, 1), reason="r", actor="ann", case=case, step=300
            )
