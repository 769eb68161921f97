"""What publishing needs is imported before anything is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A child that is forked while a thread imports something would wait for that thread for ever.
SCRIPT = """
import os, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django_counters",
        "django_counters.contrib.buffers",
        "django_counters.contrib.streams",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    COUNTERS_STREAMS={
        "out": {"BACKEND": "redis", "LOCATION": "redis://127.0.0.1:1/0", "STREAM": "out"}
    },
    COUNTERS={"hits": {"BUFFER": {"to": "out", "seconds": 60}}},
)
django.setup()
from django.core.management import call_command
from django_counters.models import Counter
call_command("migrate", verbosity=0)
before = set(sys.modules)
Counter.objects.increment("hits:home")
print(sorted(set(sys.modules) - before), flush=True)
os._exit(0)  # nothing answers there
"""


def test_the_first_increment_imports_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr
