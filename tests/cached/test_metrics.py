"""What the doctor and the checks say of a Redis: what waits there, and whether it keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import CommandError
from django.db import connection
from django.test import override_settings

from django_counters import checks, clock
from django_counters.cached.flush import flush
from django_counters.cached.state import weaknesses
from django_counters.features import Finding
from django_counters.hints import HINTS
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import partitions_ahead
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterIncident, CounterSource
from django_counters.redis import keys
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from example_project.bootstrap import binaries, folders, valkey
from tests.schemas import changes_schema, renamed
from tests.upkeep.test_command import output

ROOT = Path(__file__).parents[2]
DJANGO = "django.core.cache.backends.redis.RedisCache"
CACHED = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
NOBODY = {"default": {"BACKEND": DJANGO, "LOCATION": "redis://:secret@127.0.0.1:1/0"}}


def of_redis() -> list[Finding]:
    return [finding for finding in examine() if finding.strategy == "cached"]


def with_wait() -> Finding:
    (finding,) = [one for one in of_redis() if one.rows]
    return finding


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Redis of these tests' own."""
    program = binaries.find_valkey()
    if program is None:
        pytest.skip("there is no Redis or Valkey here that a test can start")
    with folders.temporary(None) as run, valkey.running(program, run, None) as url:
        yield url


@pytest.fixture
def server(address: str) -> Iterator[Any]:
    """The same, as if it had just been started; cached counters are kept in it."""
    caches = {"default": {"BACKEND": DJANGO, "LOCATION": address}}
    with redis.Redis.from_url(address) as client:
        policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
        with override_settings(CACHES=caches), override_counters(views=CACHED):
            yield client
        client.execute_command("ACL", "SETUSER", "default", "+@all")
        client.config_set("maxmemory-policy", policy)
        client.flushall()


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
class TestWhatWaits:
    def test_what_is_sealed_waits_too(self) -> None:
        Counter.objects.increment("views:a")

        def stop(name: str) -> None:
            if name == "apply":
                raise InterruptedError

        with pytest.raises(InterruptedError):
            flush(step=stop)
        assert (with_wait().rows, with_wait().counters) == (1, 1)
        Counter.objects.increment("views:a")
        assert (with_wait().rows, with_wait().counters) == (2, 2)
        flush()
        flush()
        assert not [one for one in of_redis() if one.rows]

    def test_where_nothing_lands_for_long_somebody_has_to_look(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def earlier() -> datetime:
            return clock.utc() - timedelta(minutes=20)

        with monkeypatch.context() as patch:
            patch.setattr(keys, "utc", earlier)
            Counter.objects.increment("views:a")
        found = with_wait()
        assert found.needed
        assert "does manage.py counters flush run?" in found.action
        assert found.lag is not None
        assert 1200 <= found.lag < 1300
        with pytest.raises(CommandError, match="ACT: "):
            output("doctor", "--fail")
        with monkeypatch.context() as patch:
            patch.setattr(keys, "utc", earlier)
            flush()
            Counter.objects.increment("views:a")
        # It only was not counted for long: what was there before has just landed.
        found = with_wait()
        assert (found.needed, found.action) == (False, "")


@pytest.mark.django_db
class TestNotThere:
    def test_one_that_is_away_is_said_to_be(self) -> None:
        with override_settings(CACHES=NOBODY), override_counters(views=CACHED):
            (found,) = of_redis()
            text = "ACT: 1 finding to act on\nACT · default · cached · it cannot be asked: "
            assert output("doctor").startswith(text)
            with pytest.raises(CommandError, match="1 finding to act on"):
                output("doctor", "--fail")
        assert found.needed
        assert "secret" not in str(found)

    def test_a_url_that_is_none_does_not_tell_its_password(self) -> None:
        cache = "redis+nothing://:secret@host/0"
        with override_counters(views={"STRATEGY": "cached", "CACHE": cache}):
            found = next(one for one in of_redis() if one.subject == "Redis")
            (error,) = checks.check_caches()
        assert "is not the URL of a Redis" in found.action
        assert "secret" not in f"{found} {error}"

    def test_one_that_was_flushed_and_cannot_be_found(self) -> None:
        CounterSource.objects.create(
            source="gone", slot=0, seen="", timeline="", seen_at=clock.now()
        )
        (found,) = [one for one in of_redis() if one.subject == "gone"]
        assert found.needed
        assert "cannot be found to flush it: there is no cache 'gone'" in found.action


@pytest.mark.django_db
class TestTables:
    @changes_schema
    @pytest.mark.parametrize(
        "table", ["django_counters_countersource", "django_counters_counterhold"]
    )
    def test_one_that_is_missing_is_named(self, table: str) -> None:
        with renamed(table):
            (found,) = examine()
        assert found.action == f"default does not have the {table}: run manage.py migrate"


@pytest.mark.django_db
def test_incidents_are_shown_for_a_week() -> None:
    record(CounterIncident.Kind.LOST, "default [1]", {"generations": ["x"]}, "default")
    record(CounterIncident.Kind.LOST, "default [2]", {"generations": ["y"]}, "default")
    (found,) = examine()
    assert (found.subject, found.needed) == ("incidents", True)
    assert found.action.startswith("increments were lost by Redis: 2 in 7 days, the last at 20")
    CounterIncident.objects.update(found_at=clock.now() - timedelta(days=8))
    assert examine() == []


@pytest.mark.django_db(transaction=True)
class TestHowItIsSetUp:
    def codes(self) -> list[str]:
        found = run_checks(include_deployment_checks=True)
        ours = [(one.id or "").removeprefix("counters.") for one in found]
        return [code for code in ours if code in ("W012", "W013", "W014", "W015")]

    def test_what_may_lose_increments_is_warned_of(self, server: Any) -> None:
        server.config_set("maxmemory-policy", "allkeys-lru")
        assert self.codes() == ["W012", "W013"]
        assert not [one for one in run_checks() if "W013" in (one.id or "")]
        server.config_set("maxmemory-policy", "volatile-ttl")
        assert self.codes() == ["W013"]
        server.config_set("appendonly", "yes")
        assert self.codes() == []
        # While it writes the first one it would not end.
        server.config_set("appendonly", "no")

    def test_the_doctor_says_the_same_from_the_first_flush_on(self, server: Any) -> None:
        server.config_set("maxmemory-policy", "allkeys-random")
        assert of_redis() == []
        flush()
        policy, aof = of_redis()
        assert policy.needed
        assert "its policy is allkeys-random" in policy.action
        assert "it has no AOF" in aof.action
        with override_settings(SILENCED_SYSTEM_CHECKS=["counters.W013"]):
            assert of_redis() == [policy]

    def test_one_that_may_not_be_asked(self, server: Any) -> None:
        Counter.objects.increment("views:a")
        server.execute_command("ACL", "SETUSER", "default", "-info")
        assert self.codes() == ["W014"]
        (found,) = of_redis()
        assert found.needed
        # Counting there is refused as well.
        assert found.action.startswith("it cannot be asked: NOINFO")

    def test_versions(self) -> None:
        class Pending:
            name = "r"

            def __init__(self, version: str) -> None:
                self.version = version

            together = True

            def waiting(self) -> None:
                pass

            def information(self, section: str) -> dict[str, str]:
                return {"redis_version": self.version} if section == "server" else {}

        old = {"6.0.20": True, "6.2.0": False, "7.2.4": False, "10.0.1": False}
        for version, warned in old.items():
            pending: Any = Pending(version)
            assert [code for code, _ in weaknesses(pending)] == ["W015"] * warned


@pytest.mark.postgresql
@pytest.mark.django_db
def test_entries_of_cached_counters_need_partitions() -> None:
    while (partitions_ahead("default") or 0) > 1:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE "{SqlPartitions("default").present()[-1].name}"')
    with override_counters(views=CACHED):
        (found,) = checks.check_databases(databases=["default"])
        advice = [finding.action for finding in examine()]
    assert found.id == "counters.W011"
    assert any("1 partitions ahead" in action for action in advice)


class TestWhereItIsDeclared:
    def problems(self) -> list[str]:
        found = checks.check_caches()
        assert {one.id for one in found} <= {"counters.E021"}
        assert all(one.hint == HINTS["E021"] for one in found)
        return [str(one.msg) for one in found]

    def test_a_cache_that_cannot_count(self) -> None:
        odd = {"BACKEND": DJANGO, "LOCATION": "redis://a", "OPTIONS": {"hots": 1}}
        caches = {**settings.CACHES, "default": {"BACKEND": "a.b"}, "odd": odd}
        views = {"STRATEGY": "cached", "CACHE": "odd"}
        with override_settings(CACHES=caches), override_counters(views=views):
            said = self.problems()
        assert all(" cannot be cached there: " in each for each in said)
        # The default is that of a field.
        for problem in ("'default' is not a Redis but a.b", "these options"):
            assert any(problem in each for each in said)
        assert len(said) == 2

    def test_where_the_settings_are_wrong_it_says_nothing(self) -> None:
        with override_settings(COUNTERS={"a": {"STRATEGY": "cashed"}}):
            assert checks.check_caches() == []
            assert checks.check_servers() == []

    def test_redis_py_is_needed_where_something_is_cached(self) -> None:
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_REDIS_PY],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        exact, cached = run.stdout.splitlines()
        assert exact == "nothing"
        needs = (
            "COUNTERS['views'] cannot be cached there: cached counters need redis-py: pip install"
        )
        assert cached.startswith(needs)


WITHOUT_REDIS_PY = """
import sys
sys.modules["redis"] = None
import django
from django.conf import settings
cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://a"}
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_counters"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    CACHES={"default": cache},
)
django.setup()
from django.core.checks import run_checks
from django.test import override_settings
for strategy in ("exact", "cached"):
    with override_settings(COUNTERS={"views": {"STRATEGY": strategy}}):
        found = [one.msg for one in run_checks() if one.id.startswith("counters")]
    print(*found or ["nothing"])
"""
