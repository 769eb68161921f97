"""The Celery app: tasks that land what waits in Redis, and fold what waits in the database."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from celery import Celery, Task
from celery.exceptions import SecurityWarning
from celery.signals import task_failure, task_success

# Where a worker notes what its tasks have done, for the report at the end.
JOURNAL = "DJC_JOURNAL"

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
app = Celery("example_project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Where the example is run by root, its servers let nobody else in.
warnings.filterwarnings("ignore", category=SecurityWarning)


@task_success.connect
def note_success(sender: Task[Any, Any], result: object, **_: object) -> None:
    """Write down what a task has done."""
    _note({"task": sender.name, "done": result})


@task_failure.connect
def note_failure(sender: Task[Any, Any], exception: BaseException, **_: object) -> None:
    """Write down that a task has failed."""
    _note({"task": sender.name, "failed": repr(exception)})


def _note(line: dict[str, object]) -> None:
    path = os.environ.get(JOURNAL)
    if path:
        # One write, so that a worker that is killed leaves whole lines but for the last one.
        with open(path, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")
