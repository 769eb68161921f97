"""The promises of slotted counters: of fields, and of any record under any name."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldError
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from django_counters import CounterField
from django_counters.errors import (
    CounterOverflow,
    InvalidDelta,
    InvalidKey,
    RecordMissing,
    UnsavedInstance,
    UnsupportedBounds,
    UnsupportedConsistency,
)
from django_counters.models import SlottedCounter
from django_counters.types import INT8
from tests.testapp.models import (
    BonusTrack,
    Country,
    Gadget,
    Lyrics,
    Moment,
    Product,
    ProxyTrack,
    Release,
    Song,
    Tiny,
    Track,
)

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8


def slots(record: models.Model, name: str) -> dict[int, int]:
    kind = ContentType.objects.get_for_model(record)
    key = str(record._meta.pk.get_db_prep_value(record.pk, connection))
    rows = SlottedCounter.objects.filter(record_type=kind, record_id=key, name=name)
    return dict(rows.values_list("slot", "count"))


def record_of(kind: str) -> Any:
    """A saved record with a slotted field, and the name of the field."""
    match kind:
        case "integer":
            return Song.objects.create(), "plays"
        case "uuid":
            return Gadget.objects.create(), "beeps"
        case "text":
            return Country.objects.create(code="größe 'x' %s \\ 🎉"), "visits"
        case "relation":
            return Lyrics.objects.create(song=Song.objects.create()), "reads"
        case "parent":
            return BonusTrack.objects.create(), "plays"
        case "child":
            return BonusTrack.objects.create(), "shares"
        case "proxy":
            return ProxyTrack.objects.create(), "plays"
    Track.objects.create()
    return Release.objects.create(code="R1"), "plays"


KINDS = ["integer", "uuid", "text", "relation", "parent", "child", "proxy", "key of its own"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
class TestFields:
    def test_they_count(self, kind: str) -> None:
        record, name = record_of(kind)
        other = type(record).objects.model
        assert getattr(record, name).increment() == 1
        assert getattr(record, name).increment(5) == 6
        assert getattr(record, name).decrement(2) == 4
        assert getattr(record, name) == 4
        reading = getattr(record, name).read()
        assert (reading.value, reading.total, reading.pending) == (4, 0, 4)
        # The column alone is the rolled-up value.
        assert getattr(other.objects.get(pk=record.pk), name) == 0
        # The same by name.
        assert SlottedCounter.objects.value(record, name) == 4
        assert SlottedCounter.objects.increment(record, name) == 5
        assert SlottedCounter.objects.decrement(record, name, 2) == 3
        assert SlottedCounter.objects.values_of([record], name) == {record.pk: 3}
        assert getattr(record, name).read().value == 3

    def test_with_counts(self, kind: str) -> None:
        record, name = record_of(kind)
        model = type(record)
        model.objects.filter(pk=record.pk).update(**{name: 10})
        getattr(record, name).increment(3)
        rows = model.objects.with_counts(name)
        assert getattr(rows.get(pk=record.pk), name) == 13
        assert rows.filter(**{name: 13}).get() == record
        assert not rows.filter(**{name: 10}).exists()

    def test_a_deleted_record_forgets_its_slots(self, kind: str) -> None:
        record, name = record_of(kind)
        getattr(record, name).increment(3)
        keys = {field.attname: getattr(record, field.attname) for field in record._meta.fields}
        if kind == "parent":
            Track.objects.get(pk=record.pk).delete()
        else:
            record.delete()
        again = type(record).objects.create(**{**keys, name: 0})
        assert getattr(again, name).read().value == 0
        assert not SlottedCounter.objects.filter(name=name).exists()
        getattr(again, name).increment(3)
        type(record).objects.filter(pk=again.pk).delete()
        assert not SlottedCounter.objects.filter(name=name).exists()


def test_values_of_many_records_are_one_query_a_model() -> None:
    songs = [Song.objects.create() for _ in range(10)]
    gadget = Gadget.objects.create()
    for song in songs:
        song.plays.increment(song.pk)
        SlottedCounter.objects.increment(song, "downloads", 2)
    SlottedCounter.objects.increment(gadget, "downloads")
    with CaptureQueriesContext(connection) as captured:
        assert SlottedCounter.objects.values_of(songs, "plays") == {s.pk: s.pk for s in songs}
        found = SlottedCounter.objects.values_of([*songs, gadget], "downloads")
    expected: dict[Any, int] = {song.pk: 2 for song in songs}
    assert found == {**expected, gadget.pk: 1}
    assert len(captured) == 3
    assert SlottedCounter.objects.values_of([], "plays") == {}


def test_each_call_is_one_statement() -> None:
    song = Song.objects.create()
    song.plays.increment()
    calls: list[Callable[[], Any]] = [
        song.plays.increment,
        song.plays.read,
        lambda: SlottedCounter.objects.increment(song, "downloads"),
        lambda: SlottedCounter.objects.value(song, "downloads"),
    ]
    if connection.vendor == "mysql":
        # There a row that is missing is made by a second statement.
        SlottedCounter.objects.increment(song, "downloads")
    for call in calls:
        with CaptureQueriesContext(connection) as captured:
            call()
        assert len(captured) == 1


class TestRefusals:
    def test_a_record_that_is_gone_cannot_count(self) -> None:
        song = Song.objects.create()
        Song.objects.all().delete()
        for call in (
            song.plays.increment,
            song.plays.read,
            lambda: SlottedCounter.objects.increment(song, "plays"),
        ):
            with pytest.raises(RecordMissing) as caught:
                call()
            assert caught.value.key == f"testapp.Song.plays:{song.pk}"
        assert not SlottedCounter.objects.exists()

    def test_a_record_that_is_not_saved_cannot_count(self) -> None:
        for song in (Song(), Song(pk=5)):
            for call in (
                song.plays.increment,
                song.plays.read,
                lambda song=song: SlottedCounter.objects.increment(song, "plays"),
                lambda song=song: SlottedCounter.objects.increment(song, "downloads"),
                lambda song=song: SlottedCounter.objects.value(song, "downloads"),
            ):
                with pytest.raises(UnsavedInstance):
                    call()

    def test_a_bad_record_or_name(self) -> None:
        objects, song = SlottedCounter.objects, Song.objects.create()
        records: list[Any] = [None, 5, "song", Song]
        names: list[Any] = ["", "a b", None, 5, "\ud800", "x" * 101]
        calls: list[Callable[..., Any]] = [objects.increment, objects.value, objects.read]
        for call in calls:
            for record in records:
                with pytest.raises(InvalidKey, match="not an instance of a model"):
                    call(record, "downloads")
            for name in names:
                with pytest.raises(InvalidKey):
                    call(song, name)
        assert not objects.exists()

    def test_the_longest_name_and_id_and_those_beyond(self) -> None:
        fits = Country.objects.create(code="x" * 255)
        assert SlottedCounter.objects.increment(fits, "n" * 100) == 1
        assert fits.visits.increment() == 1
        long = Country.objects.create(code="x" * 256)
        calls: list[Callable[[], Any]] = [
            lambda: SlottedCounter.objects.increment(long, "downloads"),
            lambda: SlottedCounter.objects.increment(long, "visits"),
            long.visits.increment,
        ]
        for call in calls:
            with pytest.raises(InvalidKey, match="255"):
                call()

    def test_a_record_that_is_lazy(self) -> None:
        """As ``request.user`` is."""
        song = Song.objects.create()
        lazy: Any = SimpleLazyObject(lambda: Song.objects.get(pk=song.pk))
        for name in ("downloads", "plays"):
            assert SlottedCounter.objects.increment(lazy, name, 2) == 2
            assert SlottedCounter.objects.value(lazy, name) == 2
            assert SlottedCounter.objects.values_of([lazy], name) == {song.pk: 2}
            SlottedCounter.objects.adjust(lazy, name, to=5, reason="r", actor="ann")
            assert SlottedCounter.objects.value(song, name) == 5

    def test_a_bad_delta(self) -> None:
        song = Song.objects.create()
        for delta in (True, 1.0, "1", None, 2**63):
            for call in (song.plays.increment, song.plays.decrement):
                with pytest.raises(InvalidDelta):
                    call(delta)  # type: ignore[arg-type]
            with pytest.raises(InvalidDelta):
                SlottedCounter.objects.increment(song, "a", delta)  # type: ignore[arg-type]

    def test_bounds(self) -> None:
        song, product = Song.objects.create(), Product.objects.create(stock=2)
        with pytest.raises(UnsupportedBounds) as caught:
            song.plays.decrement(floor=0)
        assert caught.value.key == f"testapp.Song.plays:{song.pk}"
        assert song.plays.increment(floor=0) == 1
        # Slots are no way around one.
        with pytest.raises(UnsupportedBounds):
            SlottedCounter.objects.decrement(product, "stock", 5)
        assert product.stock.read().value == 2

    def test_consistency(self) -> None:
        song = Song.objects.create()
        with pytest.raises(UnsupportedConsistency, match="slotted"):
            song.plays.read(consistency="cached")


def test_a_moment_is_no_record_id() -> None:
    """As a text it depends on the time zone of the connection: it would find other slots."""
    moment = Moment.objects.create(at=timezone.now())
    calls: list[Callable[[], Any]] = [
        lambda: SlottedCounter.objects.increment(moment, "downloads"),
        lambda: SlottedCounter.objects.decrement(moment, "downloads"),
        lambda: SlottedCounter.objects.value(moment, "downloads"),
        lambda: SlottedCounter.objects.read(moment, "downloads"),
        lambda: SlottedCounter.objects.values_of([Song.objects.create(), moment], "downloads"),
    ]
    for call in calls:
        with pytest.raises(InvalidKey, match="integer, UUID or text"):
            call()
    assert not SlottedCounter.objects.exists()


class TestRange:
    @pytest.mark.parametrize(("edge", "by"), [(HIGHEST, 1), (LOWEST, -1)])
    def test_a_sum_beyond_64_bits_is_refused(self, edge: int, by: int) -> None:
        song = Song.objects.create(plays=edge)
        with transaction.atomic():
            with pytest.raises(CounterOverflow):
                song.plays.increment(by)
            assert song.plays.read().value == edge
        SlottedCounter.objects.increment(song, "downloads", edge)
        with pytest.raises(CounterOverflow):
            SlottedCounter.objects.increment(song, "downloads", by)
        assert SlottedCounter.objects.value(song, "downloads") == edge

    def test_the_column_says_how_much_fits(self) -> None:
        tiny = Tiny.objects.create(hits=2**31 - 3)
        assert tiny.hits.increment(2) == 2**31 - 1
        with pytest.raises(CounterOverflow) as caught:
            tiny.hits.increment()
        assert (caught.value.low, caught.value.high) == (-(2**31), 2**31 - 1)
        assert tiny.hits.decrement(2**32 - 1) == -(2**31)
        with pytest.raises(CounterOverflow):
            tiny.hits.decrement()
        assert tiny.hits.read().value == -(2**31)


class TestTransactions:
    def test_a_transaction_comes_back_to_its_own_slot(self) -> None:
        song = Song.objects.create()
        with transaction.atomic():
            for _ in range(10):
                song.plays.increment()
        assert list(slots(song, "plays").values()) == [10]


def test_a_migration_names_what_differs_from_the_default() -> None:
    field = CounterField(strategy="slotted", slots=4)
    assert field.deconstruct()[3] == {"strategy": "slotted", "slots": 4, "default": 0}
    assert field.clone().options["slots"] == 4


def test_a_name_of_no_counter_field_is_refused() -> None:
    with pytest.raises(FieldError, match="known: plays, skips, stars"):
        Song.objects.with_counts("title")


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    key = uuid.uuid4()
    here, there = Gadget.objects.create(id=key), Gadget.objects.using("other").create(id=key)
    assert there.beeps.increment() == 1
    assert here.beeps.increment(5) == 5
    assert SlottedCounter.objects.increment(there, "beeps", using="other") == 2
    assert SlottedCounter.objects.increment(there, "downloads") == 1
    assert SlottedCounter.objects.value(here, "downloads") == 0
    assert SlottedCounter.objects.db_manager("other").value(here, "downloads") == 1
    assert Gadget.objects.using("other").with_counts().get().beeps == 2
    assert Gadget.objects.with_counts().get().beeps == 5
    there.delete()
    assert here.beeps.read().value == 5


@pytest.mark.django_db(transaction=True)
def test_async_twins() -> None:
    async def calls() -> None:
        song = await Song.objects.acreate()
        assert await song.plays.aincrement(3) == 3
        assert await song.plays.adecrement() == 2
        assert (await song.plays.aread()).pending == 2
        assert await SlottedCounter.objects.aincrement(song, "plays") == 3
        assert await SlottedCounter.objects.adecrement(song, "downloads") == -1
        assert await SlottedCounter.objects.avalue(song, "downloads") == -1

    async_to_sync(calls)()
