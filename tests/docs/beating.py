"""Applies the migration of the page about django-celery-beat: ``python -m tests.docs.beating``.

Its models need to be in ``INSTALLED_APPS``, so this is a process of its own. It prints what the
scheduler then reads, by the name of each row: task, seconds, arguments, seconds until it expires.
"""

from __future__ import annotations

import json
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.utils.module_loading import import_string

from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "celery-beat.md"


def migration() -> Migration:
    """The migration that the page shows."""
    (block,) = (one for one in blocks(PAGE, "python") if one.why_not is not None)
    names: dict[str, Any] = {}
    exec(compile(block.text, block.page, "exec"), names)
    made: Migration = names["Migration"]("0002_schedule_counters", "blog")
    return made


def apply(shown: Migration) -> None:
    """Apply a migration to the state that it depends on."""
    # The app that it stands in is that of the reader.
    known = [one for one in shown.dependencies if one[0] == "django_celery_beat"]
    state = MigrationLoader(connection).project_state(known)
    with connection.schema_editor() as editor:
        shown.apply(state, editor)


def scheduled() -> dict[str, list[Any]]:
    """The entries as the scheduler of django-celery-beat reads them."""
    from celery import Celery

    scheduler = import_string("django_celery_beat.schedulers.DatabaseScheduler")
    entries = scheduler(app=Celery(set_as_current=False)).all_as_schedule()
    return {
        name: [
            entry.task,
            entry.schedule.run_every.total_seconds(),
            entry.kwargs,
            entry.model.expire_seconds,
        ]
        for name, entry in entries.items()
        # It has a task of its own, too.
        if entry.task.startswith("django_counters.")
    }


def main() -> None:
    """Apply it, change a time as the admin does, and apply it again."""
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django_celery_beat"],
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    shown = migration()
    apply(shown)
    first = scheduled()
    models = apps.get_app_config("django_celery_beat")
    intervals = models.get_model("IntervalSchedule")._default_manager
    rows = models.get_model("PeriodicTask")._default_manager
    seconds = intervals.create(every=5, period="seconds")
    rows.filter(name="django_counters.upkeep:default").update(interval=seconds)
    apply(shown)
    print(json.dumps([first, scheduled()]))


if __name__ == "__main__":
    main()
