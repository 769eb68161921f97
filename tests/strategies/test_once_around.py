"""Tokens and what is around them: bounds, batches, strategies, collectors, transactions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_counters import clock
from django_counters.errors import (
    CounterOverflow,
    InsufficientCount,
    RecordMissing,
    RetryTransaction,
    TokenConflict,
    UnsupportedBounds,
)
from django_counters.models import Counter, CounterDelta, CounterShard, CounterToken, SlottedCounter
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, Appended, CountedMany, Unknown
from tests.testapp.models import Post, Product, Song

pytestmark = pytest.mark.django_db
HIGHEST = INT8[1]
DECLARED: dict[str, Any] = {
    "likes": {"STRATEGY": "sharded"},
    "orders": {"STRATEGY": "ledger"},
    "stock": {"FLOOR": 0},
    "quota": {"CEILING": 9},
}
KINDS: dict[str, Callable[[], Any]] = {
    "UUIDv7": lambda: mint(clock.utc()),
    "text": lambda: "order-17",
}
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _declared(override_counters: Callable[..., None]) -> None:
    override_counters(**DECLARED)


@pytest.fixture(params=KINDS)
def token(request: pytest.FixtureRequest) -> Any:
    """A token of each kind in turn."""
    return KINDS[request.param]()


def fresh() -> UUID:
    return mint(clock.utc())


def as_ledger() -> override_counters:
    return override_counters(n={"STRATEGY": "ledger"})


@pytest.mark.parametrize("what", ["floor", "field"])
def test_what_is_refused_leaves_its_token_unused(what: str, token: Any) -> None:
    product = Product.objects.create()
    count: Callable[..., Any] = product.stock.increment
    if what == "floor":
        count = partial(Counter.objects.increment, "stock:a")
    with pytest.raises(InsufficientCount):
        count(-2, token=token)
    assert not CounterToken.objects.exists()
    count(2)
    # The last unit is sold to this very buyer, whom a replay does not refuse.
    for replayed in (False, True):
        sold = count(-2, token=token)
        assert (sold, sold.replayed) == (0, replayed)
    with pytest.raises(InsufficientCount):
        count(-2, token=fresh())
    assert_counts({"stock:a": 0})
    assert Product.objects.get().stock == 0


class TestRefusals:
    """A call that is refused leaves its token unused."""

    @pytest.mark.parametrize("key", ["likes:a", "orders:a"])
    def test_of_bounds_that_cannot_hold(self, key: str, token: Any) -> None:
        with pytest.raises(UnsupportedBounds):
            Counter.objects.increment(key, ceiling=5, token=token)
        returned: Any = Counter.objects.increment(key, token=token)
        assert returned.replayed is False

    @pytest.mark.parametrize("key", ["a", "likes:a", "orders:a"])
    def test_of_the_range(self, key: str, token: Any) -> None:
        Counter.objects.create(key=key, value=HIGHEST)
        with transaction.atomic():
            with pytest.raises(CounterOverflow):
                Counter.objects.increment(key, token=token)
            Counter.objects.filter(key=key).update(value=0)
            returned: Any = Counter.objects.increment(key, token=token)
        assert returned.replayed is False

    def test_of_a_record_that_is_gone(self, token: Any) -> None:
        post, song = Post.objects.create(), Song.objects.create()
        for model in (Post, Song):
            model._base_manager.all().delete()
        for counter in (post.views, song.plays):
            with pytest.raises(RecordMissing):
                counter.increment(token=token)
        assert not CounterToken.objects.exists()

    def test_of_a_cart(self, token: Any) -> None:
        Counter.objects.increment_many({"stock:a": 1, "stock:b": 5})
        cart = {"stock:a": 2, "stock:b": 2, "orders:a": 1}
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement_many(cart, token=token)
        Counter.objects.increment("stock:a")
        for _ in range(2):
            sold = Counter.objects.decrement_many(cart, token=token)
            assert (sold["stock:a"], sold["stock:b"]) == (0, 3)
        assert_counts({"stock:a": 0, "stock:b": 3, "orders:a": -1})


class TestMany:
    many = {"a": 1, "likes:b": 2, "orders:c": -3, "orders:d": 4}

    def test_a_batch_counts_once(self, token: Any) -> None:
        Counter.objects.increment_many(self.many)
        first: Any = Counter.objects.increment_many(self.many, token=token)
        Counter.objects.increment_many(self.many)
        again: Any = Counter.objects.increment_many(self.many, token=token)
        assert isinstance(first, CountedMany)
        assert (first.replayed, again.replayed) == (False, True)
        for values in (first, again):
            assert set(values) == set(self.many)
            assert (values["a"], values["likes:b"]) == (2, 4)
            # Each entry has a token of its own, which nobody needs.
            entry: Any = values["orders:c"]
            assert (type(entry), entry.key, entry.token) == (Appended, "orders:c", None)
            assert entry.replayed is values.replayed
        assert_counts({key: 3 * by for key, by in self.many.items()})

    def test_the_order_of_its_counters_does_not_matter(self, token: Any) -> None:
        Counter.objects.increment_many(self.many, token=token)
        turned = dict(reversed(self.many.items()))
        again: Any = Counter.objects.increment_many(turned, token=token)
        assert again.replayed
        assert again["a"] == 1

    def test_another_batch_is_another_change(self, token: Any) -> None:
        Counter.objects.increment_many(self.many, token=token)
        others = [
            {"a": 1},
            {**self.many, "a": 2},
            {**self.many, "e": 1},
            {key: -by for key, by in self.many.items()},
            {"a": 2, "likes:b": 1, "orders:c": -3, "orders:d": 4},
        ]
        for other in others:
            with pytest.raises(TokenConflict):
                Counter.objects.increment_many(other, token=token)
        with pytest.raises(TokenConflict):
            Counter.objects.decrement_many(self.many, token=token)
        assert_counts({**self.many, "e": 0})

    def test_a_batch_of_nothing_uses_no_token(self, token: Any) -> None:
        assert Counter.objects.increment_many({}, token=token) == {}
        assert Counter.objects.increment_many({"a": 1}, token=token) == {"a": 1}
        assert_counts({"a": 1})


class TestSwitching:
    def test_a_conflict_among_many_entries_appends_none(self) -> None:
        used = fresh()
        Counter.objects.increment("n:a", token=used)
        with pytest.raises(TokenConflict):
            CounterDelta.objects.append_many([("n:b", 1, fresh()), ("n:a", 2, used), ("n:c", 1)])
        assert_counts({"n:a": 1, "n:b": 0, "n:c": 0})

    def test_a_uuid_used_in_the_ledger_is_not_used_again(self) -> None:
        """A replay returns what the first call did: an entry, which has no number."""
        token = fresh()
        with as_ledger():
            Counter.objects.increment("n:a", 5, token=token)
        for call in (Counter.objects.increment, CounterShard.objects.increment):
            again: Any = call("n:a", 5, token=token)
            assert (again.token, again.replayed) == (token, True)
            with pytest.raises(TokenConflict):
                call("n:a", 6, token=token)
        assert_counts({"n:a": 5})
        with as_ledger():
            again = Counter.objects.increment("n:a", 5, token=token)
        assert again.replayed


class TestCollector:
    @pytest.mark.parametrize("key", ["a", "likes:a", "orders:a"])
    def test_a_tokened_call_counts_at_once_after_what_is_owed(self, key: str, token: Any) -> None:
        with Counter.objects.collect():
            Counter.objects.increment(key, 5)
            first: Any = Counter.objects.increment(key, 2, token=token)
            assert first.replayed is False
            assert isinstance(Counter.objects.increment(key, 3), Unknown)
            again: Any = Counter.objects.increment(key, 2, token=token)
            assert again.replayed is True
            if key != "orders:a":
                assert (first, again) == (7, 7)
            assert_counts({key: 10})
        assert_counts({key: 10})

    def test_a_savepoint_gives_it_back(self, token: Any) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("a", 5)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                assert Counter.objects.increment("a", token=token) == 6
                raise ZeroDivisionError
            assert Counter.objects.increment("a", token=token) == 6
        assert_counts({"a": 6})


@pytest.mark.django_db(databases=["default", "other"])
@pytest.mark.parametrize("key", ["a", "likes:a", "orders:a"])
def test_a_database_knows_its_own_tokens(key: str, token: Any) -> None:
    for replayed in (False, True):
        for using in ("default", "other"):
            returned: Any = Counter.objects.increment(key, token=token, using=using)
            assert returned.replayed is replayed
    assert_counts({key: 1})
    assert_counts({key: 1}, using="other")


@pytest.mark.django_db(transaction=True)
def test_every_call_has_its_async_twin() -> None:
    post, song = Post.objects.create(), Song.objects.create()

    async def calls() -> None:
        objects, slots = Counter.objects, SlottedCounter.objects
        for replayed in (False, True):
            returned: list[Any] = [
                await objects.aincrement("a", 2, token="1"),
                await objects.adecrement("b", 2, token="2"),
                await objects.aincrement_many({"c": 1, "d": 2}, token="3"),
                await objects.adecrement_many({"c": 1, "d": 2}, token="4"),
                await CounterShard.objects.aincrement("s", token="5"),
                await CounterShard.objects.adecrement("t", token="6"),
                await slots.aincrement(song, "downloads", token="7"),
                await slots.adecrement(song, "shares", token="8"),
                await post.views.aincrement(token="9"),
                await post.likes.adecrement(token="10"),
                await CounterDelta.objects.aappend("e", 1, token="11"),
            ]
            assert [one.replayed for one in returned] == [replayed] * len(returned)

    async_to_sync(calls)()
    assert_counts({"a": 2, "b": -2, "c": 0, "d": 0, "s": 1, "t": -1, "e": 1})
    assert SlottedCounter.objects.value(song, "downloads") == 1
    assert SlottedCounter.objects.value(song, "shares") == -1
    assert (post.views.read().value, post.likes.read().value) == (1, -1)


@pytest.mark.postgresql  # a check refuses such a transaction on MySQL
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", ["a", "likes:a", "orders:a"])
def test_a_transaction_that_cannot_see_the_first_use_is_to_be_repeated(
    key: str, token: Any, elsewhere: Elsewhere
) -> None:
    def count() -> Any:
        return Counter.objects.increment(key, 5, token=token)

    with pytest.raises(RetryTransaction), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # The snapshot of the transaction is that of its first statement.
        assert_counts({key: 0})
        elsewhere(count)
        count()
    assert count().replayed
    assert_counts({key: 5})
