"""The rollup: what waits becomes part of the totals, once, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models, transaction

from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import assert_counts
from django_counters.types import INT8
from django_counters.upkeep.places import places
from django_counters.upkeep.rollup import Report, rollup
from tests.testapp.models import BonusTrack, Country, Gadget, Lyrics, Release, Song, Tiny, Track

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _sharded(override_counters: Callable[..., None]) -> None:
    override_counters(likes={"STRATEGY": "sharded"})


def make_shards(key: str, *values: int, using: str = "default") -> None:
    """Shards as many writers at once leave them."""
    CounterShard.objects.using(using).bulk_create(
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


class TestNamed:
    def test_what_waits_becomes_the_total(self) -> None:
        Counter.objects.create(key="likes:a", value=100)
        make_shards("likes:a", 1, 2, 3, 4, 5)
        make_shards("likes:b", 7, -9)
        Counter.objects.increment("exact", 3)
        report = rollup()
        assert (report.rows, report.left, report.orphans, report.stuck) == (7, 0, 0, [])
        assert totals() == {"likes:a": 115, "likes:b": -2, "exact": 3}
        assert not CounterShard.objects.exists()
        assert Counter.objects.read("likes:a").pending == 0

    def test_a_second_one_finds_nothing(self) -> None:
        make_shards("likes:a", 1, 2)
        rollup()
        assert rollup() == Report()
        assert totals() == {"likes:a": 3}

    def test_counting_goes_on_after_it(self) -> None:
        for turn in range(1, 5):
            assert Counter.objects.increment("likes:a") == turn
            rollup()
        reading = Counter.objects.read("likes:a")
        assert (reading.total, reading.pending) == (4, 0)

    def test_shards_that_add_up_to_nothing_go(self) -> None:
        make_shards("likes:a", 5, -5, 0)
        assert rollup().rows == 3
        assert totals() == {"likes:a": 0}

    def test_pages_may_be_smaller_than_the_number_of_counters(self) -> None:
        for number in range(23):
            make_shards(f"likes:{number}", *range(number % 4 + 1))
        expected = {f"likes:{n}": sum(range(n % 4 + 1)) for n in range(23)}
        labels: list[str] = []
        report = rollup(page=5, progress=lambda label, _: labels.append(label))
        assert totals() == expected
        assert report.rows == sum(n % 4 + 1 for n in range(23))
        assert labels == ["shards"] * 6 + ["ledger"]

    def test_a_dry_run_changes_nothing(self) -> None:
        make_shards("likes:a", 1, 2, 3)
        song = Song.objects.create()
        song.plays.increment()
        assert rollup(dry_run=True) == Report(left=4)
        assert CounterShard.objects.count() == 3
        assert not Counter.objects.exists()
        assert song.plays.read().pending == 1

    def test_the_time_of_the_last_change_moves(self) -> None:
        Counter.objects.increment("likes:a")
        rollup()
        before = Counter.objects.get().updated_at
        Counter.objects.increment("likes:a")
        rollup()
        assert Counter.objects.get().updated_at >= before

    def test_it_joins_the_callers_transaction(self) -> None:
        make_shards("likes:a", 1, 2)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            assert rollup().rows == 2
            assert totals() == {"likes:a": 3}
            raise ZeroDivisionError
        assert CounterShard.objects.count() == 2
        assert not Counter.objects.exists()

    def test_it_folds_what_the_callers_transaction_has_counted(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("likes:a", 5)
            assert rollup().rows == 1
            assert Counter.objects.increment("likes:a") == 6
        assert_counts({"likes:a": 6})


class TestRecords:
    def test_slots_of_a_field_become_its_column(self) -> None:
        song, other = Song.objects.create(plays=10), Song.objects.create()
        make_slots(song, "plays", 1, 2, 3)
        make_slots(song, "stars", 4, 5)
        make_slots(other, "plays", 7)
        report = rollup()
        assert (report.rows, report.left, report.orphans) == (6, 0, 0)
        song.refresh_from_db()
        other.refresh_from_db()
        assert (song.plays, song.stars, song.skips, other.plays) == (16, 9, 0, 7)
        assert not SlottedCounter.objects.exists()

    def test_keys_of_all_kinds(self) -> None:
        records: list[tuple[Any, str]] = [
            (Gadget.objects.create(), "beeps"),
            (Country.objects.create(code="größe 'x' %s \\ 🎉 {a,b}"), "visits"),
            (Lyrics.objects.create(song=Song.objects.create()), "reads"),
            (BonusTrack.objects.create(), "plays"),
            (BonusTrack.objects.create(), "shares"),
            (Release.objects.create(code="R1"), "plays"),
        ]
        for record, name in records:
            getattr(record, name).increment(5)
        assert rollup().left == 0
        for record, name in records:
            reading = getattr(record, name).read()
            assert (reading.total, reading.pending) == (5, 0)

    def test_counters_without_a_column_keep_one_row(self) -> None:
        song = Song.objects.create()
        make_slots(song, "downloads", 1, 2, 3, 4)
        make_slots(song, "shares", 10)
        assert rollup().rows == 5
        rows = SlottedCounter.objects.order_by("name").values_list("name", "slot", "count")
        assert list(rows) == [("downloads", -1, 10), ("shares", -1, 10)]
        assert rollup() == Report()
        assert SlottedCounter.objects.increment(song, "downloads") == 11
        reading = SlottedCounter.objects.read(song, "downloads")
        assert (reading.value, reading.total, reading.pending) == (11, 10, 1)
        rollup()
        assert SlottedCounter.objects.read(song, "downloads").total == 11

    def test_slots_without_a_record_are_dropped(self) -> None:
        song, other = Song.objects.create(), Song.objects.create()
        make_slots(song, "plays", 1, 2)
        make_slots(other, "plays", 4)
        # As a cascade in the database or a TRUNCATE would.
        Song.objects.filter(pk=song.pk)._raw_delete("default")
        report = rollup()
        assert (report.rows, report.orphans, report.left) == (1, 2, 0)
        other.refresh_from_db()
        assert other.plays == 4

    def test_slots_of_a_model_that_is_gone_stay(self) -> None:
        kind = ContentType.objects.create(app_label="gone", model="nothing")
        SlottedCounter.objects.create(record_type=kind, record_id="1", name="a", slot=0, count=5)
        assert rollup().rows == 0
        assert SlottedCounter.objects.get().count == 5


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

    @pytest.mark.parametrize("record_id", ["abc", "01", "1.5", str(2**63), "9" * 40])
    def test_slots_whose_record_id_no_record_can_have_stop_nobody(self, record_id: str) -> None:
        song = Song.objects.create()
        make_slots(song, "plays", 1, 2)
        kind = ContentType.objects.get_for_model(Song)
        strange = SlottedCounter.objects.create(
            record_type=kind, record_id=record_id, name="plays", slot=0, count=5
        )
        make_shards("likes:a", 1)
        report = rollup()
        assert report.stuck == [f"slots of testapp.Song.plays:{record_id}"]
        assert (report.rows, report.left, report.orphans) == (3, 1, 0)
        assert Song.objects.get().plays == 3
        assert SlottedCounter.objects.get() == strange
        strange.delete()
        assert rollup() == Report()

    def test_halves_that_only_fit_together_are_folded_in_the_end(self) -> None:
        Counter.objects.create(key="likes:a", value=HIGHEST - 5)
        make_shards("likes:a", 10, -20)
        rollup()
        rollup()
        assert totals() == {"likes:a": HIGHEST - 15}

    @pytest.mark.postgres
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


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    make_shards("likes:a", 1, 2)
    make_shards("likes:a", 10, 20, using="other")
    song = Song.objects.using("other").create()
    song.plays.increment(4)
    SlottedCounter.objects.increment(song, "downloads", 5)
    assert rollup("other").rows == 4
    assert Counter.objects.using("other").get().value == 30
    assert Song.objects.using("other").get().plays == 4
    assert SlottedCounter.objects.using("other").get().slot == -1
    assert CounterShard.objects.count() == 2


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
class TestNobodyWaits:
    """The connection elsewhere gives up where it would have to wait for a lock."""

    def test_a_row_that_is_held_stays_for_the_next_time(self, elsewhere: Elsewhere) -> None:
        song = Song.objects.create()
        make_shards("likes:a", 1, 2, 3)
        make_slots(song, "plays", 1, 2)
        make_slots(song, "downloads", 1, 2)
        with transaction.atomic():
            Counter.objects.increment("likes:a")
            song.plays.increment()
            SlottedCounter.objects.increment(song, "downloads")
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

    def test_two_at_once_share_the_work(self, elsewhere: Elsewhere) -> None:
        song = Song.objects.create()
        make_shards("likes:a", 1, 2, 3)
        make_slots(song, "plays", 1, 2)
        make_slots(song, "downloads", 1, 2)
        with transaction.atomic():
            assert rollup().rows == 7
            assert elsewhere(rollup).rows == 0
        assert totals() == {"likes:a": 6}
        assert Song.objects.get().plays == 3
        assert SlottedCounter.objects.get().count == 3

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

    @pytest.mark.parametrize("shards", [1, 2, 3, 40, 64])
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

    def test_readers_see_each_number_once(self, elsewhere: Elsewhere) -> None:
        make_shards("likes:a", 1, 2, 3)
        with transaction.atomic():
            rollup()
            before = elsewhere(lambda: Counter.objects.read("likes:a"))
        after = elsewhere(lambda: Counter.objects.read("likes:a"))
        assert (before.total, before.pending) == (0, 6)
        assert (after.total, after.pending) == (6, 0)


def test_every_child_is_found_by_the_table_of_its_parent() -> None:
    bonus, track = BonusTrack.objects.create(), Track.objects.create()
    bonus.plays.increment(2)
    track.plays.increment(3)
    assert [place.label for place in places("default")] == [
        "shards",
        "slots of testapp.Track.plays",
    ]
    rollup()
    assert dict(Track.objects.values_list("pk", "plays")) == {bonus.pk: 2, track.pk: 3}
