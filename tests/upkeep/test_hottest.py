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

from django_counters.models import Counter, CounterIncident, CounterShard, SlottedCounter
from django_counters.stores.redis.keys import Slots, slot_of
from django_counters.stores.sql import hottest as store
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from django_counters.upkeep import hottest as module
from django_counters.upkeep.flush import flush
from django_counters.upkeep.hottest import Look, Name, look
from django_counters.upkeep.rollup import rollup
from tests.settling import roll_up
from tests.testapp.models import Article, Post, Song

pytestmark = pytest.mark.django_db
UNREACHABLE = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    }
}


def changes(found: Look) -> list[tuple[str, int | None]]:
    """Counters and their changes, in the order in which they are shown."""
    return [(str(one.name), one.change) for one in found.hottest]


def looks(change: Callable[[], Any], **options: Any) -> Look:
    """What a look says of changes that came after the look before."""
    before = look(**options)
    change()
    return look(before=before, **options)


def test_where_nothing_is_counted_nothing_is_hot() -> None:
    found = look(before=look())
    assert (found.hottest, found.rate, found.read) == ((), None, 0)
    assert (found.away, found.capped, found.incidents) == ((), (), {})


class TestRates:
    def test_a_rate_is_what_changed_between_two_looks(self) -> None:
        Counter.objects.increment("a", 100)
        before = look()
        Counter.objects.increment("a", 7)
        # Whatever it takes: the rate is over the time that did pass.
        time.sleep(0.05)
        found = look(before=before)
        (one,) = found.hottest
        assert (one.name, one.value, one.change, one.exact) == (Name("", "a"), 107, 7, True)
        assert one.rate is not None
        assert found.interval is not None
        assert found.interval >= 0.05
        assert one.rate == pytest.approx(7 / found.interval)
        assert found.rate == one.rate

    def test_the_fastest_come_first_whichever_way_they_go(self) -> None:
        keys = {"a": 1, "b": 1, "c": 1, "d": 1}
        Counter.objects.increment_many(keys)
        found = looks(lambda: Counter.objects.increment_many({"b": 5, "c": -9, "d": 2}))
        assert changes(found) == [("c", -9), ("b", 5), ("d", 2)]
        assert found.hottest[0].rate is not None
        assert found.hottest[0].rate < 0
        assert found.rate == pytest.approx(sum(abs(one.rate or 0) for one in found.hottest))

    def test_of_a_new_one_no_rate_is_known_yet(self) -> None:
        Counter.objects.increment("a")
        found = looks(lambda: Counter.objects.increment_many({"new": 1000, "a": 1}))
        assert changes(found) == [("a", 1), ("new", None)]
        assert found.hottest[1].rate is None
        Counter.objects.increment("new", 5)
        assert changes(look(before=found)) == [("new", 5)]

    def test_one_that_rests_is_not_shown_and_is_known_when_it_changes_again(self) -> None:
        # Only what is kept of the look before leads to it.
        Counter.objects.increment("a")
        first = look()
        Counter.objects.filter(key="a").update(updated_at="2020-01-01T00:00:00Z")
        second = look(before=first)
        assert changes(second) == []
        Counter.objects.increment("a", 3)
        assert changes(look(before=second)) == [("a", 3)]

    def test_no_more_than_are_wanted(self) -> None:
        Counter.objects.increment_many({f"k{number}": 1 for number in range(9)})
        many = {f"k{number}": number + 1 for number in range(9)}
        found = looks(lambda: Counter.objects.increment_many(many), limit=2)
        assert changes(found) == [("k8", 9), ("k7", 8)]
        assert found.read == 9

    def test_what_changed_long_ago_is_not_found(self) -> None:
        Counter.objects.increment_many({"old": 1, "new": 1})
        Counter.objects.filter(key="old").update(updated_at="2020-01-01T00:00:00Z")
        assert changes(look()) == [("new", None)]


class TestPlaces:
    def test_shards(self) -> None:
        with override_counters(likes={"STRATEGY": "sharded"}):
            Counter.objects.increment("likes:a", 2)
            found = looks(lambda: Counter.objects.increment("likes:a", 3))
            (one,) = found.hottest
            assert (one.change, one.value, one.waits, one.strategy) == (3, 5, 5, "sharded")
            # What is folded between two looks is no change.
            assert changes(looks(rollup)) == []

    def test_slots_with_and_without_a_column(self) -> None:
        song = Song.objects.create(plays=100)
        song.plays.increment(2)
        SlottedCounter.objects.increment(song, "downloads", 4)

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

    def test_slots_of_records_that_are_gone(self) -> None:
        song = Song.objects.create()
        song.plays.increment()
        Song.objects.all().delete()
        found = look()
        assert (found.hottest, found.away) == ((), ())

    def test_an_exact_field_is_not_found(self) -> None:
        post = Post.objects.create()
        found = looks(post.views.increment)
        assert (found.hottest, found.read) == ((), 0)

    @pytest.mark.django_db(transaction=True)
    def test_the_ledger(self) -> None:
        with override_counters(orders={"STRATEGY": "ledger"}):
            Counter.objects.increment("orders:a", 2)
            found = looks(lambda: Counter.objects.increment("orders:a", 3))
            (one,) = found.hottest
            assert (one.change, one.value, one.waits, one.strategy) == (3, 5, 5, "ledger")
            assert changes(looks(roll_up)) == []

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

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_cached_fields(self) -> None:
        article = Article.objects.create()
        article.claps.increment(2)
        found = looks(lambda: article.claps.increment(3))
        (one,) = found.hottest
        assert str(one.name) == f"testapp.Article.claps:{article.pk}"
        assert (one.change, one.value, one.waits, one.strategy) == (3, 5, 5, "cached")

    def test_incidents_of_the_last_day(self) -> None:
        record(CounterIncident.Kind.DRIFT, "a", {"expected": 1, "found": 2}, "default")
        record(CounterIncident.Kind.DRIFT, "b", {"expected": 1, "found": 2}, "default")
        old = CounterIncident.objects.create(kind="lost", subject="a")
        CounterIncident.objects.filter(pk=old.pk).update(found_at="2020-01-01T00:00:00Z")
        assert look().incidents == {"drift": 2}


class TestLimits:
    @pytest.mark.parametrize("most", [2, 4])
    def test_a_place_that_holds_more_says_so(
        self, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr(module, "MOST_FOUND", most)
        for number in range(3):
            CounterShard.objects.increment(f"a{number}", number + 1)
        found = look()
        known = [f"a{number}" for number in (2, 1, 0)]
        assert [str(one.name) for one in found.hottest] == known[:most]
        assert found.capped == (("shards",) if most < 3 else ())

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_redis_is_not_read_to_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_FOUND", 100_000)
        # So many in one slot that Redis hands them out page by page.
        Counter.objects.increment_many({f"views:{number}": 1 for number in range(20_000)})
        assert look().capped == ()
        monkeypatch.setattr(module, "MOST_FIELDS", 100)
        assert look().capped == ("Redis default",)

    @pytest.mark.postgres
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
        parts = module._Parts()
        found = parts.find(
            "totals", lambda: module._named(store.SqlHottest("default").changed(9, 9))
        )
        assert time.monotonic() - began < 4
        assert found == {}
        assert [away.part for away in parts.away] == ["totals"]
        assert "timeout" in parts.away[0].reason
        # The transaction goes on, as patient as it was.
        assert _patience() == patience

    @pytest.mark.postgres
    def test_a_transaction_stays_as_patient_as_it_was(self) -> None:
        patience = _patience()
        assert look().away == ()
        assert _patience() == patience

    @pytest.mark.django_db(transaction=True)
    def test_only_counters_are_taken_out_of_redis(self, cached: str) -> None:
        Counter.objects.increment("views:a", 5)
        key = Slots("default", cached).keys(slot_of("views:a"))[0]
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
        with override_settings(CACHES=UNREACHABLE), override_counters(views={"STRATEGY": "cached"}):
            found = looks(lambda: Counter.objects.increment("a", 2))
        assert [one.part for one in found.away] == ["Redis default"]
        by_key = {one.name.key: one for one in found.hottest}
        assert by_key["a"].change == 2
        # Without what waits there, a value is no value to compare with.
        one = by_key["views:a"]
        assert (one.exact, one.change, one.rate, one.value) == (False, None, None, 5)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.usefixtures("cached")
    def test_the_fields_of_a_redis_that_is_away(self) -> None:
        article = Article.objects.create()
        article.claps.increment(2)
        before = look()
        assert len(before.hottest) == 1
        with override_settings(CACHES=UNREACHABLE):
            found = look(before=before)
        assert found.hottest == ()
        assert "testapp.Article.claps" in [one.part for one in found.away]
        article.claps.increment(3)
        # What was read before is too old to say what happened since the last look.
        assert changes(look(before=found)) == [(f"testapp.Article.claps:{article.pk}", None)]

    @pytest.mark.postgres
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_a_database_that_is_away(self) -> None:
        other = connections["other"]
        other.close()
        host, other.settings_dict["HOST"] = other.settings_dict["HOST"], "/nonexistent"
        try:
            found = look("other")
        finally:
            other.settings_dict["HOST"] = host
            other.close()
        assert found.hottest == ()
        assert {"entries", "slots", "shards", "totals"} <= {away.part for away in found.away}
        assert look("other").away == ()

    def test_wrong_settings(self) -> None:
        Counter.objects.increment("a")
        with override_settings(COUNTERS={"likes": {"STRATEGY": "shardet"}}):
            found = look()
        assert found.hottest == ()
        assert any("shardet" in away.reason for away in found.away)
