"""The helpers for the tests of projects."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import SimpleTestCase, TestCase

from django_counters.errors import InsufficientCount
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


SETTINGS = """
import os
SECRET_KEY = "tests only"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_counters"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site", "TEST": {"NAME": "tests"}}
}
CACHES = {"default": {
    "BACKEND": "django.core.cache.backends.redis.RedisCache",
    "LOCATION": os.environ["REDIS_URL"],
    "KEY_PREFIX": os.environ["PREFIX"],
}}
COUNTERS = {"views": {"STRATEGY": "cached"}}
"""
PROJECT = """
import os
import pytest
from django.test import TestCase
from django_counters.models import Counter
from django_counters.cached.sources import slots_of

def count():
    assert Counter.objects.increment("views:a") == 1
    with open("keys", "a") as file:
        print(slots_of("default", os.environ["PREFIX"]).keys(0)[0], file=file)

class CountedTests(TestCase):
    def test_one(self): count()
    def test_two(self): count()

@pytest.mark.django_db
def test_three(): count()

@pytest.mark.django_db(transaction=True)
def test_four(): count()
"""


def test_each_test_and_each_run_of_a_project_starts_at_zero(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "test_project.py").write_text(PROJECT)
    prefix = secrets.token_hex(6)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PREFIX": prefix}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    plugins = ("-p", "pytest_django.plugin", "-p", "django_counters.pytest_plugin")
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, "--create-db"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "4 passed" in run.stdout, run.stdout + run.stderr
    parts = {key.replace(":0}:p", ":*") for key in (tmp_path / "keys").read_text().split()}
    assert len(parts) == 8
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    assert [key for part in parts for key in client.scan_iter(part, count=10_000)] == []
