"""Children of a model that counts once for each actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.db import connection, models
from django.db.models.signals import class_prepared
from django.test.utils import isolate_apps

from django_counters import CounterField
from django_counters.contrib import likes

pytestmark = pytest.mark.django_db(transaction=True)


class Wrapper:
    """Answers for the parent and for each child, as that of FieldTracker does."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __get__(self, instance: Any, cls: Any) -> Any:
        return self if instance is None else self.wrapped.__get__(instance, cls)

    def __set__(self, instance: Any, value: Any) -> None:
        self.wrapped.__set__(instance, value)

    def __delete__(self, instance: Any) -> None:
        self.wrapped.__delete__(instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


class Tracked:
    def contribute_to_class(self, cls: Any, name: str) -> None:
        def wrap(sender: Any, **_: Any) -> None:
            sender.likes = Wrapper(sender.likes)
            # Another class can get the id of this one when it is gone.
            class_prepared.disconnect(wrap, sender=cls)

        class_prepared.connect(wrap, sender=cls, weak=False)


def field_tracker() -> Any:
    reason = "django-model-utils is not installed"
    return pytest.importorskip("model_utils", reason=reason).FieldTracker()


@pytest.mark.parametrize("tracked", [None, Tracked, field_tracker])
@isolate_apps("tests.testapp")
def test_a_child_with_a_key_of_its_own_is_found_by_it(tracked: Callable[[], Any] | None) -> None:
    class Paper(models.Model):
        likes = CounterField(once=True)
        objects: ClassVar[models.Manager[Paper]] = models.Manager()
        if tracked is not None:
            tracker = tracked()

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
        other = Paper.objects.create()
        one: Any = Flyer.objects.create(code=str(other.pk))
        Flyer.objects.create(code="two")
        Flyer.likes.of(one.pk).increment(who="ann")
        assert [paper.likes for paper in Paper.objects.order_by("pk")] == [0, 1, 0]
        assert likes.has_many([one], "ann", field=Flyer.likes) == {one.pk}
        assert likes.has_many([one.pk, "two", "none"], "ann", field=Flyer.likes) == {one.pk}
        assert likes.has_many([1, 2, 3], "ann", field=Paper.likes) == {one.paper_id}
        loaded = Flyer.objects.defer("likes").get(pk=one.pk)
        assert [likes.toggle(loaded.likes, "bob").has for _ in range(2)] == [True, False]
        loaded.likes = 5
        del loaded.likes
        assert loaded.likes == 1
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Flyer)
            editor.delete_model(Paper)
