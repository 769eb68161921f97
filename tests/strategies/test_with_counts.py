"""``with_counts``: exact values of slotted fields for a page of records, in one query."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db.models import F, Sum

from django_counters.models import SlottedCounter
from django_counters.upkeep.rollup import rollup
from tests.testapp.models import (
    BonusTrack,
    Country,
    Gadget,
    LiveTrack,
    Lyrics,
    Post,
    ProxyTrack,
    Release,
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

    def test_a_page_of_the_ordered_rows(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(1):
            page = list(Song.objects.with_counts("plays").order_by("-plays")[1:3])
        assert [song.plays for song in page] == [7, 3]

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

    def test_called_twice(self) -> None:
        rows = Song.objects.with_counts("plays").with_counts("stars").with_counts("plays")
        assert {(s.plays, s.stars) for s in rows} == {(3, 0), (7, 4), (11, 0)}
        assert {s.plays for s in Song.objects.with_counts().with_counts()} == {3, 7, 11}

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

    def test_a_field_that_is_not_named_stays_a_column(self) -> None:
        song = Song.objects.with_counts("stars").get(title="c")
        assert song.plays == 1

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

    def test_what_it_loads_can_count(self) -> None:
        song = Song.objects.with_counts("plays").get(title="c")
        assert song.plays.increment() == 12
        song.save()
        assert Song.objects.with_counts("plays").get(title="c").plays == 12

    def test_a_rollup_changes_no_value(self) -> None:
        before = sorted(Song.objects.with_counts().values_list("title", "plays", "stars", "skips"))
        rollup()
        after = sorted(Song.objects.values_list("title", "plays", "stars", "skips"))
        assert before == after


def test_a_name_that_another_counter_has_does_not_matter() -> None:
    song = Song.objects.create()
    SlottedCounter.objects.increment(song, "plays_", 100)
    post = Post.objects.create(pk=song.pk)
    SlottedCounter.objects.increment(post, "plays", 100)
    assert Song.objects.with_counts("plays").get().plays == 0


def test_an_exact_field_with_something_left_in_slots() -> None:
    post = Post.objects.create(likes=2)
    SlottedCounter.objects.increment(post, "likes", 5)
    assert Post.objects.with_counts("likes").get().likes == 7
    assert Post.objects.with_counts().filter(likes=7).get() == post


def test_keys_of_other_types() -> None:
    gadgets = [Gadget.objects.create(id=uuid.UUID(int=n)) for n in (1, 2**127 + 1)]
    for number, gadget in enumerate(gadgets):
        gadget.beeps.increment(number + 5)
    rows = Gadget.objects.with_counts("beeps").order_by("beeps")
    assert [(gadget.pk, gadget.beeps) for gadget in rows] == [
        (gadgets[0].pk, 5),
        (gadgets[1].pk, 6),
    ]
    country = Country.objects.create(code="%s '\\ größe 🎉")
    country.visits.increment(3)
    assert Country.objects.with_counts("visits").get(visits=3) == country
    lyrics = Lyrics.objects.create(song=Song.objects.create())
    lyrics.reads.increment(2)
    assert Lyrics.objects.with_counts("reads").get(reads=2) == lyrics


def test_parents_children_and_proxies() -> None:
    Track.objects.create()
    bonus = BonusTrack.objects.create()
    bonus.plays.increment(2)
    bonus.shares.increment(3)
    child = BonusTrack.objects.with_counts().get(plays=2, shares=3)
    assert (child.plays, child.shares) == (2, 3)
    parent = Track.objects.with_counts("plays").order_by("-plays")[0]
    assert (parent.pk, parent.plays) == (bonus.pk, 2)
    assert ProxyTrack.objects.with_counts("plays").get(plays=2).pk == bonus.pk
    release = Release.objects.create(code="R1")
    release.plays.increment(9)
    assert Release.objects.with_counts("plays").get(plays=9) == release


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
