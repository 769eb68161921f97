"""Cached counters of projects whose tests and development machines have no Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import transaction
from django.test import override_settings

from django_counters.cached.flush import flush
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.testapp.models import Article

pytestmark = pytest.mark.django_db
NO_REDIS = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@pytest.fixture(autouse=True)
def without_redis() -> Iterator[None]:
    declared = override_counters(views={"STRATEGY": "cached"})
    with declared, override_settings(CACHES=NO_REDIS, COUNTERS_CACHED_AS_EXACT=True):
        yield


def test_a_named_counter_counts_in_the_database_and_rolls_back_with_it() -> None:
    assert Counter.objects.increment("views:a", 2) == 2
    with transaction.atomic():
        assert Counter.objects.increment("views:a", 3, immediately=True) == 5
        transaction.set_rollback(True)
    assert Counter.objects.increment_many({"views:a": 1, "stock:b": 4}) == {
        "views:a": 3,
        "stock:b": 4,
    }
    assert Counter.objects.get(key="views:a").value == 3


def test_a_cached_reading_is_exact() -> None:
    Counter.objects.increment("views:a", 2)
    assert Counter.objects.value("views:a", consistency="cached", max_age=60) == 2
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": 2}
    assert Counter.objects.read("views:a", consistency="cached").pending == 0
    assert Counter.objects.explain("views:a").redis is None


def test_a_field_counts_in_its_column() -> None:
    article = Article.objects.create()
    assert article.reads.increment(3) == 3
    assert article.reads.value(consistency="cached") == 3
    assert article.reads.read(consistency="cached").value == 3
    assert [a.reads for a in Article.objects.with_counts(consistency="cached")] == [3]
    assert Article.objects.filter(reads=3).exists()
    article.delete()


@pytest.mark.django_db(transaction=True)
def test_async_code_counts_there_too() -> None:
    assert async_to_sync(Counter.objects.aincrement)("views:a", 2) == 2
    assert async_to_sync(Counter.objects.avalue)("views:a", consistency="cached") == 2


def test_nobody_looks_for_a_redis() -> None:
    assert flush("default").counters == 0
    assert [found.id for found in run_checks() if str(found.id).startswith("counters.")] == []
    deployed = run_checks(include_deployment_checks=True)
    assert [f.id for f in deployed if str(f.id).startswith("counters.")] == ["counters.W017"]


def test_without_the_setting_all_is_cached_again() -> None:
    recipe = Article._meta.get_field("reads").recipe
    assert not recipe.can.outside
    with override_settings(COUNTERS_CACHED_AS_EXACT=False):
        assert Article._meta.get_field("reads").recipe.can.outside
