"""What every named counter keeps, whatever its strategy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import CounterValue, clock
from django_counters.adjustments import AdjustOptions
from django_counters.adjustments.cases import CaseOptions
from django_counters.errors import (
    CounterOverflow,
    InsufficientCount,
    InvalidDelta,
    InvalidKey,
    UnsupportedBounds,
    UnsupportedConsistency,
)
from django_counters.event import (
    BoundOptions,
    CountOptions,
    OnceOptions,
    ShardOptions,
)
from django_counters.managers import CounterManager, ShardManager, SlotManager
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.reading import ReadOptions
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8, Appended
from tests.testapp.models import Post

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
DECLARED: dict[str, dict[str, Any]] = {
    "exact": {},
    "sharded": {"STRATEGY": "sharded"},
    "one shard": {"STRATEGY": "sharded", "OPTIONS": {"shards": 1}},
    "ledger": {"STRATEGY": "ledger"},
    "cached": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
}
TEXTS = ["%s", "%", "a*b{c}[d]", "{1,2}", '"quoted"', "'", "\\", "größe:Ω", "🎉", "NULL", "a,b"]


def strategies(*names: str) -> pytest.MarkDecorator:
    """One test for each; what is cached is sent when the transaction commits."""
    commits = pytest.mark.django_db(transaction=True)
    chosen = [pytest.param(name, marks=commits if name == "cached" else ()) for name in names]
    return pytest.mark.parametrize("strategy", chosen)


@pytest.fixture(autouse=True)
def _declared(request: pytest.FixtureRequest, strategy: str) -> Iterator[None]:
    """``n`` has the strategy of the test."""
    if strategy == "cached":
        request.getfixturevalue("cached")
    with override_counters(n=DECLARED[strategy], stock={"FLOOR": 0}):
        yield


def check(strategy: str, returned: Any, value: int) -> None:
    """An append reads nothing, so the ledger has no number to return."""
    if strategy == "ledger":
        assert isinstance(returned, Appended)
    else:
        assert (returned, Counter.objects.value("n:a")) == (value, value)
    assert_counts({"n:a": value})


@strategies("exact", "sharded", "one shard", "ledger", "cached")
class TestCounting:
    def test_it_starts_at_zero_and_each_change_counts(self, strategy: str) -> None:
        assert Counter.objects.value("n:a") == 0
        check(strategy, Counter.objects.increment("n:a"), 1)
        check(strategy, Counter.objects.increment("n:a", 5), 6)
        check(strategy, Counter.objects.decrement("n:a", 2), 4)
        check(strategy, Counter.objects.increment("n:a", -10), -6)
        assert Counter.objects.values_of(["n:b", "n:a", "n:a"]) == {"n:b": 0, "n:a": -6}
        assert Counter.objects.values_of([]) == {}

    def test_many_are_changed_together_whatever_else_they_are(self, strategy: str) -> None:
        many = {"n:b": 2, "plain": -1, "n:a": 7, "stock:a": 3}
        for turn in (1, 2):
            returned = Counter.objects.increment_many(many)
            assert set(returned) == set(many)
            assert (returned["plain"], returned["stock:a"]) == (-turn, 3 * turn)
            if strategy != "cached":
                # One that is cached is sent when the transaction of the others commits.
                check(strategy, returned["n:a"], 7 * turn)
            assert Counter.objects.value("n:a") == 7 * turn
        check(strategy, Counter.objects.decrement_many({"n:a": 1, "n:c": 1})["n:a"], 13)
        assert Counter.objects.increment_many({}) == {}
        assert_counts({"n:b": 4, "plain": -2, "n:a": 13, "stock:a": 6, "n:c": -1})

    def test_any_printable_text_is_kept_as_it_is(self, strategy: str) -> None:
        keys = [f"n:{text}" for text in TEXTS]
        Counter.objects.increment_many(dict.fromkeys(keys, 2))
        for key in keys:
            Counter.objects.increment(key)
        assert Counter.objects.values_of(keys) == dict.fromkeys(keys, 3)
        assert [Counter.objects.value(key) for key in keys] == [3] * len(keys)

    def test_no_call_takes_a_bad_key(self, strategy: str) -> None:
        objects = Counter.objects
        bad: list[Any] = ["", "n:a b", "n:\n", "n:\0", None, 5, b"n:a", "\ud800", "n:" + "x" * 199]
        bad += ["n:a\u00a0b", "n:a\u200bb", "n:e\u0301"]
        for key in bad:
            for call in (objects.increment, objects.decrement, objects.value, objects.read):
                with pytest.raises(InvalidKey) as caught:
                    call(key)
                assert (caught.value.key, isinstance(caught.value, ValueError)) == (key, True)
            with pytest.raises(InvalidKey):
                objects.values_of(["n:a", key])
            with pytest.raises(InvalidKey):
                objects.increment_many({"n:a": 1, key: 1})
        with pytest.raises(InvalidKey):
            objects.values_of("n:a")
        assert_counts({"n:a": 0})

    def test_no_call_takes_a_bad_delta(self, strategy: str) -> None:
        objects = Counter.objects
        bad: list[Any] = [True, 1.0, "1", None, 2**63, -(2**63) - 1]
        for delta in bad:
            for call in (objects.increment, objects.decrement):
                with pytest.raises(InvalidDelta):
                    call("n:a", delta)
            for many in (objects.increment_many, objects.decrement_many):
                with pytest.raises(InvalidDelta):
                    many({"n:a": 1, "n:b": delta})
        with pytest.raises(InvalidDelta, match="mapping"):
            objects.increment_many([("n:a", 1)])  # type: ignore[arg-type]
        assert_counts({"n:a": 0, "n:b": 0})

    def test_a_queryset_changes_all_its_rows(self, strategy: str) -> None:
        Counter.objects.create(key="n:a", value=1)
        Counter.objects.create(key="n:b", value=2)
        assert Counter.objects.filter(key__startswith="n:").increment(5) == 2
        assert Counter.objects.filter(key="n:a").decrement(2) == 1
        assert Counter.objects.none().increment() == 0
        assert_counts({"n:a": 4, "n:b": 7})


@strategies("exact", "sharded", "ledger")
class TestTransactions:
    def test_what_is_rolled_back_was_never_counted(self, strategy: str) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("n:a")
            Counter.objects.increment_many({"n:a": 1, "n:b": 1, "plain": 1})
            assert_counts({"n:a": 2, "n:b": 1, "plain": 1})
            raise ZeroDivisionError
        assert_counts({"n:a": 0, "n:b": 0, "plain": 0})

    def test_a_savepoint_takes_its_own(self, strategy: str) -> None:
        with transaction.atomic():
            Counter.objects.increment("n:a")
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                Counter.objects.increment("n:a", 10)
                Counter.objects.increment("n:a", 10, shard_key="ann")
                Counter.objects.increment_many({"n:a": 100, "n:b": 1})
                raise ZeroDivisionError
            check(strategy, Counter.objects.increment("n:a"), 2)
        assert_counts({"n:a": 2, "n:b": 0})

    def test_a_refused_floor_takes_back_what_came_with_it(self, strategy: str) -> None:
        Counter.objects.increment("stock:a", 2)
        with transaction.atomic():
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement_many({"stock:a": 3, "n:a": 1, "n:b": 1})
            Counter.objects.increment("n:b")
        assert_counts({"stock:a": 2, "n:a": 0, "n:b": 1})


@strategies("exact", "sharded", "one shard", "ledger")
def test_the_whole_range_is_usable(strategy: str) -> None:
    check(strategy, Counter.objects.increment("n:a", LOWEST), LOWEST)
    check(strategy, Counter.objects.increment("n:a", HIGHEST), -1)
    many = Counter.objects.increment_many({"n:a": LOWEST + 1, "n:b": LOWEST})
    check(strategy, many["n:a"], LOWEST)
    check(strategy, Counter.objects.increment_many({"n:a": HIGHEST, "n:b": HIGHEST})["n:a"], -1)
    assert_counts({"n:b": -1})


@strategies("exact", "sharded", "one shard")
@pytest.mark.parametrize("edge", INT8)
def test_a_sum_beyond_64_bits_is_refused(strategy: str, edge: int) -> None:
    Counter.objects.increment("n:a", edge)
    options: list[dict[str, Any]] = [{}, {"shard_key": "ann"}]
    with transaction.atomic():
        for by in (1 if edge > 0 else -1, edge):
            for more in options:
                with pytest.raises(CounterOverflow) as caught:
                    Counter.objects.increment("n:a", by, **more)
                assert caught.value.key == "n:a"
            with pytest.raises(CounterOverflow), transaction.atomic():
                Counter.objects.increment_many({"n:b": 1, "n:a": by, "n:c": 1, "plain": 1})
        # The caller's transaction goes on.
        Counter.objects.increment("n:d")
    assert_counts({"n:a": edge, "n:b": 0, "n:c": 0, "plain": 0, "n:d": 1})
    assert type(Counter.objects.value("n:a")) is int


@strategies("sharded", "ledger", "cached")
def test_bounds_that_nobody_could_hold_are_refused(strategy: str) -> None:
    refused: list[Callable[[], Any]] = [
        lambda: Counter.objects.decrement("n:a", floor=0),
        lambda: Counter.objects.increment("n:a", ceiling=10),
        lambda: Counter.objects.decrement("n:a", floor=-3, ceiling=3),
    ]
    for call in refused:
        with pytest.raises(UnsupportedBounds) as caught:
            call()
        assert (caught.value.key, caught.value.strategy) == ("n:a", strategy)
    assert_counts({"n:a": 0})
    # Only the bound that the value moves towards is asked.
    Counter.objects.increment("n:a", floor=0)
    Counter.objects.decrement("n:a", 3, ceiling=9)
    assert_counts({"n:a": -2})


@strategies("exact", "sharded", "ledger")
def test_a_reading_tells_total_from_pending(strategy: str) -> None:
    Counter.objects.create(key="n:a", value=100)
    Counter.objects.increment("n:a", 7)
    before = clock.now()
    reading = Counter.objects.read("n:a")
    waits = 0 if strategy == "exact" else 7
    assert (reading.value, reading.total, reading.pending) == (107, 107 - waits, waits)
    assert reading.consistency == "exact"
    assert before <= reading.as_of <= clock.now()
    with pytest.raises(UnsupportedConsistency, match=strategy):
        Counter.objects.read("n:a", consistency="cached")
    reading = Counter.objects.read("n:never")
    assert (reading.value, reading.total, reading.pending) == (0, 0, 0)


@strategies("exact", "sharded")
def test_each_call_is_one_statement(strategy: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: Counter.objects.increment("n:a"),
        lambda: Counter.objects.increment("n:a", 3, shard_key="user"),
        lambda: Counter.objects.decrement("n:a"),
        lambda: Counter.objects.value("n:a"),
        lambda: Counter.objects.read("n:a"),
        lambda: Counter.objects.values_of(["n:a", "plain", *(f"n:{i}" for i in range(500))]),
    ]
    if strategy == "exact" or connection.vendor == "postgresql":
        calls.append(lambda: Counter.objects.increment_many({"n:b": 1, "n:a": 2}))
    if connection.vendor == "mysql":
        # There a row that is missing is made by a second statement.
        Counter.objects.increment("n:a")
        Counter.objects.increment("n:a", shard_key="user")
    for call in (*calls, *calls):
        with CaptureQueriesContext(connection) as captured:
            call()
        assert len(captured) == 1


@pytest.mark.django_db(transaction=True)
@strategies("exact", "sharded", "ledger")
def test_every_call_has_its_async_twin(strategy: str) -> None:
    async def calls() -> list[Any]:
        objects = Counter.objects
        returned = [await objects.aincrement("n:a", 5), await objects.adecrement("n:a", 2)]
        many = await objects.aincrement_many({"n:b": 1, "n:a": 1})
        await objects.adecrement_many({"n:b": 3})
        assert await objects.avalue("n:a", consistency="cached") == 4
        assert await objects.avalues_of(["n:a", "n:b"]) == {"n:a": 4, "n:b": -2}
        assert (await objects.aread("n:a")).value == 4
        return [*returned, many["n:a"]]

    async def calls_of_other_managers() -> list[Any]:
        shards = CounterShard.objects
        values = [await shards.aincrement("n:c", 5), await shards.adecrement("n:c", 2)]
        entry = await CounterDelta.objects.aappend("n:c", 10)
        many = await CounterDelta.objects.aappend_many([("n:c", 1), ("n:d", 1)])
        assert (entry.key, entry.replayed, many.appended, many.replayed) == ("n:c", False, 2, 0)
        return [*values, await shards.avalue("n:c")]

    returned = async_to_sync(calls)()
    assert strategy == "ledger" or returned == [5, 3, 4]
    assert_counts({"n:a": 4, "n:b": -2})
    assert async_to_sync(calls_of_other_managers)() == [5, 3, 14]
    assert_counts({"n:c": 14, "n:d": 1})


@pytest.mark.django_db(transaction=True)
@strategies("exact", "cached")
def test_unknown_options_are_refused(strategy: str) -> None:
    post = Post.objects.create()
    objects: Any = Counter.objects
    who: dict[str, Any] = {"reason": "counted by hand", "actor": "a clerk"}
    calls: list[Callable[..., Any]] = [
        *(partial(call, "n:a") for call in (objects.increment, objects.decrement, objects.value)),
        *(partial(call, {"n:a": 1}) for call in (objects.increment_many, objects.decrement_many)),
        *(partial(call, "n:a", by=1, **who) for call in (objects.adjust, objects.reset)),
        partial(SlottedCounter.objects.decrement, post, "likes"),
        partial(SlottedCounter.objects.adjust, post, "likes", by=1, **who),
        partial(CounterShard.objects.decrement, "n:a"),
        *(post.likes.decrement, post.likes.value, partial(post.likes.adjust, by=1, **who)),
        partial(Post.objects.adjust_many, "likes", by={post.pk: 1}, case="c", **who),
    ]
    twins = (objects.aincrement, objects.adecrement, objects.avalue, objects.aread)
    calls += [async_to_sync(partial(call, "n:a")) for call in twins]
    calls.append(async_to_sync(partial(objects.adecrement_many, {"n:a": 1})))
    for call in calls:
        with pytest.raises(TypeError, match="flor"):
            call(flor=0)
    assert Counter.objects.value("n:a") == 0


@strategies("exact")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        (CounterManager.increment, CountOptions),
        (CounterManager.increment_many, OnceOptions),
        (CounterManager.aincrement, CountOptions),
        (CounterManager.aincrement_many, OnceOptions),
        (CounterManager.read, ReadOptions),
        (CounterManager.values_of, ReadOptions),
        (CounterManager.adjust, AdjustOptions),
        (CounterManager.adjust_many, CaseOptions),
        (ShardManager.increment, ShardOptions),
        (SlotManager.increment, OnceOptions),
        (CounterValue.increment, BoundOptions),
        (CounterValue.read, ReadOptions),
    ],
)
def test_options_are_the_keyword_arguments_of_a_method(
    method: Callable[..., Any], options: Any, strategy: str
) -> None:
    parameters = inspect.signature(method).parameters.values()
    named = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert named - set(options.__annotations__) <= {"to", "by", "using"}
    assert set(options.__annotations__) <= named


@strategies("exact", "sharded", "ledger")
@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database(strategy: str) -> None:
    Counter.objects.increment("n:a")
    Counter.objects.increment("n:a", 2, using="other")
    Counter.objects.db_manager("other").increment("n:a", 4)
    Counter.objects.increment_many({"n:a": 8, "n:b": 1}, using="other")
    Counter.objects.decrement_many({"n:b": 3}, using="other")
    CounterShard.objects.increment("n:a", 16, using="other")
    CounterShard.objects.db_manager("other").decrement("n:a", 32)
    CounterDelta.objects.append("n:a", 64, using="other")
    CounterDelta.objects.append_many([("n:a", 128)], using="other")
    CounterDelta.objects.append_many([("n:a", 256)], copy=True, using="other")
    value = 2 + 4 + 8 + 16 - 32 + 64 + 128 + 256
    assert Counter.objects.value("n:a") == 1
    assert Counter.objects.values_of(["n:a", "n:b"], using="other") == {"n:a": value, "n:b": -2}
    assert Counter.objects.read("n:a", using="other").value == value
    Counter.objects.using("other").filter(key="n:a").increment(512)
    assert_counts({"n:a": 1, "n:b": 0})
    assert_counts({"n:a": value + 512, "n:b": -2}, using="other")
