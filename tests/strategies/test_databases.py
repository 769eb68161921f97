"""Which database counts: ``using``, the manager's own, or the router's choice."""

from __future__ import annotations

from typing import Any

import pytest
from django.test.utils import override_settings

from django_counters.models import Counter


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.increment("a", 2, using="other") == 2
    assert Counter.objects.db_manager("other").increment("a", 2) == 4
    assert Counter.objects.using("other").filter(key="a").increment() == 1
    Counter.objects.increment_many({"b": 1}, using="other")
    Counter.objects.decrement_many({"b": 3}, using="other")
    assert Counter.objects.value("a") == 1
    assert Counter.objects.values_of(["a", "b"], using="other") == {"a": 5, "b": -2}
    assert Counter.objects.read("a", using="other").value == 5


class Elsewhere:
    """A router that sends everything to the other database."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "other"

    db_for_read = db_for_write


@pytest.mark.django_db(databases=["default", "other"])
@override_settings(DATABASE_ROUTERS=[Elsewhere()])
def test_without_using_the_router_decides() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.value("a") == 1
    assert Counter.objects.value("a", using="default") == 0


class ReadsElsewhere:
    """A router with a replica."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other"


@pytest.mark.django_db(databases=["default", "other"])
@override_settings(DATABASE_ROUTERS=[ReadsElsewhere()])
def test_every_change_goes_to_the_database_for_writing() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.increment_many({"a": 1}) == {"a": 2}
    assert Counter.objects.filter(key="a").increment(5) == 1
    assert Counter.objects.filter(key="a").decrement(1) == 1
    assert Counter.objects.value("a") == 0
    assert Counter.objects.value("a", using="default") == 6
