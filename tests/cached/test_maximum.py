"""Cached counters that are raised to a number: what is added lands once, as any increment does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import Unknown
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.errors import (
    Contention,
    CounterOverflow,
    CounterUnavailable,
    RecordMissing,
)
from django_counters.models import Counter, CounterIncident, CounterShard
from django_counters.redis.keys import slot_of
from django_counters.signals import batch_applied
from django_counters.testing import override_counters
from tests.adjustments.adjustables import WHO
from tests.cached.test_fields import column
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.cached.test_round_trips import watched
from tests.testapp.models import Article

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
KEY = "views:peak"
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
LARGEST = 2**53 - 1
Elsewhere = Callable[[Callable[[], Any]], Any]


def maximum(number: int) -> Any:
    return Counter.objects.maximum(KEY, number)


def value() -> int:
    return Counter.objects.value(KEY)


def landed() -> int:
    flush()
    return Counter.objects.get(key=KEY).value


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """What was added, as signals tell it."""
    told: list[int] = []

    def hear(batch: Any, **_: object) -> None:
        told.extend(delta.by for delta in batch.deltas)

    batch_applied.connect(hear)
    yield told
    batch_applied.disconnect(hear)


def test_the_larger_one_stays(heard: list[int]) -> None:
    Counter.objects.increment(KEY, 5)
    assert [maximum(number) for number in (4, 9, 9, -3, 12)] == [5, 9, 9, 9, 12]
    assert landed() == value() == 12
    assert [maximum(number) for number in (12, 13)] == [12, 13]
    Counter.objects.decrement(KEY, 10)
    assert maximum(7) == landed() == value() == 7
    assert heard == [5, 4, 3, 1, -10, 4]


def test_one_round_trip_where_the_total_is_known(cached: str) -> None:
    assert maximum(5) == 5
    with watched(cached) as verbs, CaptureQueriesContext(connection) as queries:
        assert [maximum(number) for number in (7, 3)] == [7, 7]
    assert (verbs, len(queries)) == (["maximum"] * 2, 0)


@pytest.mark.parametrize("at", STEPS)
def test_in_the_middle_of_a_flush(at: str) -> None:
    """Whichever part of it is done, and whether or not Redis knows the total."""
    Counter.objects.increment(KEY, 5)
    raised: list[Any] = []

    def meet(step: str) -> None:
        if step == at and not raised:
            raised.extend([maximum(3), maximum(20), value(), maximum(20)])

    flush(step=meet)
    assert raised == [5, 20, 20, 20]
    assert landed() == value() == maximum(1) == 20
    assert not CounterIncident.objects.exists()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("at", STEPS)
def test_after_a_flush_that_died(at: str, known: bool, cached: str, server: Any) -> None:
    """What has landed may still be in Redis, too."""
    Counter.objects.increment(KEY, 5)
    with pytest.raises(Killed):
        flush(step=kill_at(at))
    if not known:
        server.delete(slots_of("default", cached).keys(slot_of(KEY))[1])
    assert [maximum(number) for number in (3, 20, 8)] == [5, 20, 20]
    assert landed() == value() == 20


def test_in_a_transaction_it_is_raised_on_commit(heard: list[int]) -> None:
    Counter.objects.increment(KEY, 5)
    with transaction.atomic():
        told: Any = maximum(9)
        assert (told.value, told.key, told.reason) == (None, KEY, Unknown.COMMIT)
        maximum(7)
        assert value() == 5
        with pytest.raises(KeyError), transaction.atomic():
            maximum(50)
            raise KeyError
    assert landed() == value() == 9
    with pytest.raises(KeyError), transaction.atomic():
        maximum(50)
        raise KeyError
    with Counter.objects.collect():
        Counter.objects.increment(KEY, 3)
        assert maximum(11).value is None
    assert landed() == value() == 12
    assert heard == [5, 4, 3]


@pytest.mark.parametrize("policy", ["ledger", "exact", "raise"])
def test_while_redis_is_away_it_is_refused(policy: str, heard: list[int]) -> None:
    """Whatever is declared: what waits there is not known, so the value could exceed any number."""
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": policy}):
        with pytest.raises(CounterUnavailable):
            maximum(9)
        with transaction.atomic():
            maximum(8)
    incident = CounterIncident.objects.get()
    assert (incident.kind, incident.detail["maxima"]) == (incident.Kind.LOST, {KEY: 8})
    assert (value(), heard) == (0, [])
    assert maximum(9) == landed() == 9


def test_what_a_script_cannot_compare_is_refused(heard: list[int]) -> None:
    assert maximum(LARGEST) == LARGEST
    for number in (LARGEST + 1, -LARGEST - 1):
        with pytest.raises(CounterOverflow):
            maximum(number)
    Counter.objects.increment(KEY, 1)
    with pytest.raises(CounterOverflow) as caught:
        maximum(3)
    assert (caught.value.key, caught.value.high) == (KEY, LARGEST)
    assert heard == [LARGEST, 1]
    assert landed() == value() == LARGEST + 1


def test_a_field() -> None:
    article = Article.objects.create(reads=5)
    assert article.reads.maximum(3) == article.reads == 5
    assert article.reads.maximum(9) == article.reads == 9
    with transaction.atomic():
        assert article.reads.maximum(11).value is None
    assert (article.reads, column(article, "reads")) == (9, 5)
    flush()
    assert column(article, "reads") == article.reads.value() == 11
    assert async_to_sync(article.reads.amaximum)(12) == 12
    assert async_to_sync(Counter.objects.amaximum)(KEY, 3) == 3
    gone = Article.objects.create()
    Article._base_manager.filter(pk=gone.pk)._raw_delete("default")
    with pytest.raises(RecordMissing):
        gone.reads.maximum(3)


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_where_redis_is_told_no_totals() -> None:
    Counter.objects.increment(KEY, 5)
    assert [maximum(number) for number in (4, 9, 8)] == [5, 9, 9]
    assert landed() == 9
    assert [maximum(number) for number in (8, 10)] == [9, 10]


def test_what_comes_into_the_total_in_another_way() -> None:
    """Redis hears of an adjustment. Of what it does not hear it knows after 5 seconds."""
    assert maximum(5) == 5
    Counter.objects.adjust(KEY, to=50, **WHO)
    assert maximum(20) == 50
    Counter.objects.adjust(KEY, to=1, **WHO)
    assert maximum(20) == landed() == 20


@pytest.mark.parametrize(("seconds", "found"), [(4, 20), (6, 23)])
def test_how_old_a_total_may_be(cached: str, server: Any, seconds: int, found: int) -> None:
    """A total that is too old is asked for, one that is younger may miss something."""
    assert maximum(5) == 5
    CounterShard.objects.increment(KEY, 18)
    base = slots_of("default", cached).keys(slot_of(KEY))[1]
    now, micros = server.time()
    server.hset(base, f"\0m{KEY}", (now - seconds) * 1000 + micros // 1000)
    # At least as much is promised; more, where something was missed.
    assert maximum(20) == found
    assert value() == max(found, 20 + 18 * (seconds < 5))


@pytest.mark.many_writers
@pytest.mark.parametrize("what", ["adjust", "flush", "maximum"])
def test_something_happens_while_the_total_is_asked_for(elsewhere: Elsewhere, what: str) -> None:
    """The total that was found does not go any more with what waits: it is asked for again."""
    Counter.objects.increment(KEY, 5)
    flush()
    Counter.objects.increment(KEY, 2)
    Counter.objects.adjust(KEY, by=1, **WHO)
    ways: dict[str, Callable[[], Any]] = {
        "adjust": lambda: Counter.objects.adjust(KEY, to=30, **WHO),
        "flush": flush,
        "maximum": lambda: maximum(30),
    }
    turns: list[Any] = []

    def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if not turns:
            turns.append(None)
            elsewhere(ways[what])
        return answer

    with connection.execute_wrapper(overtake):
        assert maximum(20) == (20 if what == "flush" else 30)
    assert landed() == value() == (20 if what == "flush" else 30)


@pytest.mark.many_writers
def test_something_is_flushed_each_time_that_the_total_is_asked_for(elsewhere: Elsewhere) -> None:
    def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)

        def count_and_flush() -> None:
            Counter.objects.increment(KEY)
            Counter.objects.adjust(KEY, by=1, **WHO)

        elsewhere(count_and_flush)
        return answer

    with connection.execute_wrapper(overtake), pytest.raises(Contention):
        maximum(10_000)
    assert maximum(3) == landed() == value() < 10_000
