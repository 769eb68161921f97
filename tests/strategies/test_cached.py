"""The cached strategy, on a real Redis: what is counted, and what is returned."""

from __future__ import annotations

from typing import Any

import pytest

from django_counters.exceptions import (
    CounterOverflow,
    InvalidDelta,
    InvalidKey,
    UnsupportedBounds,
)
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.upkeep.flush import flush

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
ODD = [
    "views:{a}",
    "views:}{",
    "views:%s%%",
    "views:*?[a-z]",
    "views:größe",
    "views:日本語🙂",
    "views:'\"\\$1",
    "views:\\0k0g",
    "views:" + "ß" * 194,
    "views:",
]


def test_a_change_returns_the_new_value() -> None:
    assert Counter.objects.increment("views:a") == 1
    assert Counter.objects.increment("views:a", 4) == 5
    assert Counter.objects.decrement("views:a") == 4
    assert Counter.objects.decrement("views:a", 10) == -6
    assert Counter.objects.value("views:a") == -6
    assert not Counter.objects.filter(key="views:a").exists()


def test_many_changes_return_the_new_values() -> None:
    assert Counter.objects.increment_many({"views:a": 3, "views:b": -2}) == {
        "views:a": 3,
        "views:b": -2,
    }
    assert Counter.objects.decrement_many({"views:a": 1, "views:c": 7}) == {
        "views:a": 2,
        "views:c": -7,
    }
    assert Counter.objects.increment_many({}) == {}


def test_a_flush_lands_it_once() -> None:
    Counter.objects.increment_many({"views:a": 3, "views:b": 1})
    report = flush()
    assert report.counters == 2
    assert Counter.objects.get(key="views:a").value == 3
    assert flush().counters == 0
    assert Counter.objects.values_of(["views:a", "views:b", "views:c"]) == {
        "views:a": 3,
        "views:b": 1,
        "views:c": 0,
    }
    assert Counter.objects.increment("views:a") == 4


@pytest.mark.parametrize("by", [2**53 + 1, -(2**53) - 3, 2**61 + 12345, -(2**62) + 1])
def test_large_numbers_are_not_rounded(by: int) -> None:
    assert Counter.objects.increment("views:a", by) == by
    assert Counter.objects.increment("views:a", 1) == by + 1
    assert Counter.objects.value("views:a") == by + 1
    flush()
    assert Counter.objects.get(key="views:a").value == by + 1
    # Now the total is the large one.
    assert Counter.objects.increment("views:a", 1) == by + 2
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": by + 2}
    flush()
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": by + 2}
    assert Counter.objects.value("views:a") == by + 2


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("large", [2**53 + 2, -(2**55) - 4, 2**61 + 100])
@pytest.mark.parametrize("lands", [False, True])
def test_large_numbers_that_nearly_cancel_out(large: int, many: bool, lands: bool) -> None:
    """A sum may be small enough for a script to count in Lua where its parts are not."""

    def count(by: int) -> list[int]:
        if many:
            return list(Counter.objects.increment_many({"views:a": by, "views:b": by}).values())
        return [Counter.objects.increment(key, by) for key in ("views:a", "views:b")]

    flush()
    Counter.objects.values_of(["views:a", "views:b"], consistency="cached")
    assert count(1) == [1, 1]
    assert count(large) == [large + 1] * 2
    if lands:
        flush()
    assert count(5 - large) == [6, 6]
    for _ in range(2):
        assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 6, "views:b": 6}
        found = Counter.objects.values_of(["views:a", "views:b"], consistency="cached", max_age=600)
        assert found == {"views:a": 6, "views:b": 6}
        flush()
    assert list(Counter.objects.values_list("value", flat=True)) == [6, 6]


@pytest.mark.parametrize("by", [2**62, -(2**62)])
def test_what_waits_ends_at_62_bits(by: int) -> None:
    """Half the range of a total, so that nobody who compares it can be wrong."""
    sign = 1 if by > 0 else -1
    assert Counter.objects.increment("views:a", by) == by
    for _ in range(2):
        with pytest.raises(CounterOverflow) as caught:
            Counter.objects.increment("views:a", by)
        assert "views:a" in str(caught.value)
    with pytest.raises(CounterOverflow):
        Counter.objects.increment("views:b", INT8[0] if by < 0 else INT8[1])
    with pytest.raises(CounterOverflow):
        Counter.objects.increment_many({"views:c": 1, "views:a": by, "views:d": 1})
    values = Counter.objects.values_of(["views:a", "views:b", "views:c", "views:d"])
    assert list(values.values()) == [by, 0, 0, 0]
    assert Counter.objects.increment("views:a", -sign) == by - sign


@pytest.mark.parametrize("key", ODD)
def test_keys_are_any_keys(key: str) -> None:
    assert Counter.objects.increment(key, 2) == 2
    assert Counter.objects.increment_many({key: 3, "views:a": 1}) == {key: 5, "views:a": 1}
    flush()
    assert Counter.objects.get(key=key).value == 5
    assert Counter.objects.increment(key) == 6
    assert Counter.objects.values_of([key, "views:a"], consistency="cached") == {
        key: 6,
        "views:a": 1,
    }


@pytest.mark.parametrize("bound", [{"floor": 0}, {"ceiling": 5}, {"floor": -3, "ceiling": 3}])
def test_bounds_are_refused(bound: dict[str, int]) -> None:
    change: Any = Counter.objects.decrement if "floor" in bound else Counter.objects.increment
    with pytest.raises(UnsupportedBounds) as caught:
        change("views:a", **bound)
    assert (caught.value.key, caught.value.strategy) == ("views:a", "cached")
    assert Counter.objects.value("views:a") == 0


def test_a_bound_that_the_change_does_not_move_towards_is_not_asked() -> None:
    assert Counter.objects.increment("views:a", floor=0) == 1
    assert Counter.objects.decrement("views:a", 3, ceiling=0) == -2


@pytest.mark.parametrize("by", [0, True, 1.5, "1", None, 2**63, -(2**63) - 1])
def test_what_is_no_delta_is_refused(by: Any) -> None:
    with pytest.raises(InvalidDelta):
        Counter.objects.increment("views:a", by)
    with pytest.raises(InvalidDelta):
        Counter.objects.increment_many({"views:b": 1, "views:a": by})
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 0, "views:b": 0}


@pytest.mark.parametrize("key", ["views:a b", "views:\n", "views:\0g", "views:" + "x" * 195, 7])
def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidKey):
        Counter.objects.increment(key)
    with pytest.raises(InvalidKey):
        Counter.objects.increment_many({"views:b": 1, key: 1})
    assert Counter.objects.value("views:b") == 0


def test_a_shard_key_means_nothing() -> None:
    assert Counter.objects.increment("views:a", shard_key="user 1") == 1
    assert Counter.objects.increment("views:a", shard_key=2) == 2


def test_two_cached_namespaces_are_one_batch() -> None:
    likes = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10, "max_age": 60}}
    with override_counters(likes=likes):
        values = Counter.objects.increment_many({"views:a": 1, "likes:a": 2})
        assert values == {"views:a": 1, "likes:a": 2}
        assert Counter.objects.values_of(["views:a", "likes:a"]) == values


def test_cached_and_exact_counters_in_one_batch() -> None:
    values = Counter.objects.increment_many({"views:a": 1, "plain": 2})
    assert values["plain"] == 2
    assert Counter.objects.values_of(["views:a", "plain"]) == {"views:a": 1, "plain": 2}


def test_the_counters_of_a_queryset() -> None:
    Counter.objects.increment_many({"views:a": 5, "views:b": 1})
    flush()
    assert Counter.objects.filter(key__startswith="views:").increment(3) == 2
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 8, "views:b": 4}
