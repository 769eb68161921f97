"""What two texts name: any counter, whatever it belongs to, or nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from django_counters.errors import InvalidAdjustment, InvalidKey
from django_counters.write.records import of_key, of_record, ref_of
from tests.adjustments.adjustables import KINDS, RECORDS, Adjustable
from tests.testapp.models import Device, Post

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", RECORDS)
def test_what_a_record_names_two_texts_name_too(name: str) -> None:
    counter = Adjustable(KINDS[name])
    found = of_record(counter.record, counter.kind.name)
    again = ref_of(found.owner, found.text)
    assert again == found
    assert hash(again) == hash(found)
    assert (again.key, again.strategy) == (found.key, counter.strategy)
    assert found.label == f"{found.owner}:{found.text}"


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
        ref_of(label, "1")


@pytest.mark.parametrize(
    "key", ["", "x", "01", " 1", "1 ", "\uff11", "1.0", "-", "9" * 30, "\0", "\ud800", "None"]
)
def test_what_is_no_key_of_a_record(key: str) -> None:
    with pytest.raises(InvalidKey):
        ref_of("testapp.Post.likes", key)
    with pytest.raises(InvalidKey):
        ref_of("testapp.Post.downloads", key)


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
