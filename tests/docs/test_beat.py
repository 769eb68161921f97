"""The page about django-celery-beat makes the rows that its scheduler runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from django_counters.tasks import counters_beat_schedule
from tests.docs.pages import ROOT


def test_the_migration_makes_the_rows_once() -> None:
    reason = "there is no django-celery-beat: it has no release for every Django"
    pytest.importorskip("django_celery_beat", reason=reason, exc_type=ImportError)
    run = subprocess.run(
        [sys.executable, "-m", "tests.docs.beating"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    first, second = json.loads(run.stdout)
    assert first == {
        name: [
            entry["task"],
            entry["schedule"],
            entry["kwargs"],
            entry["options"]["expire_seconds"],
        ]
        for name, entry in counters_beat_schedule().items()
    }
    changed = "django_counters.upkeep:default"
    assert second == {**first, changed: ["django_counters.upkeep", 5.0, {"using": "default"}, 10]}
