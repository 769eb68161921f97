"""What lands in the totals: all that fits, whatever stands beside it and whoever else lands."""

from __future__ import annotations

import uuid
from collections.abc import Hashable
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.models import Counter, CounterShard
from django_counters.stores.base import LandingRefusal, Parcel
from django_counters.stores.sql.tables import NAMED
from django_counters.stores.sql.totals import SqlReads
from django_counters.testing import assert_counts
from django_counters.types import INT8
from tests.stores.test_batches import BATCHES, batched, generations
from tests.stores.test_failures import beside, wait_for_lock
from tests.testapp.models import Country, Device, Lyrics, Post, Release, Small, Song

pytestmark = pytest.mark.django_db
somebody_else = pytest.mark.django_db(transaction=True)
LOWEST, HIGHEST = INT8
VIEWS: Any = Post._meta.get_field("views")


def land_column(
    model: type[models.Model], name: str, sums: dict[str, int]
) -> dict[str, LandingRefusal]:
    field: Any = model._meta.get_field(name)
    with BATCHES.landing():
        return BATCHES.land_records(field.table, field.model._meta.pk, sums)


class TestNamed:
    @somebody_else
    def test_what_does_not_fit_does_not_stop_its_neighbours(self) -> None:
        full = {f"full:{number}": 1 for number in range(40)}
        Counter.objects.bulk_create(Counter(key=key, value=HIGHEST) for key in full)
        Counter.objects.create(key="low", value=LOWEST)
        Counter.objects.create(key="waits", value=HIGHEST - 5)
        CounterShard.objects.create(key="waits", shard=0, value=3)
        fits = {"z": 2, "a": 3, "low": 1, "full:0": -1}
        over = {**full, "waits": 3, "wide": HIGHEST + 1, "full:0": -1}
        (generation,) = generations(1)
        with BATCHES.landing(), CaptureQueriesContext(connection) as queries:
            BATCHES.claim(batched(generation))
            refused = BATCHES.land_named({**over, **fits})
        assert refused == dict.fromkeys(set(over) - {"full:0"}, LandingRefusal.OVERFLOW)
        assert_counts({"z": 2, "a": 3, "low": LOWEST + 1, "full:0": HIGHEST - 1, "wide": 0})
        assert_counts({"full:1": HIGHEST, "waits": HIGHEST - 2})
        assert BATCHES.known([generation]) == {generation}
        assert len(queries) < 12

    def test_what_is_no_key_does_not_stop_its_neighbours(self) -> None:
        strange = dict.fromkeys(["", "a b", "x" * 201, "a\0b", "\udcff", "\u202e"], 1)
        with BATCHES.landing():
            assert BATCHES.land_named({**strange, "a": 2}) == dict.fromkeys(strange, "strange")
        assert list(Counter.objects.values_list("key", "value")) == [("a", 2)]

    @somebody_else
    @pytest.mark.many_writers
    @pytest.mark.parametrize("full", [False, True])
    def test_totals_are_held_in_the_order_of_their_keys(self, full: bool) -> None:
        Counter.objects.increment_many({"a": 1, "b": 1})
        # The first of all keys: that it does not fit is found out before anybody waits.
        Counter.objects.create(key="0:full", value=HIGHEST)
        sums = {"new": 1, "b": 1, "a": 1} | ({"0:full": 1} if full else {})

        def other() -> dict[str, LandingRefusal]:
            with BATCHES.landing():
                return BATCHES.land_named(sums)

        with beside() as call:
            with transaction.atomic():
                Counter.objects.increment("a")
                future = call(other)
                wait_for_lock()
                Counter.objects.increment_many({"b": 1, "new": 1})
            assert future.result(30) == ({"0:full": "overflow"} if full else {})
        assert_counts({"a": 3, "b": 3, "new": 2, "0:full": HIGHEST})


class TestRecords:
    def test_what_cannot_land_does_not_stop_its_neighbours(self) -> None:
        one, two, low = Small.objects.bulk_create(
            Small(hits=hits) for hits in (1, 2**31 - 2, -(2**31))
        )
        sums = {str(one.pk): 4, str(two.pk): 2, str(low.pk): -1, "999999": 5}
        strange = dict.fromkeys(
            ["x", "", "1.0", "01", " 1", "\u0661", "1\0", str(2**63), "\udcff"], 1
        )
        refused = land_column(Small, "hits", {**strange, **sums})
        assert refused == {
            str(two.pk): "overflow",
            str(low.pk): "overflow",
            "999999": "missing",
            **dict.fromkeys(strange, "strange"),
        }
        found = Small.objects.order_by("pk").values_list("hits", flat=True)
        assert list(found) == [5, 2**31 - 2, -(2**31)]
        assert land_column(Small, "hits", {str(two.pk): 1, str(low.pk): 0}) == {}

    def test_keys_of_every_kind(self) -> None:
        device, country = Device.objects.create(), Country.objects.create(code="a b")
        lyrics = Lyrics.objects.create(song=Song.objects.create())
        release = Release.objects.create(code="r")
        key = str(device._meta.pk.get_db_prep_value(device.pk, connection))
        other = str(uuid.uuid4())
        other = other.replace("-", "") if "-" not in key else other
        assert land_column(Device, "events", {key: 2, key.upper(): 1, other: 1, "1": 1}) == {
            **({key.upper(): "strange"} if key != key.upper() else {}),
            other: "missing",
            "1": "strange",
        }
        refused = land_column(Country, "visits", {"a b": 3, "a\0b": 1, "\udcff": 1, "no": 1})
        assert refused == {"a\0b": "strange", "\udcff": "strange", "no": "missing"}
        assert land_column(Lyrics, "reads", {str(lyrics.pk): 4}) == {}
        assert land_column(Release, "plays", {str(release.track_id): 5}) == {}
        for row in (device, country, lyrics, release):
            row.refresh_from_db()
        assert (device.events, country.visits, lyrics.reads, release.plays) == (2, 3, 4, 5)

    def test_a_text_is_never_cut_to_that_of_another_record(self) -> None:
        whole = Country.objects.create(code="x" * 300)
        assert land_column(Country, "visits", {"x" * 301: 1}) == {"x" * 301: "strange"}
        whole.refresh_from_db()
        assert whole.visits == 0

    @somebody_else
    @pytest.mark.many_writers
    def test_what_others_change_meanwhile_is_part_of_what_has_to_fit(self) -> None:
        small = Small.objects.create(hits=2**31 - 10)
        sums = {str(small.pk): 6}
        with beside() as call:
            with transaction.atomic():
                small.hits.increment(6)
                other = call(lambda: land_column(Small, "hits", sums))
                wait_for_lock()
            assert other.result(30) == {str(small.pk): "overflow"}

    @somebody_else
    @pytest.mark.many_writers
    def test_rows_are_held_in_the_order_of_their_keys(self) -> None:
        # In the table they stand the other way round.
        posts = [Post.objects.create(pk=number) for number in range(50, 0, -1)]
        sums = {str(post.pk): 1 for post in posts}
        with beside() as call:
            with transaction.atomic():
                Post.objects.select_for_update().get(pk=1)
                other = call(lambda: land_column(Post, "views", sums))
                wait_for_lock()
                free = Post.objects.select_for_update(skip_locked=True).exclude(pk=1)
                assert len(free) == 49
            assert other.result(30) == {}
        assert set(Post.objects.values_list("views", flat=True)) == {1}


@somebody_else
@pytest.mark.many_writers
@pytest.mark.parametrize("column", [False, True])
def test_what_is_landed_meanwhile_is_neither_missing_nor_double(column: bool) -> None:
    """A reader adds what it was told of generations that are not landed: always the same sum."""
    post = Post.objects.create()
    key: Hashable = post.pk if column else "a"
    reads = SqlReads(VIEWS.table if column else NAMED, "default")
    amounts = {generation: 10**number for number, generation in enumerate(generations(15), 1)}

    def land_all() -> None:
        for generation, by in amounts.items():
            with BATCHES.landing():
                assert BATCHES.claim([Parcel(generation, "redis", {"a": by})])
                if column:
                    BATCHES.land_records(VIEWS.table, Post._meta.pk, {str(post.pk): by})
                else:
                    BATCHES.land_named({"a": by})

    seen: set[str] = set()
    with beside() as call:
        future = call(land_all)
        while len(seen) < len(amounts) and not (future.done() and future.exception()):
            found, landed = reads.read_landed([key], list(amounts))
            value = found[key].value if key in found else 0
            waits = sum(by for generation, by in amounts.items() if generation not in landed)
            assert value + waits == sum(amounts.values())
            seen = set(landed)
        future.result(30)
