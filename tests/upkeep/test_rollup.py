"""The rollup: what waits becomes part of the totals, once, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models, transaction
from django.db.models import F

from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import assert_counts
from django_counters.types import INT8
from django_counters.upkeep import places, rollup
from tests.testapp.models import Song, Tiny

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _sharded(override_counters: Callable[..., None]) -> None:
    override_counters(likes={"STRATEGY": "sharded"})


def make_shards(key: str, *values: int) -> None:
    """Shards as many writers at once leave them."""
    CounterShard.objects.bulk_create(
        CounterShard(key=key, shard=number, value=value) for number, value in enumerate(values)
    )


def make_slots(record: models.Model, name: str, *counts: int) -> None:
    kind = ContentType.objects.get_for_model(record)
    key = record._meta.pk.get_db_prep_value(record.pk, connection)
    SlottedCounter.objects.bulk_create(
        SlottedCounter(record_type=kind, record_id=str(key), name=name, slot=slot, count=count)
        for slot, count in enumerate(counts)
    )


def totals() -> dict[str, int]:
    return dict(Counter.objects.values_list("key", "value"))


class TestWhatDoesNotFit:
    def test_a_total_that_would_not_fit_keeps_what_waits(self) -> None:
        Counter.objects.create(key="likes:full", value=HIGHEST - 2)
        make_shards("likes:a", 1, 2)
        make_shards("likes:full", 5)
        make_shards("likes:z", 3)
        report = rollup()
        assert report.stuck == ["likes:full"]
        assert (report.rows, report.left) == (3, 1)
        assert totals() == {"likes:a": 3, "likes:full": HIGHEST - 2, "likes:z": 3}
        assert CounterShard.objects.get().value == 5
        Counter.objects.filter(key="likes:full").update(value=0)
        assert rollup().stuck == []
        assert totals()["likes:full"] == 5

    def test_the_column_says_how_much_fits(self) -> None:
        tiny, other = Tiny.objects.create(hits=2**31 - 3), Tiny.objects.create()
        make_slots(tiny, "hits", 3)
        make_slots(other, "hits", 3)
        report = rollup()
        (stuck,) = report.stuck
        assert str(tiny.pk) in stuck
        assert report.left == 1
        other.refresh_from_db()
        assert other.hits == 3

    def test_slots_whose_record_id_no_record_can_have_stop_nobody(self) -> None:
        song = Song.objects.create()
        make_slots(song, "plays", 1, 2)
        kind = ContentType.objects.get_for_model(Song)
        ids = ["01", "1.5", "9" * 40, str(2**63), "abc"]
        for record_id in ids:
            SlottedCounter.objects.create(
                record_type=kind, record_id=record_id, name="plays", slot=0, count=5
            )
        make_shards("likes:a", 1)
        report = rollup()
        assert sorted(report.stuck) == sorted(f"slots of testapp.Song.plays:{each}" for each in ids)
        assert (report.rows, report.left, report.orphans) == (3, len(ids), 0)
        assert Song.objects.get().plays == 3
        left = SlottedCounter.objects.values_list("record_id", "count")
        assert dict(left) == dict.fromkeys(ids, 5)

    def test_halves_that_only_fit_together_are_folded_in_the_end(self) -> None:
        Counter.objects.create(key="likes:a", value=HIGHEST - 5)
        make_shards("likes:a", 10, -20)
        rollup()
        rollup()
        assert totals() == {"likes:a": HIGHEST - 15}

    @pytest.mark.many_writers
    @pytest.mark.parametrize("values", [(HIGHEST, 0, HIGHEST), (LOWEST, 0, LOWEST)])
    def test_a_sum_of_shards_that_does_not_fit_harms_nobody_else(
        self, values: tuple[int, ...]
    ) -> None:
        """The value fits, and each shard does; their sum alone does not."""
        Counter.objects.create(key="likes:a", value=LOWEST if values[0] > 0 else HIGHEST)
        make_shards("likes:a", *values)
        make_shards("likes:b", 1)
        before = Counter.objects.value("likes:a")
        rollup()
        assert_counts({"likes:a": before, "likes:b": 1})
        assert totals()["likes:b"] == 1


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
class TestNobodyWaits:
    """The connection elsewhere gives up where it would have to wait for a lock."""

    def test_a_row_that_is_held_stays_for_the_next_time(self, elsewhere: Elsewhere) -> None:
        song = Song.objects.create()
        make_shards("likes:a", 1, 2, 3)
        make_slots(song, "plays", 1, 2)
        make_slots(song, "downloads", 1, 2)
        with transaction.atomic():
            # Rows that are there: an increment on MySQL may make a new one.
            shard = CounterShard._base_manager.filter(key="likes:a", shard=0)
            assert shard.update(value=F("value") + 1) == 1
            slots = SlottedCounter._base_manager.filter(slot=0)
            assert slots.update(count=F("count") + 1) == 2
            report = elsewhere(rollup)
            assert (report.rows, report.left) == (4, 3)
        assert rollup().rows == 3
        assert totals() == {"likes:a": 7}
        assert Song.objects.get().plays == 4
        assert SlottedCounter.objects.get().count == 4

    def test_a_total_that_is_held_keeps_its_shards(self, elsewhere: Elsewhere) -> None:
        Counter.objects.create(key="likes:a", value=10)
        make_shards("likes:a", 1, 2)
        make_shards("likes:b", 1, 2)
        song = Song.objects.create()
        make_slots(song, "plays", 1, 2)
        with transaction.atomic():
            Counter.objects.select_for_update().get(key="likes:a")
            Song.objects.select_for_update().get()
            assert elsewhere(rollup).rows == 2
        assert totals() == {"likes:a": 10, "likes:b": 3}
        assert rollup().rows == 4
        assert totals()["likes:a"] == 13

    def test_a_total_that_somebody_is_inserting_is_not_waited_for(
        self, elsewhere: Elsewhere
    ) -> None:
        make_shards("likes:a", 1, 2)
        make_shards("likes:b", 1, 2)
        with transaction.atomic():
            Counter.objects.create(key="likes:b", value=10)
            assert elsewhere(rollup).rows == 2
        rollup()
        assert totals() == {"likes:a": 3, "likes:b": 13}

    def test_a_second_one_folds_what_came_since(self, elsewhere: Elsewhere) -> None:
        """The first one holds the totals; what is new waits for the next, and nobody for it."""
        song = Song.objects.create()
        SlottedCounter.objects.increment(song, "downloads")
        rollup()
        SlottedCounter.objects.increment(song, "downloads")
        with transaction.atomic():
            rollup()
            elsewhere(lambda: SlottedCounter.objects.increment(song, "downloads", 5))
            elsewhere(rollup)
        rollup()
        assert SlottedCounter.objects.get().count == 7

    # On MySQL a connection has one row, and waits where the rollup holds that.
    @pytest.mark.postgresql
    @pytest.mark.parametrize("shards", [1, 2, 64])
    @pytest.mark.parametrize("half", [0, 1])
    def test_writers_do_not_wait_for_it(self, elsewhere: Elsewhere, shards: int, half: int) -> None:
        """In the middle of each of its two steps, twenty writers find a row."""
        song = Song.objects.create()
        make_shards("likes:a", *[1] * shards)
        make_slots(song, "plays", *[1] * shards)

        def count() -> None:
            for _ in range(20):
                with transaction.atomic():
                    Counter.objects.increment("likes:a")
                    song.plays.increment()
                    # The next one meets the same rows.
                    transaction.set_rollback(True)

        named, slotted = places("default")
        for earlier in range(half):
            named.folding.fold(["likes:a"], earlier)
            slotted.folding.fold([str(song.pk)], earlier)
        with transaction.atomic():
            named.folding.fold(["likes:a"], half)
            slotted.folding.fold([str(song.pk)], half)
            elsewhere(count)
        assert_counts({"likes:a": shards})
        assert song.plays.read().value == shards
