"""The helpers for the tests of projects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import SimpleTestCase, TestCase

from django_counters.exceptions import InsufficientCount
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.testing import (
    CounterTestMixin,
    assert_counted,
    assert_counts,
    override_counters,
)


class AsTestCase(CounterTestMixin, TestCase):
    def test_assertions(self) -> None:
        with self.assertCounted("a", "b", by=2):
            Counter.objects.increment_many({"a": 2, "b": 2})
        self.assertCounts({"a": 2, "b": 2, "c": 0})
        with self.assertRaisesMessage(AssertionError, "1 of 2 counters differ: a: 2, not 3"):
            self.assertCounts({"a": 3, "b": 2})
        with (
            self.assertRaisesMessage(AssertionError, "a: 3, not 2"),
            self.assertCounted("a", by=0),
        ):
            Counter.objects.increment("a")

    @override_counters(stock={"FLOOR": 0})
    def test_a_decorated_method(self) -> None:
        with self.assertRaises(InsufficientCount):
            Counter.objects.decrement("stock:a")


@override_counters(stock={"FLOOR": 7})
class AsClass(SimpleTestCase):
    def test_a_decorated_class(self) -> None:
        self.assertEqual(registry.policy("stock:a").bounds.floor, 7)


def test_namespaces_are_added_and_the_others_stay() -> None:
    with override_counters(a={"FLOOR": 1}), override_counters(b={"FLOOR": 2}):
        assert registry.policy("a:x").bounds.floor == 1
        assert registry.policy("b:x").bounds.floor == 2
    assert registry.policy("a:x").bounds.floor is None


@pytest.mark.django_db
def test_the_fixtures_of_the_plugin(
    override_counters: Callable[..., None],
    assert_counts: Callable[..., None],
    assert_counted: Callable[..., Any],
) -> None:
    override_counters(stock={"FLOOR": 0})
    with pytest.raises(InsufficientCount):
        Counter.objects.decrement("stock:a")
    with assert_counted("stock:a"):
        Counter.objects.increment("stock:a")
    assert_counts({"stock:a": 1})


@pytest.mark.django_db
def test_what_waits_in_the_ledger_counts() -> None:
    with override_counters(orders={"STRATEGY": "ledger"}), assert_counted("orders:a", by=2):
        Counter.objects.increment("orders:a", 2)
    assert_counts({"orders:a": 2})


@pytest.mark.django_db
def test_an_error_in_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), assert_counted("a"):
        raise ZeroDivisionError
    assert_counts({"a": 0})
