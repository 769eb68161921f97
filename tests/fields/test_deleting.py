"""What waits in slots goes with the records that Django deletes, and with no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.db.models.signals import post_delete, pre_delete
from django.test.utils import CaptureQueriesContext

from django_counters.fields import deleting
from django_counters.models import SlottedCounter
from tests.testapp.models import BonusTrack, Lyrics, Song, Track

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
    assert not deleting._leaving


def test_very_many_records_need_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "_IDS", 2)
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
