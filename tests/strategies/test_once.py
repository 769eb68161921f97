"""Tokens: a change counts once, however often and in whatever way the call is repeated."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.errors import InvalidToken, TokenConflict, TokenExpired
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterShard,
    CounterToken,
    SlottedCounter,
)
from django_counters.tokens import Token, mint, moment_of
from django_counters.types import Appended, Counted
from tests.testapp.models import Post, Song

pytestmark = pytest.mark.django_db

DECLARED: dict[str, Any] = {
    "likes": {"STRATEGY": "sharded"},
    "orders": {"STRATEGY": "ledger"},
}
NUMBERED = ["exact", "sharded", "shards", "slotted", "slots", "field"]
WAYS = [*NUMBERED, "ledger", "entries"]


class Way(NamedTuple):
    """One way to count: ``change(by, token=…)``, and what the value is."""

    change: Callable[..., Any]
    value: Callable[[], int]


@pytest.fixture(autouse=True)
def _declared(override_counters: Callable[..., None]) -> None:
    override_counters(**DECLARED)


@pytest.fixture
def ways() -> dict[str, Way]:
    post, song = Post.objects.create(), Song.objects.create()
    slots = SlottedCounter.objects
    named = {"exact": "a", "sharded": "likes:a", "ledger": "orders:a"}
    return {
        **{name: _named(key) for name, key in named.items()},
        "shards": Way(
            lambda by, **more: CounterShard.objects.increment("shards", by, **more),
            lambda: Counter.objects.value("shards"),
        ),
        "entries": Way(
            lambda by, **more: CounterDelta.objects.append("entries", by, **more),
            lambda: Counter.objects.value("entries"),
        ),
        "slots": Way(
            lambda by, **more: slots.increment(song, "downloads", by, **more),
            lambda: slots.value(song, "downloads"),
        ),
        "slotted": Way(song.plays.increment, lambda: song.plays.read().value),
        "field": Way(post.views.increment, lambda: post.views.read().value),
    }


def _named(key: str) -> Way:
    return Way(
        lambda by, **more: Counter.objects.increment(key, by, **more),
        lambda: Counter.objects.value(key),
    )


def fresh(ago: timedelta = timedelta()) -> UUID:
    """A token that nobody has used, of some time ago."""
    return mint(clock.utc() - ago)


def make_text() -> str:
    return f"order {uuid4().hex}: größe, 'quoted', %s, \x00, 🎉"


# One of each kind, made anew.
KINDS: dict[str, Callable[[], Any]] = {
    "UUIDv7": fresh,
    "its text": lambda: str(fresh()),
    "another UUID": uuid4,
    "a text": make_text,
    "a long text": lambda: make_text().ljust(255, "x"),
    "a text in a scope": lambda: Token(make_text(), "user:1"),
}

NO_TOKENS: list[Any] = [
    *("", "x" * 256, "\ud800", 5, True, b"abc", ("a", "b")),
    *(Token("", "user:1"), Token("a", "x" * 256), Token("a", "\udfff")),
    *(Token(5), Token("a", None)),  # type: ignore[arg-type]
]


def tokens() -> list[Any]:
    return [make() for make in KINDS.values()]


@pytest.mark.parametrize("name", WAYS)
class TestEveryWay:
    def test_a_change_counts_once(self, ways: dict[str, Way], name: str) -> None:
        way = ways[name]
        for expected, token in enumerate(tokens(), 1):
            assert way.change(1, token=token).replayed is False
            for _ in range(3):
                assert way.change(1, token=token).replayed is True
            assert way.value() == expected

    def test_a_change_is_what_it_changes(self, ways: dict[str, Way], name: str) -> None:
        way = ways[name]
        for token in tokens():
            way.change(5, token=token)
            for other in (4, -5):
                with pytest.raises(TokenConflict) as caught:
                    way.change(other, token=token)
                assert caught.value.token == (
                    token.text if isinstance(token, Token) else str(token)
                )
            assert way.change(5, token=token).replayed
        assert way.value() == 5 * len(KINDS)

    def test_a_token_is_used_for_one_counter(self, ways: dict[str, Way], name: str) -> None:
        """Whatever strategy the other one has, and where ever it keeps its tokens."""
        for token in tokens():
            ways[name].change(1, token=token)
            for other in set(ways) - {name}:
                before = ways[other].value()
                with pytest.raises(TokenConflict):
                    ways[other].change(1, token=token)
                assert ways[other].value() == before

    def test_one_of_long_ago_or_of_the_future_is_refused(
        self, ways: dict[str, Way], name: str
    ) -> None:
        token = fresh(timedelta(hours=48, seconds=1))
        with pytest.raises(TokenExpired) as caught:
            ways[name].change(1, token=token)
        assert (caught.value.token, caught.value.created_at) == (str(token), moment_of(token))
        with pytest.raises(TokenExpired):
            ways[name].change(1, token=fresh(-timedelta(hours=1, minutes=1)))
        assert ways[name].value() == 0
        assert not CounterToken.objects.exists()
        for value, ago in ((1, timedelta(hours=47, minutes=59)), (2, -timedelta(minutes=59))):
            token = fresh(ago)
            assert ways[name].change(1, token=token).replayed is False
            assert ways[name].change(1, token=token).replayed is True
            assert ways[name].value() == value

    def test_what_is_no_token_is_refused(self, ways: dict[str, Way], name: str) -> None:
        for token in NO_TOKENS:
            with pytest.raises(InvalidToken) as caught:
                ways[name].change(1, token=token)
            assert isinstance(caught.value, ValueError)
        assert ways[name].value() == 0

    def test_what_is_rolled_back_did_not_use_it(self, ways: dict[str, Way], name: str) -> None:
        way = ways[name]
        for turn, token in enumerate(tokens()):
            with transaction.atomic():
                with pytest.raises(ZeroDivisionError), transaction.atomic():
                    assert way.change(2, token=token).replayed is False
                    assert way.change(2, token=token).replayed is True
                    raise ZeroDivisionError
                assert way.value() == 3 * turn
                # Also not for another change.
                assert way.change(3, token=token).replayed is False
            assert way.change(3, token=token).replayed is True
            assert way.value() == 3 * turn + 3

    def test_a_conflict_leaves_the_callers_transaction_usable(
        self, ways: dict[str, Way], name: str
    ) -> None:
        way, token = ways[name], fresh()
        with transaction.atomic():
            way.change(1, token=token)
            with pytest.raises(TokenConflict):
                way.change(2, token=token)
            with pytest.raises(TokenExpired):
                way.change(2, token=fresh(timedelta(days=3)))
            way.change(4)
        assert way.value() == 5

    def test_a_text_of_a_uuid_is_the_same_token(self, ways: dict[str, Way], name: str) -> None:
        token = fresh()
        ways[name].change(1, token=str(token))
        for spelling in (token, str(token).upper(), Token(str(token))):
            assert ways[name].change(1, token=spelling).replayed is True
        assert ways[name].value() == 1

    def test_scopes_are_kept_apart(self, ways: dict[str, Way], name: str) -> None:
        for text in ("retry-1", str(fresh())):
            before = ways[name].value()
            three = [text, Token(text, "user:1"), Token(text, "user:2")]
            for token in (*three, *three):
                ways[name].change(1, token=token)
            assert ways[name].value() == before + 3


@pytest.mark.parametrize("name", NUMBERED)
class TestNumbers:
    def test_a_replay_returns_the_first_value_although_the_counter_moved_on(
        self, ways: dict[str, Way], name: str
    ) -> None:
        way = ways[name]
        way.change(10)
        for token in tokens():
            first = way.change(2, token=token)
            assert first == way.value()
            for _ in range(2):
                way.change(5)
                replayed = way.change(2, token=token)
                assert (replayed, replayed.replayed) == (first, True)
                assert isinstance(replayed, int)


@pytest.mark.parametrize("name", ["ledger", "entries"])
class TestEntries:
    def test_a_replay_names_the_entry(self, ways: dict[str, Way], name: str) -> None:
        for token in tokens():
            first = ways[name].change(1, token=token)
            replayed = ways[name].change(1, token=token)
            assert isinstance(first, Appended)
            assert isinstance(replayed, Appended)
            assert (replayed.key, replayed.token) == (first.key, first.token)
            assert CounterDelta.objects.filter(token=str(first.token)).count() == 1

    def test_what_was_counted_within_the_window_is_told_when_it_is_over(
        self, ways: dict[str, Way], name: str
    ) -> None:
        token = fresh(timedelta(hours=10))
        ways[name].change(1, token=token)
        assert CounterHorizon.objects.update(token_window=timedelta(hours=1)) == 1
        assert ways[name].change(1, token=token).replayed is True
        with pytest.raises(TokenConflict):
            ways[name].change(2, token=token)
        with pytest.raises(TokenExpired):
            ways[name].change(1, token=fresh(timedelta(hours=10)))
        assert ways[name].value() == 1


def test_each_way_to_write_a_change_is_the_same_change() -> None:
    token = fresh()
    first = Counter.objects.increment("a", -3, token=token)
    again: Any = Counter.objects.decrement("a", 3, token=token)
    assert (first, again, again.replayed) == (-3, -3, True)


def test_a_counted_value_is_a_number() -> None:
    for _ in range(2):
        value = Counter.objects.increment("a", 5, token="order-17")
        assert isinstance(value, Counted)
        assert (value + 1, f"{value}", json.dumps(value), max(value, 3)) == (6, "5", "5", 5)
        for plain in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert (plain, type(plain)) == (5, int)


def test_a_replay_leaves_the_instance_as_it_is() -> None:
    post = Post.objects.create()
    assert post.views.increment(2, token="a") == 2
    assert post.views.increment(5) == 7
    replayed = post.views.increment(2, token="a")
    assert (replayed, replayed.replayed) == (2, True)
    assert post.views == 7
    assert post.views.increment(token="b").replayed is False


def test_a_token_of_one_counter_of_records_is_none_of_another_one() -> None:
    song, other = Song.objects.create(), Song.objects.create()
    song.plays.increment(token="a")
    conflicts: list[Callable[[], Any]] = [
        lambda: other.plays.increment(token="a"),
        lambda: song.stars.increment(token="a"),
        lambda: SlottedCounter.objects.increment(song, "downloads", token="a"),
        lambda: Post.objects.create(pk=song.pk).views.increment(token="a"),
    ]
    for conflict in conflicts:
        with pytest.raises(TokenConflict):
            conflict()
    # The manager of slots means the field.
    assert SlottedCounter.objects.increment(song, "plays", token="a").replayed
    assert song.plays.read().value == 1


def test_neither_token_nor_scope_is_kept_as_text() -> None:
    Counter.objects.increment("a", token=Token("secret-token", "secret-scope"))
    (row,) = CounterToken.objects.values_list()
    kept = b" ".join(str(part).encode() if isinstance(part, str) else b"%r" % part for part in row)
    assert b"secret" not in kept
