"""The database check names the rows of a removed app whose table is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.checks import run_checks
from django.test import modify_settings, override_settings

from django_counters.models import Counter
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])
APP = "django_counters.contrib.regions"
ALONE = {"hits": {"STRATEGY": "sharded"}, "sales": {"STRATEGY": "ledger"}}


@contextmanager
def removed() -> Iterator[None]:
    """A site that goes on without regions."""
    with modify_settings(INSTALLED_APPS={"remove": APP}), override_settings(COUNTERS=ALONE):
        yield


def errors() -> list[str]:
    with removed():
        found = run_checks(databases=[EU.using])
    return [one.msg for one in found if one.id == "counters.E063"]


@pytest.mark.parametrize("key", ["likes:x", "hits:x", "sales:x"])
def test_unpublished_increments_are_not_left_behind(key: str) -> None:
    EU.count("plain:x")
    EU.count(key, 2)
    US.count(key, 3)
    US.count(f"{key}y")
    exchange(EU, US)
    assert errors() == []
    with removed():
        Counter.objects.increment(key, using=EU.using)
        Counter.objects.increment(f"{key}y", using=EU.using)
        Counter.objects.increment("plain:x", using=EU.using)
    assert errors() == [
        f"{APP!r} isn't installed, and its tables still have counters with unpublished increments "
        "(2). To do without it, add it again, publish them with manage.py counters upkeep publish, "
        "run manage.py migrate django_counters_regions zero, and remove it."
    ]
    exchange(EU, US)
    assert errors() == []
    assert (US.value(key), US.value(f"{key}y")) == (6, 2)
