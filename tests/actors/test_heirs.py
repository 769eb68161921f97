"""Children of a model that counts once for each actor."""

from __future__ import annotations

from typing import ClassVar

import pytest
from django.db import connection, models
from django.test.utils import isolate_apps

from django_counters import CounterField

pytestmark = pytest.mark.django_db(transaction=True)


@isolate_apps("tests.testapp")
def test_a_child_with_a_key_of_its_own_is_found_by_it() -> None:
    class Paper(models.Model):
        likes = CounterField(once=True)
        objects: ClassVar[models.Manager[Paper]] = models.Manager()

        class Meta:
            app_label = "testapp"

    class Flyer(Paper):
        code = models.CharField(max_length=10, primary_key=True)
        paper = models.OneToOneField(Paper, models.CASCADE, parent_link=True, related_name="+")

        class Meta:
            app_label = "testapp"

    with connection.schema_editor() as editor:
        editor.create_model(Paper)
        editor.create_model(Flyer)
    try:
        Paper.objects.create()
        one, _ = (Flyer.objects.create(code=code) for code in ("one", "two"))
        Flyer.likes.of("one").increment(who="ann")
        assert Flyer.likes.has_many([one], "ann") == {"one"}
        assert Flyer.likes.has_many(["one", "two", "none"], "ann") == {"one"}
        assert Paper.likes.has_many([1, 2, 3], "ann") == {one.paper_id}  # type: ignore[attr-defined]
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Flyer)
            editor.delete_model(Paper)
