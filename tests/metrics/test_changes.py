"""Each way of counting is seen, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.test import override_settings

from django_counters import clock
from django_counters.errors import InsufficientCount
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.signals import PlainSignal, batch_applied, upkeep_done
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Batch
from django_counters.upkeep import rollup
from tests.metrics.conftest import Counted
from tests.testapp.models import Article, Post, Product, Song

pytestmark = pytest.mark.django_db
commits = pytest.mark.django_db(transaction=True)
Since = Callable[[], Counted]
Told = list[dict[str, Any]]
CACHED = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
ALL: dict[str, Mapping[str, object]] = {
    "stock": {"FLOOR": 0},
    "likes": {"STRATEGY": "sharded"},
    "orders": {"STRATEGY": "ledger"},
    "views": CACHED,
}


def up(strategy: str, changes: int, amount: int) -> Counted:
    return {("default", strategy, "up"): (changes, amount)}


def down(strategy: str, changes: int, amount: int) -> Counted:
    return {("default", strategy, "down"): (changes, amount)}


@pytest.fixture(autouse=True)
def _namespaces(cached: str) -> Iterator[None]:
    with override_counters(**ALL):
        yield


def in_a_transaction() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a", 3)


def collect() -> None:
    with Counter.objects.collect():
        for _ in range(5):
            Counter.objects.increment("pages:a", 2)


def collect_and_settle() -> None:
    """A bounded change settles what is collected before it, and is made at once."""
    with Counter.objects.collect():
        Counter.objects.increment("stock:a", 5)
        Counter.objects.decrement("stock:a", 3)


def rows() -> None:
    Counter.objects.bulk_create([Counter(key="rows:a"), Counter(key="rows:b")])
    Counter.objects.filter(key__startswith="rows:").increment(2)


SYNC: dict[str, tuple[Callable[[], Any], Counted]] = {
    "exact": (lambda: Counter.objects.increment("pages:a", 3), up("exact", 1, 3)),
    "down": (lambda: Counter.objects.decrement("pages:a", 3), down("exact", 1, 3)),
    "many": (
        lambda: Counter.objects.increment_many({"pages:a": 3, "pages:b": -1}),
        up("exact", 1, 3) | down("exact", 1, 1),
    ),
    "several strategies": (
        lambda: Counter.objects.increment_many({"pages:a": 3, "likes:a": 4, "orders:a": 5}),
        up("exact", 1, 3) | up("sharded", 1, 4) | up("ledger", 1, 5),
    ),
    "with cached ones": (
        lambda: Counter.objects.increment_many({"pages:a": 3, "views:a": 4}),
        up("exact", 1, 3) | up("cached", 1, 4),
    ),
    "rows": (rows, up("exact", 2, 4)),
    "sharded": (lambda: Counter.objects.increment("likes:a", 3), up("sharded", 1, 3)),
    "shards": (lambda: CounterShard.objects.increment("pages:a", 3), up("sharded", 1, 3)),
    "shards, with a token": (
        lambda: CounterShard.objects.increment("pages:a", 3, token="shards"),
        up("sharded", 1, 3),
    ),
    "ledger": (lambda: Counter.objects.increment("orders:a", 3), up("ledger", 1, 3)),
    "entries": (lambda: CounterDelta.objects.append("orders:a", 3), up("ledger", 1, 3)),
    "cached": (lambda: Counter.objects.increment("views:a", 3), up("cached", 1, 3)),
    "cached, many": (
        lambda: Counter.objects.increment_many({"views:a": 3, "views:b": 4}),
        up("cached", 2, 7),
    ),
    "cached, in a transaction": (in_a_transaction, up("cached", 1, 3)),
    "collected": (collect, up("exact", 1, 10)),
    "collected and settled": (collect_and_settle, up("exact", 1, 5) | down("exact", 1, 3)),
    "field": (lambda: Post.objects.create().views.increment(3), up("exact", 1, 3)),
    "field, with a token": (
        lambda: Post.objects.create().views.increment(3, token="field"),
        up("exact", 1, 3),
    ),
    "slotted field": (lambda: Song.objects.create().plays.increment(3), up("slotted", 1, 3)),
    "cached field": (lambda: Article.objects.create().reads.increment(3), up("cached", 1, 3)),
    "slots": (
        lambda: SlottedCounter.objects.increment(Song.objects.create(), "downloads", 3),
        up("slotted", 1, 3),
    ),
}


@commits
def test_each_way_of_counting_is_seen_once(counted: Since) -> None:
    for way, (count, expected) in SYNC.items():
        count()
        assert counted() == expected, way


async def acollect() -> None:
    async with Counter.objects.acollect():
        for _ in range(5):
            await Counter.objects.aincrement("pages:a", 2)
        await Counter.objects.aincrement("views:a", 4)


async def afield() -> None:
    post = await Post.objects.acreate()
    await post.views.aincrement(3)


async def acached_field() -> None:
    article = await Article.objects.acreate()
    await article.reads.aincrement(3)


async def aslots() -> None:
    await SlottedCounter.objects.aincrement(await Song.objects.acreate(), "downloads", 3)


ASYNC: dict[str, tuple[Callable[[], Coroutine[Any, Any, Any]], Counted]] = {
    "exact": (lambda: Counter.objects.aincrement("pages:a", 3), up("exact", 1, 3)),
    "cached": (lambda: Counter.objects.aincrement("views:a", 3), up("cached", 1, 3)),
    "cached, with a token": (
        lambda: Counter.objects.aincrement("views:a", 3, token=mint(clock.utc())),
        up("cached", 1, 3),
    ),
    "cached, many": (
        lambda: Counter.objects.aincrement_many({"views:a": 3, "views:b": 4}),
        up("cached", 2, 7),
    ),
    "several strategies": (
        lambda: Counter.objects.aincrement_many({"views:a": 3, "pages:b": 4}),
        up("cached", 1, 3) | up("exact", 1, 4),
    ),
    "collected": (acollect, up("exact", 1, 10) | up("cached", 1, 4)),
    "field": (afield, up("exact", 1, 3)),
    "cached field": (acached_field, up("cached", 1, 3)),
    "slots": (aslots, up("slotted", 1, 3)),
}


def on_a_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run it on an event loop of its own, with no thread of synchronous code around it."""

    async def run() -> None:
        try:
            await work()
        finally:
            await sync_to_async(connections.close_all)()

    asyncio.run(run())


@commits
@pytest.mark.parametrize("around", ["event loop", "synchronous code"])
def test_each_way_of_asynchronous_counting_is_seen_once(around: str, counted: Since) -> None:
    async def work() -> None:
        for way, (count, expected) in ASYNC.items():
            await count()
            assert counted() == expected, way

    if around == "event loop":
        on_a_loop(work)
    else:
        async_to_sync(work)()


@commits
@pytest.mark.parametrize(
    "key", ["pages:a", "likes:a", "orders:a", "views:a"], ids=lambda key: key.partition(":")[0]
)
def test_a_repeated_token_is_not_seen(key: str, counted: Since) -> None:
    token = mint(clock.utc())
    for _ in range(3):
        Counter.objects.increment(key, 2, token=token)
    on_a_loop(lambda: Counter.objects.aincrement(key, 2, token=token))
    assert list(counted().values()) == [(1, 2)]
    song = Song.objects.create()
    for _ in range(2):
        song.plays.increment(2, token="plays")
        Counter.objects.increment_many({"pages:a": 1, "orders:b": 1}, token="many")
    assert counted() == up("slotted", 1, 2) | up("exact", 1, 1) | up("ledger", 1, 1)


def test_what_is_refused_is_not_seen(counted: Since, told: Told) -> None:
    product = Product.objects.create()
    calls: list[Callable[[], Any]] = [
        lambda: Counter.objects.decrement("stock:a"),
        lambda: Counter.objects.decrement_many({"stock:a": 1, "stock:b": 1}),
        # The others are applied first, and undone.
        lambda: Counter.objects.decrement_many({"stock:a": 1, "likes:a": 1, "orders:a": 1}),
        product.stock.decrement,
    ]
    for call in calls:
        with pytest.raises(InsufficientCount):
            call()
    assert counted() == {}
    assert told == []


@commits
def test_what_is_counted_beside_redis_is_seen_once(counted: Since) -> None:
    django = "django.core.cache.backends.redis.RedisCache"
    away = {"default": {"BACKEND": django, "LOCATION": "unix:///nonexistent/metrics"}}
    with override_settings(CACHES=away):
        Counter.objects.increment("views:a", 3)
    assert CounterDelta._base_manager.count() == 1, "the ledger took it"
    assert counted() == up("cached", 1, 3)


def test_what_is_rolled_back_was_seen(counted: Since) -> None:
    """As the page says: in its process, before the transaction of the caller ends."""
    with transaction.atomic():
        Counter.objects.increment("pages:a", 3)
        transaction.set_rollback(True)
    assert Counter.objects.value("pages:a") == 0
    assert counted() == up("exact", 1, 3)


def test_what_is_collected_and_rolled_back_is_not_seen(counted: Since) -> None:
    with pytest.raises(ZeroDivisionError), Counter.objects.collect():
        Counter.objects.increment("pages:a", 3)
        raise ZeroDivisionError
    assert counted() == {}


def test_an_adjustment_is_no_increment(counted: Since) -> None:
    Counter.objects.adjust("pages:a", to=5, reason="counted by hand", actor="Ada")
    assert counted() == {}


@pytest.mark.many_writers
@commits
def test_increments_of_threads_are_seen_each(counted: Since) -> None:
    def count(_: int) -> None:
        for _ in range(25):
            Counter.objects.increment("pages:a")
        connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert Counter.objects.value("pages:a") == 200
    assert counted() == up("exact", 200, 200)


class TestTheSignal:
    def test_it_says_what_was_changed(self, told: Told) -> None:
        value = Counter.objects.increment("pages:a", 3)
        song = Song.objects.create()
        song.plays.increment()
        named, record = told
        assert (named["sender"], named["strategy"], named["using"]) == (Batch, "exact", "default")
        assert [(delta.key, delta.by) for delta in named["batch"].deltas] == [("pages:a", 3)]
        assert (named["values"], named["subject"]) == ({"pages:a": value}, "")
        assert record["subject"] == "testapp.Song.plays"
        assert [delta.key for delta in record["batch"].deltas] == [song.pk]

    @pytest.mark.parametrize("signal", [batch_applied, upkeep_done])
    def test_a_receiver_without_a_name_that_fails_fails_nothing(
        self, signal: PlainSignal, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(reason: str, **_: Any) -> None:
            raise ZeroDivisionError(reason)

        # Django asks the receiver for its name to log what it raised, and a partial has none.
        nameless = partial(fail, "of a partial")
        signal.connect(nameless, weak=False)
        try:
            assert Counter.objects.increment("pages:a") == 1
            assert rollup().stuck == []
        finally:
            signal.disconnect(nameless)
        assert "of a partial" in caplog.text

    def test_a_receiver_that_waits_is_refused(self) -> None:
        async def wait(**_: Any) -> None: ...

        class Waiting:
            async def __call__(self, **_: Any) -> None: ...

        for receiver in (wait, Waiting(), sync_to_async(print)):
            with pytest.raises(TypeError, match="plain function"):
                batch_applied.connect(receiver)
