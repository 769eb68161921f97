"""What two texts name: any counter, whatever it belongs to, or nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from django_counters.exceptions import InvalidAdjustment, InvalidKey, UnsavedInstance
from django_counters.kinds.subject import named, of_key, of_record, subject_of
from django_counters.testing import override_counters
from django_counters.types import Bounds
from tests.kinds.adjustables import KINDS, RECORDS, Adjustable
from tests.testapp.models import BonusTrack, Country, Device, Moment, Page, Post, Product, ProxyPage

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", RECORDS)
def test_what_a_record_names_two_texts_name_too(name: str) -> None:
    counter = Adjustable(KINDS[name])
    found = of_record(counter.record, counter.kind.name)
    again = subject_of(found.field, found.key)
    assert again == found
    assert hash(again) == hash(found)
    assert (again.native, again.strategy) == (found.native, counter.strategy)
    assert found.label == f"{found.field}:{found.key}"


def test_a_named_counter() -> None:
    with override_counters(c={"STRATEGY": "exact", "FLOOR": 3, "APPROVE_ABOVE": 5}):
        found = subject_of("", "c:a")
        assert found == named("c:a")
    assert found.bounds == Bounds(3, None)
    assert (found.label, found.strategy, found.approve_above) == ("c:a", "exact", 5)
    assert (found.field, found.key, found.key_field) == ("", "c:a", None)


def test_a_proxy_has_the_counters_of_its_model() -> None:
    page = ProxyPage.objects.create()
    found = subject_of("testapp.ProxyPage.claps", str(page.pk))
    assert found == of_record(page, "claps") == subject_of("testapp.Page.claps", str(page.pk))
    assert found.field == "testapp.Page.claps"


def test_what_a_field_declares() -> None:
    product = Product._base_manager.create()
    found = subject_of("testapp.Product.stock", str(product.pk))
    assert (found.bounds, found.label) == (Bounds(0, 1000), f"testapp.Product.stock:{product.pk}")


def test_an_inherited_column_is_that_of_the_parent() -> None:
    track = BonusTrack.objects.create()
    assert subject_of("testapp.BonusTrack.plays", str(track.pk)).field == "testapp.Track.plays"
    page = ProxyPage._base_manager.create()
    assert of_record(page, "hits") == of_record(Page._base_manager.get(), "hits")


@pytest.mark.parametrize(
    "label",
    [
        *("likes", "testapp", "testapp.Post", "nowhere.Post.likes", "testapp.Nothing.likes"),
        *("testapp.Post.title", "testapp.Post.id", "testapp.Article.abstract", "..", "a.b.c.d"),
        *("auth.User.groups", "django_counters.Counter.value", "django_counters.Counter.outside"),
    ],
)
def test_what_is_no_counter(label: str) -> None:
    with pytest.raises(InvalidAdjustment):
        subject_of(label, "1")


@pytest.mark.parametrize(
    "key", ["", "x", "01", " 1", "1 ", "\uff11", "1.0", "-", "9" * 30, "\0", "\ud800", "None"]
)
def test_what_is_no_key_of_a_record(key: str) -> None:
    with pytest.raises(InvalidKey):
        subject_of("testapp.Post.likes", key)
    with pytest.raises(InvalidKey):
        subject_of("testapp.Post.downloads", key)


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(InvalidKey):
        subject_of("testapp.Country.visits", "x" * 301)
    country = Country.objects.create(code="x" * 300)
    with pytest.raises(InvalidKey, match="characters"):
        of_record(country, "visits")


def test_what_cannot_have_slots() -> None:
    with pytest.raises(InvalidKey):
        subject_of("testapp.Moment.downloads", "2020-01-01 00:00:00+00:00")
    assert Moment._meta.pk.name == "at"


def test_what_is_no_record() -> None:
    for record in (None, "post", Post):
        with pytest.raises(InvalidKey):
            of_record(record, "likes")
    with pytest.raises(UnsavedInstance):
        of_record(Post(), "likes")
    with pytest.raises(UnsavedInstance):
        of_record(Post(), "downloads")
    with pytest.raises(UnsavedInstance):
        of_record(Device(), "events")


def test_a_primary_key_in_any_form() -> None:
    pk = uuid.uuid4()
    forms: list[Any] = [pk, str(pk), pk.hex]
    assert len({of_key(Device, "events", form, "default") for form in forms}) == 1
    assert of_key(Post, "likes", 5, "default") == of_key(Post, "likes", "5", "default")
    for wrong in ("x", None, 2.5, object(), "\0"):
        with pytest.raises(InvalidKey):
            of_key(Device, "events", wrong, "default")
    for wrong in (None, 2.5, 2.0, True, 2**70, "", "x", "\0", object()):
        with pytest.raises(InvalidKey):
            of_key(Post, "likes", wrong, "default")
