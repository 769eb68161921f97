"""A project without cached counters imports nothing of them, and no redis-py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_counters"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    COUNTERS=%s,
)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("check", deploy=True, databases=["default"])
from django_counters.metrics.doctor import examine
from django_counters.models import Counter
from django_counters.testing import isolated_counters
with isolated_counters():
    assert Counter.objects.increment("stock:a", 2) == 2
    assert Counter.objects.read("stock:a").value == 2
    assert Counter.objects.values_of(["stock:a", "b"]) == {"stock:a": 2, "b": 0}
    examine()
declared = {"django_counters.cached", "django_counters.cached.feature"}
ours = {one for one in sys.modules if one == "redis" or one.startswith("django_counters.cached")}
print(*sorted(ours - declared))
"""


def imported(counters: object) -> list[str]:
    """Count in a process of its own; the modules of cached counters that it imports."""
    run = [sys.executable, "-c", SCRIPT % repr(counters)]
    done = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize("counters", [{}, {"stock": {"FLOOR": 0}}])
def test_counting_imports_nothing_of_cached_counters(counters: object) -> None:
    assert imported(counters) == []


def test_a_namespace_that_is_cached_imports_them() -> None:
    counters = {"clicks": {"STRATEGY": "cached", "CACHE": os.environ["REDIS_URL"]}}
    assert "django_counters.cached.pending" in imported(counters)
