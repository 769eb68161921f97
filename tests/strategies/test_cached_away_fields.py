"""Cached fields while Redis cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown, RecordMissing
from django_counters.models import CounterIncident
from django_counters.upkeep.flush import flush
from tests.fields.test_cached import FIELDS, be_patient, column
from tests.stores.redis.proxy import proxied
from tests.testapp.models import Article, Ticket

pytestmark = pytest.mark.django_db(transaction=True)
DEAD = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def patient(cached: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fields wait for Redis; its prefix."""
    be_patient(monkeypatch)
    return cached


@pytest.fixture
def away(patient: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A function that takes Redis away from the fields."""
    with monkeypatch.context() as patch:
        for field in FIELDS:
            patch.setitem(vars(field), "recipe", field.recipe._replace(cache=DEAD))
        yield patch


class TestWithoutRedis:
    @pytest.mark.usefixtures("away")
    def test_it_is_counted_in_the_column(self) -> None:
        article = Article.objects.create()
        told: Any = article.reads.increment(3)
        assert "Redis is away" in told.reason
        assert (article.reads, column(article, "reads")) == (0, 3)
        with transaction.atomic():
            article.reads.increment(4)
        assert column(article, "reads") == 7
        with pytest.raises(CounterUnavailable):
            article.reads.read()
        assert article.reads.read(consistency="cached").consistency == "landed"
        assert Article.objects.with_counts(consistency="cached").get().reads == 7
        with pytest.raises(CounterUnavailable):
            Article.objects.with_counts().get()

    def test_when_it_is_back_all_is_there(self, away: pytest.MonkeyPatch) -> None:
        article = Article.objects.create()
        article.reads.increment(3)
        away.undo()
        assert article.reads.increment(4) == 7
        flush()
        assert article.reads.read().value == column(article, "reads") == 7

    @pytest.mark.usefixtures("away")
    def test_a_record_that_is_gone(self) -> None:
        article = Article.objects.create()
        Article.objects.all().delete()
        with pytest.raises(RecordMissing):
            article.reads.increment()

    @pytest.mark.usefixtures("away")
    def test_a_field_can_say_that_it_is_not_counted_then(self) -> None:
        ticket = Ticket.objects.create()
        with pytest.raises(CounterUnavailable):
            ticket.scans.increment()
        with transaction.atomic():
            ticket.scans.increment()
        assert column(ticket, "scans") == 0
        (incident,) = CounterIncident.objects.all()
        assert list(incident.detail["amounts"].values()) == [1]

    def test_a_time_that_is_up_is_unknown(
        self, patient: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ticket = Ticket.objects.create()
        ticket.scans.increment()
        field: Any = Ticket._meta.get_field("scans")
        with proxied() as proxy:
            recipe = field.recipe._replace(cache=proxy.url, timeout=0.3)
            monkeypatch.setitem(vars(field), "recipe", recipe)
            proxy.lose("swallow")
            with pytest.raises(OutcomeUnknown):
                ticket.scans.increment()
