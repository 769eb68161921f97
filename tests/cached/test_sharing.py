"""Several databases that share a Redis: none lands what was counted for another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import connection

from django_counters.cached.flush import flush
from django_counters.cached.pending import RedisPending
from django_counters.cached.sources import known, slots_of
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterBatch, CounterIncident
from django_counters.registry import registry
from django_counters.stores.sql.session import identity_of
from django_counters.testing import isolated_counters, override_counters
from tests.redis.servers import needs_redis, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]


@pytest.fixture
def rename(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Go on with this database under another name: its connection stays open."""

    def renamed(name: str) -> None:
        monkeypatch.setitem(connection.settings_dict, "NAME", name)
        registry.forget_strategies()

    yield renamed
    clear()
    monkeypatch.undo()
    registry.forget_strategies()


def clear() -> None:
    for kept in list(registry._of.kept.values()):
        if isinstance(kept, RedisPending):
            kept.clear()


def stored() -> dict[str, int]:
    return dict(Counter._base_manager.values_list("key", "value"))


def test_tests_and_the_site_do_not_see_each_other(rename: Callable[[str], None]) -> None:
    test = connection.settings_dict["NAME"]
    rename("site")
    Counter.objects.increment("views:a", 5)
    rename(test)
    assert flush().generations == 0
    assert Counter.objects.value("views:a") == 0
    rename("site")
    assert Counter.objects.value("views:a") == 5


def test_a_site_may_have_several_names_for_its_database(rename: Callable[[str], None]) -> None:
    """Such as that of a pool."""
    if connection.vendor == "mysql":
        pytest.skip("here a connection is opened, and there is no database of the other name")
    rename("site")
    Counter.objects.increment("views:a", 5)
    rename("pool")
    assert Counter.objects.value("views:a") == 5
    rename("site")


def test_what_waits_under_an_old_prefix_lands(settings: Any) -> None:
    Counter.objects.increment("views:a", 1)
    flush()
    Counter.objects.increment("views:a", 2)
    settings.CACHES = {"default": {**settings.CACHES["default"], "KEY_PREFIX": os.urandom(6).hex()}}
    Counter.objects.increment("views:a", 4)
    assert flush().away == {}
    assert stored() == {"views:a": 7}
    assert not CounterIncident._base_manager.exists()
    parts = set(CounterBatch._base_manager.values_list("source", flat=True))
    assert len(parts) == 2
    assert parts == {source.pending.source for source in known("default") if source.pending}
    clear()


class TestAnotherOfThisName:
    """A copy, or another server: its settings are the same, and it is another database."""

    @pytest.fixture(autouse=True)
    def waiting(self, cached: str) -> None:
        Counter.objects.increment("views:a", 5)
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.set(slots_of("default", cached).owner, "12 another")

    def test_nothing_is_landed_and_everybody_says_why(self) -> None:
        (reason,) = flush().away.values()
        assert "--adopt" in reason
        assert stored() == {}
        with pytest.raises(CommandError, match="it was flushed to another database"):
            call_command("counters", "flush", stdout=StringIO())
        assert "manage.py counters flush --adopt" in {found.command for found in examine()}
        # It waits, and is not lost.
        assert Counter.objects.value("views:a") == 5

    def test_one_that_takes_its_place_says_so_once(self) -> None:
        call_command("counters", "flush", "--adopt", stdout=StringIO())
        assert stored() == {"views:a": 5}
        Counter.objects.increment("views:a", 1)
        assert flush().away == {}
        assert stored() == {"views:a": 6}

    @needs_redis
    def test_a_server_that_does_not_say_whose_it_is_is_left_alone(self, tmp_path: Path) -> None:
        with running(tmp_path, ("--save", "")) as (server,):
            url = f"redis://127.0.0.1:{server.port}/0"
            options = {"CACHE": url, "OPTIONS": {"timeout": 10}}
            with override_counters(views={"STRATEGY": "cached", **options}):
                Counter.objects.increment("views:b", 3)
                server("CONFIG", "SET", "maxmemory", 1)
                assert flush().generations == 1
                server("CONFIG", "SET", "maxmemory", 0)
                Counter.objects.increment("views:b", 4)
                owner = slots_of("default", "").owner
                assert server("GET", owner) == identity_of("default")
                server("SET", owner, "12 another")
                server("ACL", "SETUSER", "default", "-get")
                assert len(flush().away) == 2
                assert stored() == {"views:b": 3}

    def test_a_loop_never_takes_it_over(self) -> None:
        with pytest.raises(CommandError, match="without --loop"):
            call_command("counters", "flush", "--adopt", "--loop", "1")


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_an_identity_is_of_one_database_and_its_schema() -> None:
    assert identity_of("default") != identity_of("other")
    with connection.cursor() as cursor:
        cursor.execute("SELECT system_identifier FROM pg_control_system()")
        assert identity_of("default").startswith(f"{cursor.fetchone()[0]} ")
        whole = identity_of("default")
        cursor.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        cursor.execute("SET ROLE pg_monitor")
        try:
            # Whoever may not ask for the number of the server does without.
            assert whole.endswith(f" {identity_of('default')}")
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")


def test_tests_count_apart_and_leave_nothing(cached: str) -> None:
    Counter.objects.increment("views:a", 1)
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        with isolated_counters():
            space = f"djc:{{default:{slots_of('default', cached).space}:*"
            assert Counter.objects.value("views:a") == 0
            Counter.objects.increment("views:a", 5)
            flush()
            Counter.objects.increment("views:a", 2)
            assert Counter.objects.value("views:a") == 7
            assert list(client.scan_iter(space))
        assert not list(client.scan_iter(space))
        with pytest.raises(KeyError), isolated_counters():
            space = f"djc:{{default:{slots_of('default', cached).space}:*"
            # It writes whose the increments are.
            flush()
            raise KeyError
        assert not list(client.scan_iter(space))
    assert Counter.objects.value("views:a") == 6
