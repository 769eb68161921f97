"""Readers of the ledger among transactions that end late: each entry comes once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.models import Counter, CounterDelta, CounterPosition
from django_counters.upkeep import rollup, verify
from tests.concurrency.book import Book
from tests.concurrency.crowd import processes
from tests.concurrency.following import CROWD, WRITERS, among_others
from tests.concurrency.servers import connected
from tests.settling import let_others_end, roll_up

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _connections(transactional_db: None) -> Iterator[None]:
    # The first entry of a counter is waited for.
    Counter.objects.bulk_create(
        [Counter(key=key, value=0, outside=0) for key in ("a", "b", *(f"k:{n}" for n in range(5)))]
    )
    with connected("late"):
        yield


def follow(position: str) -> tuple[list[int], str]:
    page = CounterDelta.objects.since(position)
    return [entry.delta for entry in page], page.position


def test_one_that_commits_late_is_not_passed() -> None:
    with transaction.atomic(using="late"):
        CounterDelta.objects.append("a", 1, using="late")
        CounterDelta.objects.append("b", 2)
        rollup()
        amounts, position = follow("")
        assert amounts == [], "what is before it is not known yet"
    let_others_end()
    amounts, position = follow(position)
    assert amounts == [1, 2]
    assert follow(position)[0] == []


def test_one_that_wrote_elsewhere_first_and_appends_late() -> None:
    with transaction.atomic(using="late"):
        Counter.objects.using("late").filter(key="b").update(value=0)
        CounterDelta.objects.append("a", 2)
        position = follow("")[1]
        CounterDelta.objects.append("a", 1, using="late")
    let_others_end()
    assert follow(position)[0] == [1, 2]


def test_pages_of_transactions_that_write_in_turns() -> None:
    """A page ends within a transaction of which others wrote in the middle."""
    with transaction.atomic(using="late"):
        CounterDelta.objects.append("a", 1, using="late")
        CounterDelta.objects.append("b", 3)
        CounterDelta.objects.append("a", 2, using="late")
    let_others_end()
    amounts, position = [], ""
    while page := CounterDelta.objects.since(position, most=2):
        amounts += [entry.delta for entry in page]
        position = page.position
    assert amounts == [1, 2, 3]


def test_one_that_rolls_back_holds_nothing_up_for_long() -> None:
    with transaction.atomic(using="late"):
        CounterDelta.objects.append("a", 1, using="late")
        CounterDelta.objects.append("a", 2)
        transaction.set_rollback(True, using="late")
    let_others_end()
    assert follow("")[0] == [2]


def test_a_crowd_of_writers_rollups_and_readers() -> None:
    now = clock.now()
    CounterPosition._base_manager.create(source="follower", part="", position="", moved_at=now)
    handled = processes(CROWD, among_others, 60, Book.of(WRITERS))
    entries = {str(token) for token in CounterDelta.objects.values_list("token", flat=True)}
    seen = Counter.objects.filter(key__startswith="seen:").values_list("key", flat=True)
    assert {key.removeprefix("seen:") for key in seen} == entries
    assert sum(handled) == len(entries) > 300
    roll_up()
    assert verify().drifts == []
