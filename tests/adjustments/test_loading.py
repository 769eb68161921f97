"""A project that adjusts nothing loads no code of adjustments but their models and their guard."""

from __future__ import annotations

import subprocess
import sys

PLAIN = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_counters"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()
from django.core.management import call_command

def print_loaded():
    folder = "django_counters.adjustments."
    print(*sorted(name.removeprefix(folder) for name in sys.modules if name.startswith(folder)))

print_loaded()
call_command("migrate", verbosity=0)
from django_counters.models import Counter
Counter.objects.increment("a")
print_loaded()
Counter.objects.adjust("a", by=2, reason="counted by hand", actor="a clerk")
print_loaded()
"""


def test_code_is_loaded_when_it_is_called() -> None:
    command = [sys.executable, "-W", "error", "-c", PLAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, counted, adjusted = (set(line.split()) for line in done.stdout.splitlines())
    assert first == {"models"}
    assert counted == {"models", "guard", "statements"}
    assert {"adjustment", "sql"} < adjusted
    assert not adjusted & {"admin", "forms", "rest", "command", "audit", "approval", "cases"}
