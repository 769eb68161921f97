"""A counter that is raised to a number: repeated, it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InvalidDelta,
    RecordMissing,
    UnsavedInstance,
    UnsupportedMaximum,
)
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.signals import batch_applied
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8, Counted
from tests.testapp.models import Post, Product, Small, Song

pytestmark = pytest.mark.django_db
KEY = "peak:site"
KINDS = ["named", "field"]
Elsewhere = Callable[[Callable[[], Any]], Any]


class Gauge(NamedTuple):
    """One counter, whatever it is."""

    maximum: Callable[..., Any]
    increment: Callable[..., Any]
    value: Callable[[], int]
    wait: Callable[[int], Any]


@pytest.fixture(params=KINDS)
def gauge(request: pytest.FixtureRequest) -> Gauge:
    """A counter whose value is 5."""
    if request.param == "field":
        post = Post.objects.create(views=5)
        views: Any = Post.views.of(post.pk)
        slots = lambda by: SlottedCounter.objects.increment(post, "views", by)  # noqa: E731
        return Gauge(views.maximum, views.increment, views.value, slots)
    Counter.objects.increment(KEY, 5)
    objects: Any = Counter.objects
    return Gauge(
        lambda *given, **named: objects.maximum(KEY, *given, **named),
        lambda *given, **named: objects.increment(KEY, *given, **named),
        lambda: objects.value(KEY),
        lambda by: CounterShard.objects.increment(KEY, by),
    )


@pytest.fixture
def heard() -> Iterator[list[tuple[int, int]]]:
    """What was added, and the value afterwards, as signals tell it."""
    told: list[tuple[int, int]] = []

    def hear(batch: Any, values: Any, **_: object) -> None:
        told.extend((delta.by, values[delta.key]) for delta in batch.deltas)

    batch_applied.connect(hear)
    yield told
    batch_applied.disconnect(hear)


def test_the_larger_one_stays(gauge: Gauge, heard: list[Any]) -> None:
    results = [gauge.maximum(number) for number in (4, 9, 9, -3, 7, 12)]
    assert results == [5, 9, 9, 9, 9, 12]
    assert {type(one) for one in results} == {Counted}
    assert gauge.value() == 12
    assert heard == [(4, 9), (3, 12)]


def test_where_it_is_large_enough_nothing_is_written(gauge: Gauge) -> None:
    # Django asks once in each process what number the type of a record has.
    assert gauge.maximum(4) == 5
    with CaptureQueriesContext(connection) as queries:
        assert gauge.maximum(5) == 5
    # Within a transaction SQLite has to be a writer from the start; that statement changes nothing.
    assert len(queries) == (2 if connection.vendor == "sqlite" else 1)
    with CaptureQueriesContext(connection) as queries:
        assert gauge.maximum(6) == 6
    assert len(queries) == (3 if connection.vendor == "sqlite" else 2)


@pytest.mark.parametrize("number", [0, -4])
def test_what_was_never_counted_is_zero(number: int) -> None:
    assert Counter.objects.maximum("peak:new", number) == 0
    assert Counter.objects.value("peak:new") == 0
    assert Counter.objects.maximum("peak:new", 7) == 7
    assert_counts({"peak:new": 7})


def test_it_rolls_back_with_the_transaction(gauge: Gauge) -> None:
    with pytest.raises(KeyError), transaction.atomic():
        assert gauge.maximum(50) == 50
        raise KeyError
    with transaction.atomic():
        assert gauge.maximum(8) == 8
        with pytest.raises(KeyError), transaction.atomic():
            gauge.maximum(60)
            raise KeyError
    assert gauge.value() == 8


def test_what_waits_elsewhere_is_part_of_the_value(gauge: Gauge, heard: list[Any]) -> None:
    """As after a change of strategy."""
    gauge.wait(10)
    heard.clear()
    assert gauge.maximum(14) == 15
    assert gauge.maximum(20) == 20
    assert (gauge.value(), heard) == (20, [(5, 20)])


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("by", "found"), [(-3, 10), (2, 10), (20, 25)])
def test_somebody_changes_it_in_between(
    gauge: Gauge, elsewhere: Elsewhere, heard: list[Any], by: int, found: int
) -> None:
    """It was read, and is not yet raised."""
    turns: list[Any] = []

    def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if not turns:
            turns.append(elsewhere(lambda: gauge.increment(by)))
        return answer

    with connection.execute_wrapper(overtake):
        assert gauge.maximum(10) == found
    assert turns == [5 + by] == [gauge.value() - sum(by for by, _ in heard[1:])]
    assert gauge.value() == found


def test_bounds() -> None:
    product = Product.objects.create(stock=5)
    with override_counters(seats={"FLOOR": 2, "CEILING": 300}):
        named: Any = lambda number: Counter.objects.maximum("seats:a", number)  # noqa: E731
        for maximum, present in ((product.stock.maximum, 5), (named, 0)):
            with pytest.raises(CeilingExceeded) as caught:
                maximum(1001)
            assert caught.value.requested == 1001 - present
            assert maximum(300) == 300
        Counter.objects.filter(key="seats:a").update(value=500)
        # It lacks nothing, so no bound is asked.
        assert Counter.objects.maximum("seats:a", 400) == 500
    small = Small.objects.create()
    with pytest.raises(CounterOverflow):
        small.hits.maximum(2**31)
    assert small.hits.maximum(2**31 - 1) == small.hits == 2**31 - 1
    assert Counter.objects.maximum(KEY, INT8[1]) == INT8[1]
    Counter.objects.filter(key=KEY).update(value=-2)
    with pytest.raises(CounterOverflow):
        Counter.objects.maximum(KEY, INT8[1])
    assert Counter.objects.value(KEY) == -2


def test_the_instance_has_the_value() -> None:
    post = Post.objects.create(views=5)
    stale = Post.objects.get()
    assert post.views.maximum(9) == post.views == 9
    assert stale.views.maximum(7) == stale.views == 9
    stale.save()
    assert Post.objects.get().views == 9
    with pytest.raises(UnsavedInstance):
        Post().views.maximum(9)
    Post.objects.all().delete()
    for number in (1, 10):
        with pytest.raises(RecordMissing):
            post.views.maximum(number)


@pytest.mark.parametrize("number", [True, 1.0, "5", None, 2**63])
def test_it_has_to_be_an_integer(gauge: Gauge, number: Any) -> None:
    with pytest.raises(InvalidDelta):
        gauge.maximum(number)
    assert gauge.value() == 5


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"STRATEGY": "sharded"}, "sharded"),
        ({"STRATEGY": "ledger"}, "ledger"),
        ({"PER": ["day"]}, "by period"),
        ({"ONCE": True}, "once for each actor"),
        ({"STRATEGY": "cached", "PER": ["day"]}, "by period"),
    ],
)
def test_what_cannot_do_it_refuses(declared: dict[str, Any], why: str) -> None:
    with override_counters(peak=declared):
        # Nothing is asked, neither a database nor a Redis.
        queries = CaptureQueriesContext(connection)
        with queries, pytest.raises(UnsupportedMaximum, match=why):
            Counter.objects.maximum(KEY, 5)
        assert len(queries) == 0


def test_a_slotted_field_refuses() -> None:
    song = Song.objects.create()
    with pytest.raises(UnsupportedMaximum, match="slotted"):
        song.plays.maximum(5)
    assert song.skips.maximum(5) == 5


def test_in_a_collector_what_is_owed_comes_first() -> None:
    with Counter.objects.collect():
        Counter.objects.increment(KEY, 7)
        assert Counter.objects.maximum(KEY, 5) == 7
        Counter.objects.increment(KEY, 1)
        assert Counter.objects.maximum(KEY, 10) == 10
        Counter.objects.increment(KEY, 2)
    assert_counts({KEY: 12})


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database() -> None:
    assert Counter.objects.maximum(KEY, 5, using="other") == 5
    assert_counts({KEY: 0})
    assert_counts({KEY: 5}, using="other")


@pytest.mark.django_db(transaction=True)
def test_async_twins() -> None:
    post = Post.objects.create(views=5)

    async def raised() -> list[Any]:
        named = [await Counter.objects.amaximum(KEY, number) for number in (3, 2)]
        return [*named, await post.views.amaximum(9)]

    assert async_to_sync(raised)() == [3, 3, 9]
    assert Post.objects.get().views == post.views == 9


def test_cached_as_exact(settings: Any) -> None:
    settings.COUNTERS_CACHED_AS_EXACT = True
    with override_counters(peak={"STRATEGY": "cached"}):
        with transaction.atomic():
            assert Counter.objects.maximum(KEY, 5) == 5
        assert Counter.objects.maximum(KEY, 3) == 5
