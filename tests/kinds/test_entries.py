"""Entries by the thousand: all or none, and those with a token once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.exceptions import (
    CounterOverflow,
    InvalidDelta,
    InvalidKey,
    InvalidToken,
    TokenConflict,
    TokenExpired,
    UnsupportedToken,
)
from django_counters.kinds.entries import AppendedMany
from django_counters.models import Counter, CounterDelta
from django_counters.testing import assert_counts
from django_counters.tokens import Token, mint, token_of
from django_counters.types import INT8

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
STRANGE = [
    "\\",
    "\\\\",
    "\\N",
    "\\.",
    "\\t",
    "a\\b\\",
    "größe:Ω",
    "🎉",
    "%s",
    "'quoted'",
    '"quoted"',
    "a,b;c",
    "{1,2}",
    "NULL",
    "$1",
]
append_many = CounterDelta.objects.append_many


def fresh(ago: timedelta = timedelta()) -> UUID:
    return mint(clock.utc() - ago)


def entries() -> list[tuple[str, int]]:
    return sorted(CounterDelta.objects.values_list("key", "delta"))


@pytest.mark.parametrize("copy", [False, True])
class TestWithoutTokens:
    def test_each_pair_is_an_entry(self, copy: bool) -> None:
        pairs = [("a", 1), ("b", -2), ("a", 1), ("a", 5)]
        assert append_many(pairs, copy=copy) == AppendedMany(appended=4, replayed=0)
        assert entries() == sorted(pairs)
        assert_counts({"a": 7, "b": -2})

    def test_any_iterable_will_do(self, copy: bool) -> None:
        append_many({"a": 1, "b": 2}.items(), copy=copy)
        append_many((("a", number) for number in (3, 4)), copy=copy)
        append_many([("a", 5, None)], copy=copy)
        assert_counts({"a": 13, "b": 2})

    def test_nothing_is_nothing(self, copy: bool) -> None:
        assert append_many([], copy=copy) == AppendedMany(0, 0)
        assert entries() == []

    def test_thousands(self, copy: bool) -> None:
        pairs = [(f"key:{number % 7}", number % 13 - 6 or 1) for number in range(5_000)]
        assert append_many(pairs, copy=copy).appended == 5_000
        sums = dict.fromkeys((key for key, _ in pairs), 0)
        for key, by in pairs:
            sums[key] += by
        assert_counts(sums)
        assert entries() == sorted(pairs)

    def test_any_printable_text_is_kept_as_it_is(self, copy: bool) -> None:
        for by in (1, 2):
            append_many([(key, by) for key in STRANGE], copy=copy)
        assert entries() == sorted((key, by) for key in STRANGE for by in (1, 2))
        assert_counts(dict.fromkeys(STRANGE, 3))

    def test_the_whole_range_is_usable(self, copy: bool) -> None:
        append_many([("a", HIGHEST), ("b", LOWEST), ("c", HIGHEST), ("c", LOWEST)], copy=copy)
        assert_counts({"a": HIGHEST, "b": LOWEST, "c": -1})

    def test_it_comes_on_top_of_what_is_there(self, copy: bool) -> None:
        Counter.objects.increment("a", 5)
        append_many([("a", 1), ("new", 1)], copy=copy)
        append_many([("a", 1), ("new", 1)], copy=copy)
        assert_counts({"a": 7, "new": 2})
        assert Counter.objects.increment("a") == 8
        outside = dict(Counter.objects.values_list("key", "outside"))
        assert outside == {"a": 6, "new": 0}

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            (("a b", 1), InvalidKey),
            (("", 1), InvalidKey),
            (("a\tb", 1), InvalidKey),
            ((None, 1), InvalidKey),
            (("a", 0), InvalidDelta),
            (("a", 1.0), InvalidDelta),
            (("a", 2**63), InvalidDelta),
            (("a",), InvalidDelta),
            (("a", 1, None, None), InvalidDelta),
            (["a", 1], InvalidDelta),
            ("a1", InvalidDelta),
            (None, InvalidDelta),
        ],
    )
    def test_one_that_is_wrong_keeps_all_out(
        self, copy: bool, wrong: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            append_many([("a", 1), wrong, ("b", 1)], copy=copy)
        assert entries() == []

    def test_an_iterable_that_breaks_keeps_all_out(self, copy: bool) -> None:
        def breaking() -> Iterator[tuple[str, int]]:
            yield ("a", 1)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            append_many(breaking(), copy=copy)
        assert entries() == []

    def test_it_joins_the_callers_transaction(self, copy: bool) -> None:
        with transaction.atomic():
            append_many([("a", 1)], copy=copy)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                append_many([("a", 10), ("b", 10)], copy=copy)
                assert_counts({"a": 11, "b": 10})
                raise ZeroDivisionError
            append_many([("a", 2)], copy=copy)
        assert_counts({"a": 3, "b": 0})
        assert not Counter.objects.filter(key="b").exists()


class TestTokens:
    def test_an_entry_counts_once(self) -> None:
        given = [("a", 1, fresh()), ("b", 2, fresh()), ("a", 1, fresh())]
        assert append_many(given) == AppendedMany(appended=3, replayed=0)
        assert append_many(given) == AppendedMany(appended=0, replayed=3)
        # In whatever order, and together with new ones.
        more = [*reversed(given), ("a", 1, fresh())]
        assert append_many(more) == AppendedMany(appended=1, replayed=3)
        assert_counts({"a": 3, "b": 2})

    def test_in_one_call_too(self) -> None:
        one, other = fresh(), fresh()
        given: list[Any] = [
            ("a", 1, one),
            ("a", 1, other),
            ("a", 1, one),
            ("a", 1, str(one).upper()),
        ]
        assert append_many(given) == AppendedMany(appended=2, replayed=2)
        assert_counts({"a": 2})

    def test_with_and_without_one(self) -> None:
        given: list[Any] = [("a", 1, fresh()), ("a", 10), ("b", 100, None), ("a", 1, fresh())]
        assert append_many(given) == AppendedMany(appended=4, replayed=0)
        assert append_many(given) == AppendedMany(appended=2, replayed=2)
        assert_counts({"a": 22, "b": 200})

    def test_it_is_the_token_of_a_single_call(self) -> None:
        token, other = fresh(), fresh()
        CounterDelta.objects.append("a", 1, token=token)
        assert append_many([("a", 1, token), ("a", 1, other)]) == AppendedMany(1, 1)
        assert CounterDelta.objects.append("a", 1, token=other).replayed
        assert_counts({"a": 2})

    def test_thousands(self) -> None:
        moment = clock.utc() - timedelta(hours=3)
        given = [(f"key:{n % 7}", 1, token_of(f"line {n}", moment)) for n in range(3_000)]
        assert append_many(given[:2_000]) == AppendedMany(2_000, 0)
        assert append_many(given) == AppendedMany(1_000, 2_000)
        assert append_many(given) == AppendedMany(0, 3_000)
        assert sum(Counter.objects.values_of(f"key:{n}" for n in range(7)).values()) == 3_000

    def test_across_midnight(self) -> None:
        """Each belongs to a day of its own, wherever in the window the days begin."""
        now = clock.utc()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        hours = [midnight - timedelta(milliseconds=1), midnight, now - timedelta(hours=47)]
        given = [("a", 1, token_of(str(n), moment)) for n, moment in enumerate(hours)]
        for expected in (AppendedMany(3, 0), AppendedMany(0, 3)):
            assert append_many(given) == expected
        assert_counts({"a": 3})

    @pytest.mark.parametrize(
        "token",
        ["order-17", uuid4(), str(uuid4()), Token(str(fresh()), "user:1"), str(fresh())[:-1]],
        ids=["text", "another UUID", "its text", "scoped", "too short"],
    )
    def test_only_those_that_carry_a_time(self, token: Any) -> None:
        with pytest.raises(InvalidToken, match=r"token_of\(\) makes one"):
            append_many([("a", 1), ("a", 1, token)])
        assert entries() == []

    @pytest.mark.parametrize("token", ["", 5, b"abc", "x" * 256])
    def test_what_is_no_token_is_refused(self, token: Any) -> None:
        with pytest.raises(InvalidToken):
            append_many([("a", 1), ("a", 1, token)])
        assert entries() == []

    @pytest.mark.parametrize("used_as", [("a", 2), ("b", 1), ("a", -1)])
    def test_a_conflict_keeps_all_out(self, used_as: tuple[str, int]) -> None:
        token = fresh()
        append_many([(*used_as, token)])
        with pytest.raises(TokenConflict) as caught:
            append_many([("c", 1), ("c", 1, fresh()), ("a", 1, token), ("d", 1, fresh())])
        assert caught.value.token == str(token)
        assert entries() == [used_as]

    def test_a_conflict_within_the_call_keeps_all_out(self) -> None:
        token = fresh()
        with pytest.raises(TokenConflict) as caught:
            append_many([("a", 1, token), ("b", 1), ("a", 2, token)])
        assert caught.value.token == str(token)
        assert entries() == []

    @pytest.mark.parametrize("ago", [timedelta(hours=49), -timedelta(hours=2)])
    def test_one_that_is_expired_keeps_all_out(self, ago: timedelta) -> None:
        token = fresh(ago)
        with pytest.raises(TokenExpired) as caught:
            append_many([("a", 1), ("a", 1, fresh()), ("a", 1, token)])
        assert caught.value.token == str(token)
        assert entries() == []
        assert not Counter.objects.exists()

    @pytest.mark.parametrize(("edge", "by"), [(HIGHEST, 1), (LOWEST, -1)])
    def test_a_total_that_could_not_take_it_keeps_all_out(self, edge: int, by: int) -> None:
        Counter.objects.create(key="full", value=edge - by)
        calls: list[Callable[[], Any]] = [
            lambda: append_many([("a", 1), ("full", by), ("full", by)]),
            lambda: append_many([("a", 1), ("full", by), ("full", by)], copy=True),
            lambda: append_many([("a", 1, fresh()), ("full", 2 * by, fresh())]),
        ]
        for call in calls:
            with pytest.raises(CounterOverflow) as caught:
                call()
            assert caught.value.key == "full"
        assert entries() == []
        assert_counts({"a": 0, "full": edge - by})

    def test_the_callers_transaction_goes_on_after_a_refusal(self) -> None:
        token = fresh()
        refused: list[Callable[[], Any]] = [
            lambda: append_many([("a", 1), ("b", 9, token)]),
            lambda: append_many([("a", 1), ("b", 1, fresh(timedelta(days=3)))]),
            lambda: append_many([("a", HIGHEST), ("a", HIGHEST)]),
        ]
        with transaction.atomic():
            append_many([("b", 1, token)])
            for call in refused:
                with pytest.raises((TokenConflict, TokenExpired, CounterOverflow)):
                    call()
            append_many([("b", 1)])
        assert entries() == [("b", 1)] * 2

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_copy_cannot_honour_one(self, place: int) -> None:
        given: list[Any] = [("a", 1), ("a", 1)]
        given.insert(place, ("b", 1, fresh()))
        with pytest.raises(UnsupportedToken, match="a COPY cannot skip"):
            append_many(given, copy=True)
        assert entries() == []
