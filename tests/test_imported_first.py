"""A first change imports no module: a child that is forked meanwhile would wait for it forever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_counters"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": %r}},
    COUNTERS={"a": {"STRATEGY": %r}},
)
django.setup()
if sys.argv[1:]:
    from django.core.management import call_command
    call_command("migrate", verbosity=0)
else:
    from django_counters.models import Counter
    before = set(sys.modules)
    Counter.objects.increment("a:1")
    print(*(one for one in set(sys.modules) - before if one.startswith("django_counters.")))
"""


@pytest.mark.parametrize("strategy", ["exact", "sharded", "ledger"])
def test_a_first_change_imports_nothing(tmp_path: Path, strategy: str) -> None:
    script = [sys.executable, "-c", SCRIPT % (str(tmp_path / "db"), strategy)]
    subprocess.run([*script, "migrate"], cwd=ROOT, check=True)
    counted = subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True)
    assert counted.stdout.split() == []
