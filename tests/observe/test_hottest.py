"""The hottest counters: which are found, and by how much they change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters.intake.flush import flush
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.observe import hottest as module
from django_counters.observe.hottest import Look, look
from django_counters.registry import slots_of
from django_counters.stores.redis.keys import slot_of
from django_counters.stores.sql import hottest as store
from django_counters.testing import override_counters
from tests.observe.test_redises import NOBODY
from tests.settling import roll_up
from tests.testapp.models import Song

pytestmark = pytest.mark.django_db


def changes(found: Look) -> list[tuple[str, int | None]]:
    """Counters and their changes, in the order in which they are shown."""
    return [(str(one.name), one.change) for one in found.hottest]


def looks(change: Callable[[], Any], **options: Any) -> Look:
    """What a look says of changes that came after the look before."""
    before = look(**options)
    change()
    return look(before=before, **options)


class TestRates:
    def test_the_fastest_come_first_whichever_way_they_go(self) -> None:
        keys = {"a": 1, "b": 1, "c": 1, "d": 1}
        Counter.objects.increment_many(keys)
        before = look()
        Counter.objects.increment_many({"b": 5, "c": -9, "d": 2})
        assert changes(look(before=before, limit=1)) == [("c", -9)]
        found = look(before=before)
        assert changes(found) == [("c", -9), ("b", 5), ("d", 2)]
        assert found.hottest[0].rate is not None
        assert found.hottest[0].rate < 0
        assert found.rate == pytest.approx(sum(abs(one.rate or 0) for one in found.hottest))

    def test_one_that_rests_is_not_shown_and_is_known_when_it_changes_again(self) -> None:
        # Only what is kept of the look before leads to it.
        Counter.objects.increment("a")
        first = look()
        Counter.objects.filter(key="a").update(updated_at="2020-01-01T00:00:00Z")
        assert changes(look()) == []
        second = look(before=first)
        assert changes(second) == []
        Counter.objects.increment("a", 3)
        assert changes(look(before=second)) == [("a", 3)]


class TestPlaces:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("strategy", ["sharded", "ledger"])
    def test_what_waits_in_the_database(self, strategy: str) -> None:
        with override_counters(n={"STRATEGY": strategy}):
            Counter.objects.increment("n:a", 2)
            found = looks(lambda: Counter.objects.increment("n:a", 3))
            (one,) = found.hottest
            assert (one.change, one.value, one.waits, one.strategy) == (3, 5, 5, strategy)
            # What is folded between two looks is no change.
            assert changes(looks(roll_up)) == []

    def test_slots_with_and_without_a_column(self) -> None:
        song = Song.objects.create(plays=100)
        song.plays.increment(2)
        SlottedCounter.objects.increment(song, "downloads", 4)
        gone = Song.objects.create()
        gone.plays.increment()
        Song.objects.filter(pk=gone.pk)._raw_delete("default")

        def count() -> None:
            song.plays.increment(3)
            SlottedCounter.objects.increment(song, "downloads", 5)

        found = looks(count)
        assert changes(found) == [
            (f"testapp.Song.downloads:{song.pk}", 5),
            (f"testapp.Song.plays:{song.pk}", 3),
        ]
        assert [(one.value, one.waits) for one in found.hottest] == [(9, 9), (105, 5)]
        assert {one.strategy for one in found.hottest} == {"slotted"}
        # Those of a record that is gone are no counter any more.
        assert found.away == ()

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_redis(self) -> None:
        Counter.objects.increment_many({"views:a": 2, "views:b": 1})
        found = looks(lambda: Counter.objects.increment("views:a", 3))
        (one,) = found.hottest
        assert (one.change, one.value, one.waits, one.strategy) == (3, 5, 5, "cached")
        # What lands between two looks is no change, and is found where it has landed.
        after = looks(flush)
        assert (changes(after), after.read) == ([], 2)


class TestLimits:
    def test_a_place_that_holds_more_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(3):
            CounterShard.objects.increment(f"a{number}", number + 1)
        known = [f"a{number}" for number in (2, 1, 0)]
        for most in (2, 4):
            monkeypatch.setattr(module, "MOST_FOUND", most)
            found = look()
            assert [str(one.name) for one in found.hottest] == known[:most]
            assert found.capped == (("shards",) if most < 3 else ())

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_redis_is_not_read_to_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # So many in one slot that Redis hands them out page by page.
        keys = [key for key in (f"views:{n}" for n in range(30_000)) if slot_of(key) == 3]
        monkeypatch.setattr(module, "MOST_FOUND", 100_000)
        Counter.objects.increment_many(dict.fromkeys(keys, 1))
        assert 1_000 < len(keys) < module.MOST_FIELDS
        assert look().capped == ()
        monkeypatch.setattr(module, "MOST_FIELDS", 100)
        assert look().capped == ("Redis default",)

    @pytest.mark.postgresql
    def test_what_takes_too_long_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Counter.objects.increment("a")
        CounterShard.objects.increment("b")
        monkeypatch.setattr(store, "PATIENCE", 200)
        slow = connections["default"]
        with slow.cursor() as cursor:
            # A table that answers slowly, in the place of the real one.
            cursor.execute(
                "ALTER TABLE django_counters_counter RENAME TO real_counter; "
                "CREATE VIEW django_counters_counter AS "
                "SELECT key, value, updated_at, outside FROM real_counter, pg_sleep(5)"
            )
        began = time.monotonic()
        patience = _patience()
        parts = module._Parts("default")
        found = parts.find(
            "totals", lambda: module._named(store.SqlHottest("default").changed(9, 9))
        )
        assert time.monotonic() - began < 4
        assert found == {}
        assert [away.part for away in parts.away] == ["totals"]
        assert "timeout" in parts.away[0].reason
        # The transaction goes on, as patient as it was.
        assert _patience() == patience

    @pytest.mark.django_db(transaction=True)
    def test_only_counters_are_taken_out_of_redis(self, cached: str) -> None:
        Counter.objects.increment("views:a", 5)
        key = slots_of("default", cached).keys(slot_of("views:a"))[0]
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.hset(key, mapping={"views:b": "1e3", "views:\x1b": "1", "\0k00": "2 views:c"})
        assert [str(one.name) for one in look().hottest] == ["views:a"]

    def test_the_number_of_queries_does_not_grow_with_the_counters(self) -> None:
        Counter.objects.increment("a")
        few = _queries()
        Counter.objects.increment_many({f"k{number}": 1 for number in range(300)})
        assert _queries() == few


def _patience() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        return str(cursor.fetchone()[0])


def _queries() -> int:
    with CaptureQueriesContext(connection) as queries:
        look()
    return len(queries)


class TestAway:
    def test_a_redis_that_is_away_leaves_the_others(self) -> None:
        Counter.objects.increment_many({"a": 1, "views:a": 5})
        with override_settings(CACHES=NOBODY), override_counters(views={"STRATEGY": "cached"}):
            found = looks(lambda: Counter.objects.increment("a", 2))
        assert [one.part for one in found.away] == ["Redis default"]
        by_key = {one.name.key: one for one in found.hottest}
        assert by_key["a"].change == 2
        # Without what waits there, a value is no value to compare with.
        one = by_key["views:a"]
        assert (one.exact, one.change, one.rate, one.value) == (False, None, None, 5)
