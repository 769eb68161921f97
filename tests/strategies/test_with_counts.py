"""``with_counts``: exact values of slotted and cached fields for a page of records."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.db.models import F, Sum
from django.test.utils import CaptureQueriesContext

from django_counters.cached.flush import flush
from django_counters.errors import InvalidPeriod, UnsupportedConsistency
from django_counters.models import SlottedCounter
from tests.cached.test_round_trips import watched
from tests.testapp.models import (
    Article,
    BonusTrack,
    LiveTrack,
    Lyrics,
    Post,
    Song,
    Track,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def songs() -> list[Song]:
    """Three songs; what the columns say and what is true are in another order."""
    songs = [Song.objects.create(title="abc"[n], plays=3 - n) for n in range(3)]
    songs[2].plays.increment(10)
    songs[1].plays.increment(5)
    songs[1].stars.increment(4)
    songs[0].skips.increment(7)
    return songs


@pytest.mark.usefixtures("songs")
class TestOneQuery:
    def test_values_come_with_the_rows(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(1):
            rows = [(s.title, s.plays, s.stars, s.skips) for s in Song.objects.with_counts()]
        assert sorted(rows) == [("a", 3, 0, 7), ("b", 7, 4, 0), ("c", 11, 0, 0)]

    def test_order(self) -> None:
        def titles(*order: str) -> str:
            return "".join(s.title for s in Song.objects.with_counts("plays").order_by(*order))

        assert titles("plays") == "abc"
        assert titles("-plays") == "cba"
        assert titles(F("plays").desc()) == "cba"  # type: ignore[arg-type]
        # The column alone is the rolled-up value.
        assert "".join(s.title for s in Song.objects.order_by("plays")) == "cba"

    def test_filters(self) -> None:
        rows = Song.objects.with_counts("plays")
        assert {song.title for song in rows.filter(plays__gte=7)} == {"b", "c"}
        assert {song.title for song in rows.exclude(plays=11)} == {"a", "b"}
        assert rows.filter(plays__gt=F("skips"), title="a").count() == 0
        assert Song.objects.filter(plays__gte=7).count() == 0
        # A filter before it is one on the column.
        assert Song.objects.filter(plays=1).with_counts("plays").get().plays == 11

    def test_values(self) -> None:
        rows = Song.objects.with_counts("plays").order_by("title")
        assert list(rows.values_list("plays", flat=True)) == [3, 7, 11]
        assert list(rows.values("title", "plays"))[2] == {"title": "c", "plays": 11}

    def test_counts_and_sums(self) -> None:
        rows = Song.objects.with_counts("plays")
        assert rows.count() == 3
        assert rows.filter(plays=11).count() == 1
        assert rows.aggregate(all=Sum("plays")) == {"all": 21}
        assert rows.exists()
        assert rows.annotate(twice=F("plays") * 2).get(title="c").twice == 22

    def test_only_and_defer(self, django_assert_num_queries: Any) -> None:
        querysets = [
            Song.objects.only("title").with_counts("plays"),
            Song.objects.defer("plays").with_counts("plays"),
            Song.objects.with_counts("plays").only("title", "plays"),
            Song.objects.with_counts("plays").defer("title"),
        ]
        for rows in querysets:
            with django_assert_num_queries(1):
                assert {song.plays for song in rows} == {3, 7, 11}

    def test_in_bulk_and_iterator(self) -> None:
        rows = Song.objects.with_counts("plays")
        assert {song.plays for song in rows.in_bulk().values()} == {3, 7, 11}
        assert {song.plays for song in rows.iterator(chunk_size=2)} == {3, 7, 11}

    def test_rows_can_be_changed_and_deleted_through_it(self) -> None:
        assert Song.objects.with_counts("plays").filter(plays__gte=7).update(title="hit") == 2
        assert set(Song.objects.filter(title="hit").values_list("plays", flat=True)) == {1, 2}
        assert Song.objects.with_counts("plays").filter(plays=11).delete()[0] == 1
        assert not SlottedCounter.objects.filter(count=10).exists()

    def test_an_update_by_an_expression_is_about_the_column(self) -> None:
        """What waits in slots would else be counted twice: there, and in the column."""
        hits = Song.objects.with_counts("plays").filter(plays__gte=7)
        assert hits.update(plays=F("plays") + 1) == 2
        values = Song.objects.with_counts("plays").values_list("title", "plays")
        assert sorted(values) == [("a", 3), ("b", 8), ("c", 12)]
        reading = Song.objects.get(title="c").plays.read()
        assert (reading.total, reading.pending) == (2, 10)


def test_a_name_that_another_counter_has_does_not_matter() -> None:
    song = Song.objects.create()
    SlottedCounter.objects.increment(song, "plays_", 100)
    post = Post.objects.create(pk=song.pk)
    SlottedCounter.objects.increment(post, "plays", 100)
    assert Song.objects.with_counts("plays").get().plays == 0


def test_grandchildren() -> None:
    """One of the columns stands two tables away, one in the table between."""
    Track.objects.create()
    live = LiveTrack.objects.create(plays=10, shares=20, cheers=30)
    live.plays.increment(2)
    live.shares.increment(3)
    live.cheers.increment(4)
    found = LiveTrack.objects.with_counts().get(plays=12, shares=23, cheers=34)
    assert (found.plays, found.shares, found.cheers) == (12, 23, 34)
    assert BonusTrack.objects.with_counts("plays", "shares").get(plays=12, shares=23).pk == live.pk
    assert Track.objects.with_counts("plays").get(plays=12).pk == live.pk


def test_it_follows_relations() -> None:
    song = Song.objects.create()
    song.plays.increment(4)
    Lyrics.objects.create(song=song)
    loud = Song.objects.with_counts("plays").filter(plays__gte=4)
    assert Lyrics.objects.filter(song__in=loud.values("pk")).count() == 1
    assert Lyrics.objects.filter(song__in=loud).count() == 1


@pytest.mark.django_db(transaction=True)
class TestCached:
    @pytest.fixture(autouse=True)
    def articles(self, cached: str) -> None:
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

    def test_from_redis_alone(self, cached: str, django_assert_num_queries: Any) -> None:
        rows = Article.objects.order_by("pk").with_counts(consistency="cached", max_age=600)
        with watched(cached) as told, django_assert_num_queries(1):
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


@pytest.mark.django_db(transaction=True)
def test_a_page_of_500_is_one_round_trip_and_two_queries(
    cached: str, django_assert_num_queries: Any
) -> None:
    Article.objects.bulk_create(Article(reads=n) for n in range(501))
    for article in Article.objects.filter(reads__in=(0, 499, 500)):
        article.reads.increment(1000)
    for rows, queries, looks in ((500, 2, 1), (501, 3, 2)):
        page = Article.objects.order_by("pk").with_counts("reads")[:rows]
        with watched(cached) as told, django_assert_num_queries(queries):
            found = [int(article.reads) for article in page]
        assert told == ["look"] * looks
        assert found == [n + 1000 * (n in (0, 499, 500)) for n in range(rows)]
