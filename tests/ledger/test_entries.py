"""Entries by the thousand: all or none, and those with a token once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.errors import (
    CounterOverflow,
    InvalidDelta,
    InvalidKey,
    InvalidToken,
    TokenConflict,
    TokenExpired,
    UnsupportedToken,
)
from django_counters.models import Counter, CounterDelta
from django_counters.testing import assert_counts
from django_counters.tokens import Token, mint
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
    @pytest.mark.parametrize(
        "token",
        [
            *("order-17", uuid4(), str(uuid4()), Token(str(fresh()), "user:1"), str(fresh())[:-1]),
            *("", 5, b"abc", "x" * 256),
        ],
        ids=lambda token: type(token).__name__,
    )
    def test_only_those_that_carry_a_time(self, token: Any) -> None:
        with pytest.raises(InvalidToken):
            append_many([("a", 1), ("a", 1, token)])
        assert entries() == []

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
