"""The promises of a counter in a model's row: nothing that saves the row overwrites it."""

from __future__ import annotations

import copy
import json
import pickle
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import FieldError
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.forms import modelform_factory
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from django_counters import AssignmentIgnored
from django_counters.models import Counter
from tests.testapp.models import DatabaseDefault, Derived, NewsPage, Post

pytestmark = pytest.mark.django_db


@pytest.fixture
def stale() -> Post:
    """An instance that was loaded before ten views were counted."""
    stale = Post.objects.create(views=1)
    Post.objects.get(pk=stale.pk).views.increment(10)
    assert stale.views == 1
    return stale


def stored(post: Post) -> int:
    return Post.objects.values_list("views", flat=True).get(pk=post.pk)


def test_save(stale: Post) -> None:
    stale.title = "changed"
    stale.save()
    assert Post.objects.get().title == "changed"
    stale.save(update_fields=["views"])
    stale.save(update_fields=["title", "views"])
    stale.save(force_update=True)
    Post(pk=stale.pk, title="by hand", views=0).save()
    assert stored(stale) == 11
    stale.views = 500
    stale.save()
    assert stored(stale) == 11
    stale.views.increment()
    stale.save()
    assert stored(stale) == stale.views == 12


def test_bulk_update(stale: Post) -> None:
    stale.title = "bulk"
    Post.objects.bulk_update([stale], ["views", "title"])
    stale.views = 500
    Post.objects.bulk_update([stale], ["views"])
    assert stored(stale) == 11
    assert Post.objects.get().title == "bulk"


def test_bulk_update_of_an_inherited_counter() -> None:
    stale = NewsPage.objects.create()
    NewsPage.objects.get().hits.increment(4)
    NewsPage.objects.bulk_update([stale], ["hits", "shares", "title"])
    assert NewsPage.objects.get().hits == 4


def test_update_or_create(stale: Post) -> None:
    Post.objects.update_or_create(pk=stale.pk, defaults={"views": 0, "title": "found"})
    assert stored(stale) == 11
    created, _ = Post.objects.update_or_create(title="new", defaults={"views": 3})
    assert stored(created) == 3


def test_bulk_create_refuses_to_overwrite(stale: Post) -> None:
    unique = ["id"] if connection.features.supports_update_conflicts_with_target else None
    with pytest.raises(FieldError, match="views"):
        Post.objects.bulk_create(
            [stale], update_conflicts=True, update_fields=["views"], unique_fields=unique
        )
    Post.objects.bulk_create(
        [Post(pk=stale.pk, title="t")],
        update_conflicts=True,
        update_fields=["title"],
        unique_fields=unique,
    )
    assert stored(stale) == 11


def test_insert_takes_the_initial_value() -> None:
    assert stored(Post.objects.create(views=4)) == 4
    made = Post(views=5)
    made.save()
    assert stored(made) == 5
    (bulk,) = Post.objects.bulk_create([Post(views=6)])
    assert stored(bulk) == 6
    copied = Post.objects.get(pk=bulk.pk)
    copied.pk = None
    copied._state.adding = True
    copied.save()
    assert stored(copied) == 6


def test_an_expression_is_evaluated_by_the_database(stale: Post) -> None:
    stale.views = F("views") + 1
    stale.save()
    assert stored(stale) == 12
    Post.objects.update(views=F("views") * 2)
    assert stored(stale) == 24
    Post.objects.update(views=0)
    assert stored(stale) == 0


def test_templates_cannot_count(stale: Post) -> None:
    template = Template("[{{ post.views }}{{ post.views.increment }}{{ rows.increment }}]")
    context = Context({"post": stale, "rows": Counter.objects.all()})
    assert template.render(context) == "[1]"
    assert stored(stale) == 11


def test_an_admin_form_adds_a_row_with_a_default_of_the_database() -> None:
    form = modelform_factory(DatabaseDefault, fields=["hits"])({})
    assert form.is_valid(), form.errors
    assert form.save().pk
    assert DatabaseDefault.objects.get().hits == 7


def test_refresh_and_deferred_loading(stale: Post) -> None:
    stale.refresh_from_db()
    assert stale.views == 11
    deferred = Post.objects.defer("views").get()
    assert "views" in deferred.get_deferred_fields()
    deferred.title = "deferred"
    deferred.save()
    assert stored(deferred) == 11
    with CaptureQueriesContext(connection) as captured:
        assert deferred.views == 11
    assert len(captured) == 1
    assert Post.objects.only("title").get().views.increment() == 12
    stale.refresh_from_db(fields=["views"])
    assert stale.views == 12


def test_copies_and_pickles_stand_on_their_own(stale: Post) -> None:
    for twin in (copy.copy(stale), copy.deepcopy(stale), pickle.loads(pickle.dumps(stale))):
        assert twin.views == 1
        twin.views.increment()
        assert stale.views == 1
    assert stored(stale) == 14
    number = pickle.loads(pickle.dumps(stale.views))
    assert (type(number), number) == (int, 1)
    assert type(copy.deepcopy(stale.views)) is int


def test_fixtures_carry_the_numbers(stale: Post) -> None:
    dumped = StringIO()
    call_command("dumpdata", "testapp.post", stdout=dumped)
    (record,) = json.loads(dumped.getvalue())
    assert record["fields"]["views"] == 11
    Post.objects.update(views=99)
    # Once over a row, and once where there is none.
    for _ in range(2):
        (loaded,) = serializers.deserialize("json", dumped.getvalue())
        loaded.save()
        assert isinstance(loaded.object, Post)
        assert loaded.object.views.increment() == 12
        assert loaded.object.views.decrement() == 11
        Post.objects.all().delete()
    for format_ in ("xml", "python", "jsonl"):
        assert serializers.serialize(format_, [stale])


def test_a_form_shows_it_and_never_changes_it(stale: Post) -> None:
    form_class = modelform_factory(Post, fields=["title", "views"])
    form = form_class({"title": "form", "views": "500"}, instance=stale)
    assert 'name="views" value="1" ' in form.as_p()
    assert "disabled" in form.as_p()
    assert form.is_valid(), form.errors
    form.save()
    assert stored(stale) == 11
    assert Post.objects.get().title == "form"


def test_a_generated_column_may_use_it() -> None:
    row = Derived.objects.create(hits=2)
    row.hits.increment()
    row.refresh_from_db()
    assert row.doubled == 6
    row.save()
    row.refresh_from_db()
    assert row.doubled == 6


class TestAssigned:
    """With DEBUG, what is assigned and not written is told of, and nothing else is."""

    @pytest.fixture(autouse=True)
    def debug(self, settings: Any) -> None:
        settings.DEBUG = True

    def test_the_line_is_told_once(self, stale: Post) -> None:
        for _ in range(2):
            stale.views += 1
            line = Path(__file__).read_text().split("\n").index("            stale.views += 1") + 1
            stale.save(update_fields=["title"])
            with pytest.warns(
                AssignmentIgnored, match=r"testapp\.Post\.views .* increment"
            ) as told:
                stale.save()
            assert [(one.filename, one.lineno) for one in told] == [(__file__, line)]
            stale.save()
        with pytest.warns(AssignmentIgnored):
            Post.objects.update_or_create(pk=stale.pk, defaults={"views": 0})
        page = NewsPage.objects.create()
        page.hits = 4
        with pytest.warns(AssignmentIgnored, match="hits"):
            page.save()

    def test_what_nobody_assigned_or_what_is_written_is_not_told(self, stale: Post) -> None:
        stale.save()
        Post.objects.get().save()
        stale.full_clean()
        stale.refresh_from_db()
        stale.save()
        stale.views = 500
        stale.refresh_from_db(fields=["views"])
        stale.save()
        stale.views = 500
        stale.views = F("views") + 1
        stale.save()
        stale.refresh_from_db()
        for loaded in serializers.deserialize("json", serializers.serialize("json", [stale])):
            loaded.save()
        form_class = modelform_factory(Post, fields=["title", "views"])
        form_class({"title": "form"}, instance=stale, initial={"views": 7}).save()
        assert form_class({"title": "new"}).save().views == 0
        assert stored(stale) == 12

    def test_what_a_new_row_gets_is_not_told(self, stale: Post) -> None:
        made = Post()
        made.views = 5
        made.save()
        made.save()
        for key in (None, made.pk + 1000):
            # Django tries an UPDATE first where there is a key.
            copied = copy.copy(stale)
            copied.views = 3
            copied.pk = key
            copied.save()
            copied.save()
            assert stored(copied) == 3
        copied.pk, copied.views = None, 6
        Post.objects.bulk_create([copied])
        copied.save()
        assert stored(copied) == 6
        with_default = DatabaseDefault.objects.create()
        with_default.save()
        with_default.hits.increment()
        with_default.save()
