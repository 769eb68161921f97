"""What waits in slots goes with the records that Django deletes, and with no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, migrations, models, transaction
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.signals import post_delete, pre_delete
from django.test.utils import CaptureQueriesContext, isolate_apps

from django_counters.contrib import holds
from django_counters.contrib.holds import upkeep
from django_counters.fields import CounterField, receivers
from django_counters.models import SlottedCounter
from tests.testapp.models import (
    BonusTrack,
    Device,
    Lyrics,
    NewsPage,
    Post,
    Product,
    Song,
    Track,
)

pytestmark = pytest.mark.django_db


def waiting() -> list[tuple[str, str]]:
    """The records and names that have slots."""
    rows = SlottedCounter.objects.values_list("record_id", "name").distinct()
    return sorted(rows, key=lambda row: (int(row[0]), row[1]))


def songs(number: int) -> list[Song]:
    made = [Song.objects.create() for _ in range(number)]
    for song in made:
        song.plays.increment()
        song.stars.increment()
    return made


@contextmanager
def told(signal: Any, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver, sender=Song)
    try:
        yield
    finally:
        signal.disconnect(receiver, sender=Song)


def test_many_records_need_one_statement_a_field() -> None:
    *_, kept = songs(30)
    with CaptureQueriesContext(connection) as captured:
        Song.objects.exclude(pk=kept.pk).delete()
    slots = [q for q in captured if SlottedCounter._meta.db_table in q["sql"]]
    assert len(slots) == 2
    assert waiting() == [(str(kept.pk), "plays"), (str(kept.pk), "stars")]
    assert not receivers._leaving


def test_very_many_records_need_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "_IDS", 2)
    songs(5)
    Song.objects.all().delete()
    assert waiting() == []


def test_a_cascade_and_a_parent() -> None:
    (song,) = songs(1)
    Lyrics.objects.create(song=song).reads.increment()
    bonus, track = BonusTrack.objects.create(), Track.objects.create()
    bonus.shares.increment()
    bonus.plays.increment()
    track.plays.increment()
    song.delete()
    BonusTrack.objects.all().delete()
    assert waiting() == [(str(track.pk), "plays")]


def test_a_delete_that_failed_forgets_nothing() -> None:
    kept, gone = songs(2)

    def refuse(instance: models.Model, **_: Any) -> None:
        raise PermissionError

    with transaction.atomic():
        with told(pre_delete, refuse), pytest.raises(PermissionError), transaction.atomic():
            kept.delete()
        gone.delete()
    assert waiting() == [(str(kept.pk), "plays"), (str(kept.pk), "stars")]


def test_a_delete_within_a_delete() -> None:
    first, second, third = songs(3)

    def follow(instance: models.Model, **_: Any) -> None:
        if instance.pk == first.pk:
            third.delete()

    with told(pre_delete, follow):
        Song.objects.filter(pk__in=[first.pk, second.pk]).delete()
    assert waiting() == []


@pytest.mark.parametrize("block", [transaction.atomic, connection.cursor])
@pytest.mark.django_db(transaction=True)
def test_whoever_deletes_in_sql_may_tell_of_each_record(block: Callable[[], Any]) -> None:
    made = songs(2)
    with block():
        for song in made:
            post_delete.send(sender=Song, instance=song, using="default")
    assert waiting() == []


@pytest.mark.django_db(transaction=True)
def test_a_deletion_told_of_by_hand_ends_the_holds_of_a_stock() -> None:
    product = Product.objects.create(name="lamp", stock=5)
    holds.hold(product.stock, 2, token="cart")
    post_delete.send(sender=Product, instance=product, using="default")
    assert not holds.find("cart").release()


def test_holds_without_a_floor_end_with_their_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_TOKENS", 2)
    device = Device.objects.create(events=9)
    for number in range(5):
        holds.hold(device.events, 1, token=f"cart {number}")
    key = device.pk
    device.delete()
    new = Device.objects.create(pk=key)
    assert holds.of(new.events) == []
    assert not any(holds.find(f"cart {n}").release() for n in range(5))
    assert new.events.value() == 0


@pytest.mark.parametrize(("model", "followed"), [(Post, False), (NewsPage, False), (Device, True)])
def test_keys_of_the_database_are_deleted_without_signals(
    model: type[models.Model], followed: bool
) -> None:
    """No such key comes back, and Django deletes these rows without loading them."""
    assert post_delete.has_listeners(model) is followed


@isolate_apps("tests.testapp")
def test_a_link_to_a_parent_may_be_a_name() -> None:
    """Django resolves the name of a link in an abstract model after the class is prepared."""

    class Whole(models.Model):
        class Meta:
            app_label = "testapp"

    class Part(Whole):
        link = models.OneToOneField("Whole", models.CASCADE, primary_key=True, parent_link=True)
        hits = CounterField()

        class Meta:
            app_label = "testapp"
            abstract = True

    class Piece(Part):
        class Meta:
            app_label = "testapp"

    assert Piece._meta.pk.name == "link"


@pytest.mark.django_db(transaction=True)
def test_a_data_migration_may_tell_of_each_record() -> None:
    product = Product.objects.create(name="lamp", stock=5)
    holds.hold(product.stock, 2, token="basket")
    (song,) = songs(1)

    def delete(apps: Any, schema_editor: Any) -> None:
        for model in (Song, Product):
            records = apps.get_model("testapp", model.__name__).objects
            keys = list(records.values_list("pk", flat=True))
            records.all().delete()
            assert waiting() or model is Product
            for key in keys:
                using = schema_editor.connection.alias
                post_delete.send(sender=model, instance=model(pk=key), using=using)

    state = ProjectState()
    for model in (Song, Product):
        state.add_model(ModelState.from_model(model))
    with connection.schema_editor() as editor:
        migrations.RunPython(delete).database_forwards("testapp", editor, state, state)
    assert waiting() == []
    assert not holds.find("basket").release()
    assert holds.of(Product.objects.create(pk=product.pk).stock) == []
    assert Song.objects.with_counts().get(pk=Song.objects.create(pk=song.pk).pk).plays == 0
