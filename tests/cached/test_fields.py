"""Fields that are cached: counted in Redis, landed in their column."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import models, transaction
from django.db.models.query import ModelIterable

from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in
from django_counters.errors import (
    InvalidPeriod,
    RecordMissing,
    UnsavedInstance,
    UnsupportedBounds,
    UnsupportedConsistency,
    UnsupportedToken,
)
from django_counters.models import Counter, CounterIncident
from django_counters.types import Counted, Delta
from tests.testapp.models import Abstract, Article, Beacon, City, Review, Ticket

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
FIELDS: list[Any] = [
    Article._meta.get_field("reads"),
    Article._meta.get_field("claps"),
    Review._meta.get_field("stars"),
    Beacon._meta.get_field("pings"),
    City._meta.get_field("trips"),
    Ticket._meta.get_field("scans"),
    Abstract._meta.get_field("opens"),
]
# Texts that are keys.
TEXTS = ("x", "Bad {Oeynhausen}:%s 'ß' \\ \n日本 🙂", " " + "ß" * 298 + " ", "")


def column(instance: models.Model, name: str) -> int:
    return int(type(instance)._base_manager.values_list(name, flat=True).get(pk=instance.pk))


def test_a_change_returns_the_new_value_and_sets_the_instance() -> None:
    article = Article.objects.create()
    value = article.reads.increment(3)
    assert (type(value), value, article.reads) == (Counted, 3, 3)
    assert article.reads.decrement(5) == -2
    assert article.reads.increment() == -1
    assert article.claps.increment() == 1
    assert article.shares.increment() == 1
    assert (article.reads, article.claps, article.shares) == (-1, 1, 1)
    # Another instance of the row counts from the same value.
    assert Article.objects.get().reads.increment(10) == 9
    assert column(article, "reads") == 0
    assert flush().counters == 2
    article.refresh_from_db()
    assert (article.reads, article.claps) == (9, 1)


def test_save_never_overwrites() -> None:
    article = Article.objects.create(reads=4)
    stale = Article.objects.get()
    article.reads.increment()
    flush()
    stale.title = "changed"
    stale.save()
    assert (column(article, "reads"), Article.objects.get().title) == (5, "changed")
    assert stale.reads.increment() == 6
    stale.save()
    flush()
    assert column(article, "reads") == 6


def test_a_record_that_is_made_and_counted_in_one_transaction() -> None:
    with transaction.atomic():
        article = Article.objects.create()
        article.reads.increment(3)
    flush()
    assert column(article, "reads") == 3


class TestRead:
    def test_exact_and_cached(self) -> None:
        article = Article.objects.create(reads=5)
        article.reads.increment(2)
        reading = article.reads.read()
        assert (reading.value, reading.total, reading.pending) == (7, 5, 2)
        assert reading.consistency == "exact"
        reading = article.reads.read(consistency="cached", max_age=600)
        assert (reading.value, reading.consistency) == (7, "cached")
        # It says what is, and changes nothing.
        assert Article.objects.get().reads == 5

    def test_async(self) -> None:
        article = Article.objects.create()

        async def work() -> tuple[int, int]:
            await article.reads.aincrement(5)
            await article.reads.adecrement()
            reading = await article.reads.aread(consistency="cached")
            return int(article.reads), reading.value

        assert async_to_sync(work)() == (4, 4)

    def test_a_record_that_is_gone(self) -> None:
        article = Article.objects.create()
        Article.objects.all().delete()
        with pytest.raises(RecordMissing):
            article.reads.read()
        with pytest.raises(RecordMissing):
            article.reads.read(consistency="cached")


def test_what_is_refused() -> None:
    article = Article.objects.create()
    refused: list[tuple[type[Exception], Callable[[], object]]] = [
        (UnsupportedBounds, lambda: article.reads.increment(ceiling=5)),
        (UnsupportedToken, lambda: article.reads.increment(token=str(uuid.uuid4()))),
        (UnsavedInstance, Article().reads.increment),
        (UnsupportedConsistency, lambda: article.reads.read(consistency="rolled_up")),
        (UnsupportedConsistency, lambda: article.shares.read(consistency="cached")),
        (InvalidPeriod, lambda: article.reads.read(consistency="cached", max_age=-1)),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    assert article.reads.read().value == 0


def test_what_is_counted_for_a_record_that_is_gone_is_an_incident() -> None:
    gone, stays = Article.objects.create(), Article.objects.create()
    key = gone.pk
    gone.reads.increment(3)
    stays.reads.increment(4)
    Counter.objects.increment("views:a", 5)
    # As SQL does it: nobody is told.
    Article.objects.filter(pk=key)._raw_delete("default")
    report = flush()
    name = f"testapp.Article.reads {key}"
    assert (report.quarantined, report.counters) == ({name: 3}, 2)
    (incident,) = CounterIncident.objects.all()
    assert incident.kind == CounterIncident.Kind.QUARANTINED
    assert (incident.detail["reason"], incident.detail["amounts"]) == ("missing", {name: 3})
    assert (column(stays, "reads"), Counter.objects.value("views:a")) == (4, 5)
    assert flush().quarantined == {}
    assert CounterIncident.objects.count() == 1


def test_what_does_not_fit_into_the_column_is_an_incident() -> None:
    full, small = Ticket.objects.create(scans=2**31 - 3), Ticket.objects.create()
    # The column is not asked.
    assert full.scans.increment(3) == 2**31
    small.scans.increment()
    report = flush()
    assert report.quarantined == {f"testapp.Ticket.scans {full.pk}": 3}
    assert (column(full, "scans"), column(small, "scans")) == (2**31 - 3, 1)
    assert full.scans.increment(2) == 2**31 - 1
    assert full.scans.read(consistency="cached").value == 2**31 - 1
    assert flush().quarantined == {}
    assert column(full, "scans") == 2**31 - 1


def test_kinds_of_keys() -> None:
    kept = [
        (Article.objects.create(), "reads"),
        (Article.objects.create(pk=-(2**63)), "claps"),
        (Beacon.objects.create(), "pings"),
        (Beacon.objects.create(pk=uuid.UUID(int=0)), "pings"),
        *((City.objects.create(pk=key), "trips") for key in TEXTS),
        (Review.objects.create(), "stars"),
        (Review.objects.create(), "reads"),
        (Abstract.objects.create(article=Article.objects.create()), "opens"),
    ]
    for record, name in kept:
        assert getattr(record, name).increment(3) == 3
        assert getattr(loaded(record, name), name) == 3
    report = flush()
    assert (report.quarantined, report.counters) == ({}, len(kept))
    for record, name in kept:
        assert column(record, name) == 3
        assert getattr(record, name).increment() == 4
        assert getattr(loaded(record, name, consistency="cached"), name) == 4
        assert getattr(record, name).read().value == 4


def loaded(record: Any, name: str, **how: Any) -> Any:
    return type(record).objects.with_counts(name, **how).get(pk=record.pk)


def test_a_parent_and_its_child_are_one_counter() -> None:
    review = Review.objects.create()
    review.reads.increment()
    Article.objects.get().reads.increment(10)
    review.stars.increment(5)
    assert Review.objects.with_counts().get().reads == 11
    assert Article.objects.with_counts().get().reads == 11
    assert flush().counters == 2
    review.refresh_from_db()
    assert (review.reads, review.stars) == (11, 5)


class Children(ModelIterable):  # type: ignore[type-arg]
    """Instances of the children, as django-polymorphic loads them."""

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            yield getattr(one, "review", one)


def test_rows_of_another_iterable_class() -> None:
    Review.objects.create().reads.increment(3)
    Article.objects.create().reads.increment(4)
    rows = Article.objects.order_by("pk")
    rows._iterable_class = Children
    for counted in (rows.with_counts(), rows.with_counts().all().with_counts("reads")):
        again = pickle.loads(pickle.dumps(counted))
        for found in (list(counted), list(counted.iterator(1)), list(again)):
            assert [(type(one), one.reads) for one in found] == [(Review, 3), (Article, 4)]


def test_a_field_that_is_no_more_does_not_stop_the_others() -> None:
    article = Article.objects.create()
    pending = pending_in("default", 10, "default")
    amounts = {"testapp.Removed.hits 7": 5, "testapp.Article.removed 1": 2, "gone.App.x y z": 1}
    pending.send(pending.add({name: Delta(name, by) for name, by in amounts.items()}, -1))
    article.reads.increment()
    Counter.objects.increment("views:a")
    report = flush()
    assert (report.quarantined, report.counters) == (amounts, 2)
    reasons = {incident.detail["reason"] for incident in CounterIncident.objects.all()}
    assert reasons == {"unknown"}
    assert column(article, "reads") == 1


def test_what_cannot_be_a_key_is_an_incident() -> None:
    article = Article.objects.create(pk=1)
    pending = pending_in("default", 10, "default")
    keys = ("0x10", "1.0", " 1", "01", "1e0", "", "None", str(2**63))
    amounts = {f"testapp.Article.reads {key}": 5 for key in keys}
    pending.send(pending.add({name: Delta(name, by) for name, by in amounts.items()}, -1))
    article.reads.increment()
    assert flush().quarantined == amounts
    assert column(article, "reads") == 1
