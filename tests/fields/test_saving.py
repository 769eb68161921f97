"""The promises of a counter in a model's row: nothing that saves the row overwrites it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from io import StringIO
from operator import methodcaller
from pathlib import Path
from typing import Any

import django
import pytest
from django.core import serializers
from django.core.exceptions import FieldError, ValidationError
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.models import F, signals
from django.forms import modelform_factory
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from django_counters import AssignmentIgnored
from django_counters.contrib import likes as likes_app
from django_counters.errors import InitialOutOfBounds, InvalidDelta
from django_counters.models import Counter, SlottedCounter
from tests.testapp.models import (
    DatabaseDefault,
    Derived,
    NewsPage,
    Note,
    Page,
    Post,
    Product,
    ProxyPage,
    Song,
)

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


def _again(record: models.Model) -> Any:
    record.pk = None
    record._state.adding = True
    return record


def _by_its_attributes(record: models.Model) -> Any:
    names = [field.name for field in record._meta.fields if not field.primary_key]
    return type(record)(**{name: getattr(record, name) for name in names})


def _insert_many(new: Any) -> None:
    (made,) = type(new).objects.bulk_create([new])
    assert made.pk


@pytest.mark.parametrize("copied", [_again, _by_its_attributes])
@pytest.mark.parametrize("insert", [methodcaller("save"), _insert_many])
def test_a_copy_of_what_no_new_row_could_be(
    copied: Callable[[models.Model], Any], insert: Callable[[models.Model], None]
) -> None:
    product = Product.objects.create(name="tea", stock=5)
    Product.objects.update(stock=-3)
    new = copied(Product.objects.get())
    new.full_clean()
    insert(new)
    assert Product.objects.values_list("stock", flat=True).get(pk=new.pk) == -3
    # Its actors stay with the record that they have counted.
    note = Note.objects.create()
    note.likes.increment(who="ann")
    note.stars.increment(who="ann")
    new = copied(Note.objects.with_counts().get(pk=note.pk))
    assert (new.likes, new.stars) == (1, 1)
    insert(new)
    stored = Note.objects.with_counts().get(pk=new.pk)
    for likes, stars in (new.likes, new.stars), (stored.likes, stored.stars):
        assert (likes, stars) == (0, 0)
    assert not likes_app.has(new.likes, "ann")
    assert likes_app.toggle(new.likes, "ann").result == 1
    with pytest.raises(InitialOutOfBounds):
        Product(stock=product.stock - 10).save()


def test_a_new_record_with_a_related_object_keeps_its_bounds() -> None:
    new, note = Product(stock=-5), Note(likes=7)
    for one in (new, note):
        # Django does this when a related object is assigned.
        one._state.db = "default"
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        new.full_clean()
    for unsaved in (new, copy.copy(new)):
        with pytest.raises(InitialOutOfBounds):
            unsaved.save()
    with pytest.raises(InvalidDelta, match="starts at 0"):
        note.save()


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_a_copy_of_a_loaded_record_keeps_its_number(twin: Callable[[Any], Any]) -> None:
    Product.objects.create(name="tea", stock=5)
    Product.objects.update(stock=-3)
    late: Any = Product.objects.defer("stock").get()
    assert late.stock == -3
    fresh: Any = Product.objects.get()
    fresh.refresh_from_db(fields=["stock"])
    for loaded in (late, fresh, Product.objects.get()):
        new = _again(twin(loaded))
        new.full_clean()
        new.save()
        assert Product.objects.values_list("stock", flat=True).get(pk=new.pk) == -3


@pytest.mark.parametrize("twin", [lambda one: one, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("insert", [methodcaller("save"), _insert_many])
def test_a_number_that_is_assigned_to_a_copy_keeps_to_the_bounds(
    twin: Callable[[Any], Any], insert: Callable[[models.Model], None]
) -> None:
    Product.objects.create(name="tea", stock=5)
    Product.objects.update(stock=-3)
    for first in (False, True):
        loaded: Any = Product.objects.get(name="tea")
        if first:
            loaded.stock = -5
        new = _again(twin(loaded))
        if not first:
            new.stock = new.stock = -5
        with pytest.raises(InitialOutOfBounds), transaction.atomic():
            insert(new)
        new.stock = 7
        new.name = "green tea"
        insert(new)
        assert Product.objects.values_list("stock", flat=True).get(pk=new.pk) == 7
    # The number that it was loaded with is assigned once more.
    new = _again(Product.objects.get(name="tea"))
    new.stock = -3
    insert(new)
    assert Product.objects.values_list("stock", flat=True).get(pk=new.pk) == -3


@pytest.mark.parametrize("way", ["text", "other row", "changed", "again"])
def test_whatever_is_assigned_to_a_copy_keeps_to_the_bounds(way: str) -> None:
    for name in ("tea", "milk"):
        Product.objects.create(name=name, stock=5)
    Product.objects.filter(name="milk").update(stock=-7)
    new: Any = Product.objects.get(name="tea")
    other: Any = Product.objects.get(name="milk")
    if way == "text":
        new.stock = "-7"
    elif way == "other row":
        new.stock = other.stock
    elif way == "changed":
        new.stock = other.stock.increment(1)
    else:
        new.stock -= 12
        new.stock = new.stock
    with pytest.raises(InitialOutOfBounds), transaction.atomic():
        _again(new).save()
    # The number of the row may be below the floor.
    other.stock = 3
    other.refresh_from_db()
    _again(other).save()
    assert Product.objects.filter(name="milk", stock__lt=0).count() == 2


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
    Post.objects.all().delete()
    (loaded,) = serializers.deserialize("json", dumped.getvalue())
    loaded.save()
    assert isinstance(loaded.object, Post)
    assert stored(loaded.object) == 11
    assert loaded.object.views.increment() == 12
    assert loaded.object.views.decrement() == 11
    for format_ in ("xml", "python", "jsonl"):
        assert serializers.serialize(format_, [stale])


def test_a_raw_save_keeps_the_number_of_an_existing_row(stale: Post, tmp_path: Path) -> None:
    """A fixture that is loaded again, or a version that is restored."""
    fixture = tmp_path / "post.json"
    fields = {"title": "restored", "views": 3, "likes": 4}
    left_out = {"title": "restored"}
    for given in (fields, left_out):
        fixture.write_text(json.dumps([{"model": "testapp.post", "pk": stale.pk, "fields": given}]))
        call_command("loaddata", fixture, verbosity=0)
        assert Post.objects.values_list("title", "views", "likes").get() == ("restored", 11, 0)
    loaded: Any
    (loaded,) = serializers.deserialize("json", fixture.read_text())
    loaded.save()
    # Afterwards its number is one like any other.
    Post.objects.update(likes=loaded.object.views + 1)
    Post.objects.update(views=loaded.object.views)
    assert stored(stale) == loaded.object.views == Post.objects.get().likes - 1


def test_a_raw_save_that_failed_leaves_a_usable_number(stale: Post) -> None:
    wrong = Post(pk=stale.pk, title="x" * 200, views=3)
    loaded: Any
    (loaded,) = serializers.deserialize("json", serializers.serialize("json", [wrong]))
    loaded.object.pk = "no number"
    with pytest.raises(ValueError, match="no number"), transaction.atomic():
        loaded.save()
    loaded.object.pk, loaded.object.title = stale.pk, "right"
    loaded.object.save()
    assert stored(stale) == 11
    # Django 6 reads what an expression has become.
    number = int(loaded.object.views)
    assert number == (11 if django.VERSION >= (6,) else 3)
    loaded.object.pk = None
    loaded.object.save(force_insert=True)
    assert stored(loaded.object) == number


def test_a_raw_save_of_a_proxy_and_of_a_child_keeps_the_number() -> None:
    page = NewsPage.objects.create(hits=1, shares=2)
    page.hits.increment(4)
    page.shares.increment(4)
    for stale in (NewsPage(pk=page.pk), ProxyPage(pk=page.pk), Page(pk=page.pk)):
        for loaded in serializers.deserialize("json", serializers.serialize("json", [stale])):
            models.Model.save_base(loaded.object, raw=True)
    assert NewsPage.objects.values_list("hits", "shares").get() == (5, 6)


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


def test_a_save_that_a_package_tells_of(stale: Post, settings: Any) -> None:
    """Signals that are made by hand have fewer arguments than Django's."""
    settings.DEBUG = True
    song = Song.objects.create()
    SlottedCounter.objects.increment(song, "plays")
    song.plays = 5
    for signal in (
        signals.pre_save,
        signals.post_save,
        signals.pre_delete,
        signals.post_delete,
    ):
        signal.send(sender=Song, instance=song)
    assert not SlottedCounter.objects.exists()


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
