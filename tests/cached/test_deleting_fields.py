"""What waits in Redis goes with the records that Django deletes, when that is committed."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from django.db import transaction

from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in
from django_counters.models import CounterIncident
from tests.cached.test_fields import column
from tests.cached.test_round_trips import watched
from tests.testapp.models import Abstract, Article, Beacon, City, Review

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]


def seal() -> None:
    """As a flush does that ends before it has landed anything."""
    pending_in("default", 10, "default").cut()


def test_a_new_record_with_the_key_starts_at_zero() -> None:
    gone, stays = Article.objects.create(reads=100), Article.objects.create()
    for record in (gone, stays):
        record.reads.increment(3)
    seal()
    for record in (gone, stays):
        record.reads.increment(40)
        record.reads.read(consistency="cached")
    key = gone.pk
    Article.objects.filter(pk=key).delete()
    new = Article.objects.create(pk=key)
    assert new.reads.read(consistency="cached", max_age=600).value == new.reads.value() == 0
    assert new.reads.increment(2) == 2
    assert (flush().quarantined, column(new, "reads"), column(stays, "reads")) == ({}, 2, 43)


def test_kinds_of_keys_and_records_that_are_deleted_with_others() -> None:
    def make() -> list[tuple[Any, str]]:
        article, review = Article.objects.create(pk=1), Review.objects.create(pk=2)
        of_article = Abstract.objects.create(article=article)
        beacon, city = Beacon.objects.create(pk=uuid.UUID(int=7)), City.objects.create(pk="Bad ß")
        fields = [(article, "claps"), (of_article, "opens"), (review, "reads"), (review, "stars")]
        return [*fields, (beacon, "pings"), (city, "trips")]

    for record, name in make():
        getattr(record, name).increment(5)
    for model in (Article, Beacon, City):
        model._default_manager.all().delete()
    for record, name in make():
        assert getattr(record, name).value() == 0
    assert flush().counters == 0


def test_what_is_rolled_back_forgets_nothing_and_what_it_counts_before_a_commit_goes() -> None:
    kept, gone = Article.objects.create(), Article.objects.create()
    kept.reads.increment(3)
    key, kept_key = gone.pk, kept.pk
    with transaction.atomic():
        with pytest.raises(KeyError), transaction.atomic():
            kept.delete()
            raise KeyError
        gone.reads.increment(5)
        gone.delete()
    new = Article.objects.create(pk=key)
    assert (flush().quarantined, column(new, "reads")) == ({}, 0)
    assert Article.objects.get(pk=kept_key).reads == 3


def test_one_delete_is_one_round_trip_a_field(cached: str) -> None:
    for _ in range(30):
        Article.objects.create().reads.increment()
    with watched(cached) as told:
        Article.objects.all().delete()
    # Each part of that Redis is told in it: two fields of 16 parts at most.
    assert set(told) == {"discard"}
    assert len(told) <= 2 * 16
    assert flush().counters == 0


def test_what_has_landed_is_not_taken_away_again() -> None:
    article = Article.objects.create()
    article.reads.increment(5)

    def die(name: str) -> None:
        if name == "acknowledge":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flush(step=die)
    key = article.pk
    article.delete()
    new = Article.objects.create(pk=key)
    assert new.reads.increment() == 1
    assert (flush().quarantined, column(new, "reads")) == ({}, 1)


def test_a_flush_that_has_read_it_lands_everything_else() -> None:
    gone, stays = Article.objects.create(), Article.objects.create()
    gone.reads.increment(3)
    stays.reads.increment(4)
    name = f"testapp.Article.reads {gone.pk}"

    def delete(step: str) -> None:
        if step == "apply" and gone.pk:
            gone.delete()

    report = flush(step=delete)
    assert (report.quarantined, column(stays, "reads")) == ({name: 3}, 4)
    assert CounterIncident.objects.get().detail["reason"] == "missing"
    assert flush().quarantined == {}


def test_without_redis_the_record_is_deleted_and_the_flush_says_what_it_had(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    article = Article.objects.create()
    field: Any = Article._meta.get_field("reads")
    article.reads.increment(3)
    name = f"testapp.Article.reads {article.pk}"
    dead = field.recipe.but(cache="redis://127.0.0.1:1/0", timeout=0.05)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "django_counters"):
        patch.setitem(vars(field), "recipe", dead)
        article.delete()
    assert not Article.objects.exists()
    # Whether this is the failure that opens the breaker depends on those before.
    (said,) = (line for line in caplog.messages if " is unavailable: " not in line)
    assert said.startswith("Pending increments of testapp.Article.reads stay in Redis for 1")
    assert flush().quarantined == {name: 3}


def test_a_record_is_deleted_even_if_its_cache_is_misconfigured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    article = Article.objects.create()
    field: Any = Article._meta.get_field("reads")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "django_counters"):
        patch.setitem(vars(field), "recipe", field.recipe.but(cache="nowhere"))
        article.delete()
    assert not Article.objects.exists()
    assert any("testapp.Article.reads stay in Redis for 1" in one for one in caplog.messages)
