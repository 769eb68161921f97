"""Upkeep as a task of Django's own task framework, which Django has from 6.0 on.

``upkeep.enqueue()`` is for a scheduler of yours, such as cron: Django has none.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.tasks import task


@task
def upkeep(using: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Do all periodic work that is due, as ``counters upkeep --loop`` does. Safe to run at once."""
    from django_counters.jobs import do

    return do(using, due=True)
