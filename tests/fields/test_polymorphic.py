"""Counter fields of models of django-polymorphic, as that package loads them."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest


def test_rows_are_instances_of_the_children() -> None:
    pytest.importorskip("polymorphic", reason="django-polymorphic is not installed")
    # Its models are found by their content types, so they have to stay in the registry.
    run = subprocess.run(
        [sys.executable, "-m", __name__], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "checked\n"), run.stderr


def _main() -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection, models

    redis = "django.core.cache.backends.redis.RedisCache"
    url, prefix = os.environ["REDIS_URL"], secrets.token_hex(8)
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        CACHES={"default": {"BACKEND": redis, "LOCATION": url, "KEY_PREFIX": prefix}},
        INSTALLED_APPS=["django.contrib.contenttypes", "polymorphic", "django_counters"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

    from django_counters import CachedCounterField, CounterField, CounterQuerySet
    from django_counters.models import SlottedCounter

    names = ("managers", "models", "query")
    managers, bases, queries = (import_module(f"polymorphic.{name}") for name in names)
    rows_class: Any = queries.PolymorphicQuerySet
    base: Any = bases.PolymorphicModel

    class Counting(CounterQuerySet[Any], rows_class):  # type: ignore[misc]
        pass

    class Project(base):  # type: ignore[misc]
        views = CounterField(floor=0)
        reads = CachedCounterField(timeout=10)
        plays = CounterField(strategy="slotted")
        objects = managers.PolymorphicManager.from_queryset(Counting)()

        class Meta:
            app_label = "django_counters"

    class Painting(Project):
        sales = CounterField(strategy="slotted")

        class Meta:
            app_label = "django_counters"

    class Study(Project):
        code = models.CharField(max_length=10, primary_key=True)
        project = models.OneToOneField(Project, models.CASCADE, parent_link=True)
        cites = CachedCounterField(timeout=10)

        class Meta:
            app_label = "django_counters"

    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        for model in (Project, Painting, Study):
            editor.create_model(model)
    made: list[Any] = [Project.objects.create(), Painting.objects.create()]
    # Its key is that of another record.
    made.append(Study.objects.create(code=str(made[0].pk)))
    for by, one in enumerate(made, 1):
        assert one.views.increment(by) == by
        for counter in (one.reads, one.plays):
            counter.increment(by * 10)
        assert SlottedCounter.objects.increment(one, "plays") == by * 10 + 1
    made[1].sales.increment(5)
    made[2].cites.increment(6)
    expected = [(Project, 1, 10, 11), (Painting, 2, 20, 21), (Study, 3, 30, 31)]
    for rows in (Project.objects.with_counts(), Project.objects.order_by("id").with_counts()):
        for loaded in (list(rows), list(rows.iterator(2))):
            found = [(type(one), one.views, one.reads, one.plays) for one in loaded]
            assert found == expected, found
    plain = Project.objects.with_counts().non_polymorphic()
    assert [(type(one), one.reads) for one in plain] == [(Project, n) for n in (10, 20, 30)]
    assert Painting.objects.with_counts().get().sales == 5
    assert Study.objects.with_counts().get().cites == 6
    assert Study.views.of(made[2].pk).increment() == 4
    for one in made:
        one.refresh_from_db()
        one.views = 99
        one.save()
        again = type(one).objects.get(pk=one.pk)
        assert again.views == again.views.value() < 5
    keys = [one.id for one in made]
    Project.objects.all().delete()
    assert not SlottedCounter.objects.exists()
    for key in keys:
        again = Project.objects.create(pk=key)
        assert (again.views.value(), again.reads.value(), again.plays.value()) == (0, 0, 0)
    print("checked")


if __name__ == "__main__":
    _main()
