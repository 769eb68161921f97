"""What processes do to counters while others adjust them. Imports Django only when it runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.concurrency.ledger_work import Book

KEY = "c:a"
CASE = ["e:a", "e:b", "l:a", "s:a"]
DECLARED: dict[str, Any] = {
    "e": {},
    "l": {"STRATEGY": "ledger"},
    "s": {"STRATEGY": "sharded"},
}


@dataclass(frozen=True)
class Scene:
    """Which counter it is: a named one, or a field of a record; and where it is cached."""

    declared: dict[str, Any]
    caches: dict[str, Any]
    model: str = ""
    field: str = ""
    pk: object = None

    @contextmanager
    def settings(self) -> Iterator[None]:
        """What the settings of the test say."""
        from django.test import override_settings

        from django_counters.testing import override_counters

        with override_settings(CACHES=self.caches), override_counters(c=self.declared):
            yield

    def counter(self) -> Any:
        """What can count and adjust."""
        if not self.model:
            return _Named()
        from django.apps import apps

        model: Any = apps.get_model(self.model)
        field: Any = model._meta.get_field(self.field)
        if field.strategy == "cached":
            # The machine of a test may be busy.
            vars(field)["recipe"] = field.recipe._replace(timeout=10)
        return getattr(model._base_manager.get(pk=self.pk), self.field)


class _Named:
    def increment(self) -> Any:
        from django_counters.models import Counter

        return Counter.objects.increment(KEY)

    def adjust(self, **asked: Any) -> Any:
        from django_counters.models import Counter

        return Counter.objects.adjust(KEY, **asked)


@dataclass(frozen=True)
class Met:
    """One adjustment, and how many increments were acknowledged before, and attempted after."""

    number: int
    acknowledged: int
    attempted: int


def under_load(number: int, scene: Scene, times: int, adjusters: int, book: Book) -> Any:
    """Be a writer; or adjust; or roll up and flush until all writers have ended."""
    with scene.settings():
        if number < book.writers:
            try:
                _count(scene.counter(), number, times, book)
            finally:
                book.ended[number] = 1
            return None
        if number < book.writers + adjusters:
            return _adjust(scene.counter(), number, book)
        return _tidy(book)


def _count(counter: Any, number: int, times: int, book: Book) -> None:
    for _ in range(times):
        book.write(number, 0, 1, counter.increment)


def _adjust(counter: Any, number: int, book: Book) -> list[Met]:
    chance = random.Random(number)
    met: list[Met] = []
    while not all(book.ended) or not met:
        amount = chance.randint(-50, 50) or 7
        how = chance.choice(["to", "by"])
        acknowledged, _ = book.sums(0)
        row = counter.adjust(reason="load", actor=f"process {number}", **{how: amount})
        met.append(Met(row.number, acknowledged, book.sums(0)[1]))
    return met


def _tidy(book: Book) -> None:
    from django_counters.upkeep.flush import flush
    from django_counters.upkeep.rollup import rollup

    while not all(book.ended):
        flush()
        rollup()


def take_turns(number: int, times: int, counters: int) -> int:
    """Adjust one of some counters by one, or to one more than was seen; by how much in all."""
    from django_counters.models import Counter

    key = f"c:{number % counters}"
    if number % 3 < 2:
        by = 1 if number % 3 else -1
        for _ in range(times):
            Counter.objects.adjust(key, by=by, reason="turn", actor=str(number))
        return by * times
    return sum(_next(key, number) for _ in range(times))


def _next(key: str, number: int) -> int:
    from django_counters.exceptions import ValueChanged
    from django_counters.models import Counter

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
    from django_counters.models import Counter

    report = Counter.objects.adjust_many(
        by=dict.fromkeys(keys, 5), reason="r", actor=str(number), case="T-17", step=step
    )
    assert not report.refused
    return len(report.changes), report.done


def next_case() -> None:
    """Adjust four counters in two steps; each call that has ended is a case."""
    from django_counters.models import Counter, CounterAdjustment
    from django_counters.testing import override_counters

    case = f"T-{CounterAdjustment.objects.count() // len(CASE)}"
    with override_counters(**DECLARED):
        report = Counter.objects.adjust_many(
            by=dict.fromkeys(CASE, 5), reason="r", actor="ann", case=case, step=2
        )
    assert len(report.changes) == len(CASE)


def against_batches(number: int, keys: list[str], rounds: int) -> None:
    """Adjust many, or count many, of the same counters in an order by chance."""
    from django_counters.models import Counter

    chance = random.Random(number)
    for turn in range(rounds):
        chance.shuffle(keys)
        if number % 2:
            Counter.objects.increment_many(dict.fromkeys(keys, 1))
        else:
            case = f"{number}-{turn}"
            Counter.objects.adjust_many(
                by=dict.fromkeys(keys, 1), reason="r", actor="ann", case=case, step=3
            )
