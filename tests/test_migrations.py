"""The migrations say what the models say, on every version of Django."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from django_counters.models import Counter


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check_changes=True, dry_run=True, stdout=StringIO())


@pytest.mark.django_db(transaction=True)
def test_the_app_can_be_removed_and_come_back() -> None:
    Counter.objects.increment("a")
    call_command("migrate", "django_counters", "zero", verbosity=0)
    assert Counter._meta.db_table not in connection.introspection.table_names()
    call_command("migrate", "django_counters", verbosity=0)
    assert Counter.objects.increment("a") == 1
