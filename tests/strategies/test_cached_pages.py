"""Pages of records with cached fields: ``with_counts``."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from django_counters.exceptions import InvalidPeriod, UnsupportedConsistency
from django_counters.upkeep.flush import flush
from tests.fields.test_cached import be_patient, column
from tests.strategies.test_cached_round_trips import watched
from tests.testapp.models import Article

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def patient(cached: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fields wait for Redis; its prefix."""
    be_patient(monkeypatch)
    return cached


class TestWithCounts:
    @pytest.fixture(autouse=True)
    def articles(self, patient: str) -> None:
        Article.objects.bulk_create(Article(title=str(n), reads=n) for n in range(3))
        for article in Article.objects.all():
            article.reads.increment(10)
            article.claps.decrement()

    def rows(self, found: Any) -> list[tuple[str, int, int, int]]:
        return [(a.title, int(a.reads), int(a.claps), int(a.shares)) for a in found]

    def test_a_list(self) -> None:
        expected = [("0", 10, -1, 0), ("1", 11, -1, 0), ("2", 12, -1, 0)]
        ordered = Article.objects.order_by("pk")
        assert self.rows(ordered.with_counts()) == expected
        assert self.rows(ordered.with_counts().iterator(chunk_size=2)) == expected
        assert self.rows(ordered.with_counts()[1:]) == expected[1:]
        assert self.rows(ordered.with_counts().filter(title="1").all()) == expected[1:2]
        flush()
        assert self.rows(ordered.with_counts()) == self.rows(ordered) == expected

    def test_some_fields(self) -> None:
        first = Article.objects.with_counts("claps").order_by("pk").first()
        assert first is not None
        assert self.rows([first]) == [("0", 0, -1, 0)]

    def test_one(self) -> None:
        assert Article.objects.with_counts().get(title="2").reads == 12
        last = Article.objects.with_counts().order_by("pk").last()
        assert last is not None
        assert last.reads == 12
        assert Article.objects.with_counts().filter(title="none").first() is None

    def test_only_and_defer(self) -> None:
        for found in (
            Article.objects.only("title").with_counts("reads").get(title="1"),
            Article.objects.with_counts("reads").only("title").get(title="1"),
            Article.objects.with_counts("reads").defer("reads").get(title="1"),
            Article.objects.defer("reads").with_counts("reads").get(title="1"),
        ):
            with CaptureQueriesContext(connection) as queries:
                assert found.reads == 11
            assert len(queries) == 0

    def test_async(self) -> None:
        async def work() -> list[int]:
            one = await Article.objects.with_counts().aget(title="0")
            return [int(one.reads), *[int(a.reads) async for a in Article.objects.with_counts()]]

        assert sorted(async_to_sync(work)()) == [10, 10, 11, 12]

    def test_values_filters_and_updates_are_about_the_column(self) -> None:
        rows = Article.objects.with_counts().order_by("pk")
        assert list(rows.values_list("reads", flat=True)) == [0, 1, 2]
        assert [a.title for a in rows.filter(reads=1)] == ["1"]
        assert rows.filter(title="1").update(reads=F("reads") + 5) == 1
        assert rows.get(title="1").reads == 16
        assert (rows.count(), rows.exists()) == (3, True)

    def test_an_instance_goes_on_counting(self) -> None:
        article = Article.objects.with_counts().get(title="2")
        assert article.reads.increment() == 13
        article.save()
        flush()
        assert column(article, "reads") == 13

    def test_from_redis_alone(self, patient: str, django_assert_num_queries: Any) -> None:
        rows = Article.objects.order_by("pk").with_counts(consistency="cached", max_age=600)
        with watched(patient) as told, django_assert_num_queries(1):
            assert [a.reads for a in rows] == [10, 11, 12]
        assert told == ["look", "look"]

    def test_as_old_as_is_said(self) -> None:
        Article.objects.update(reads=F("reads") + 100)
        rows = Article.objects.order_by("pk")
        found = rows.with_counts("reads", consistency="cached", max_age=600)
        assert [a.reads for a in found] == [10, 11, 12]
        assert [a.reads for a in rows.with_counts("reads")] == [110, 111, 112]
        with pytest.raises(InvalidPeriod):
            rows.with_counts(consistency="cached", max_age=-1)
        with pytest.raises(UnsupportedConsistency):
            rows.with_counts(consistency="landed")


def test_a_page_of_500_is_one_round_trip_and_two_queries(
    patient: str, django_assert_num_queries: Any
) -> None:
    Article.objects.bulk_create(Article(reads=n) for n in range(501))
    for article in Article.objects.filter(reads__in=(0, 499, 500)):
        article.reads.increment(1000)
    for rows, queries, looks in ((500, 2, 1), (501, 3, 2)):
        page = Article.objects.order_by("pk").with_counts("reads")[:rows]
        with watched(patient) as told, django_assert_num_queries(queries):
            found = [int(article.reads) for article in page]
        assert told == ["look"] * looks
        assert found == [n + 1000 * (n in (0, 499, 500)) for n in range(rows)]
