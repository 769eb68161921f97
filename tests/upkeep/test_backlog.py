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
from django_counters.models import Counter, CounterIncident, CounterSource
from django_counters.stores.redis import keys
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.testing import override_counters
from django_counters.upkeep.backlog import weaknesses
from django_counters.upkeep.doctor import Finding, examine
from django_counters.upkeep.flush import flush
from django_counters.upkeep.partitions import partitions_ahead
from example_project.bootstrap import binaries, folders, valkey
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


@pytest.fixture
def server() -> Iterator[Any]:
    """A Redis of the test's own, in which cached counters are kept."""
    program = binaries.find_valkey()
    if program is None:
        pytest.skip("there is no Redis or Valkey here that a test can start")
    with folders.temporary(None) as run, valkey.running(program, run, None) as url:
        caches = {"default": {"BACKEND": DJANGO, "LOCATION": url}}
        client = redis.Redis.from_url(url)
        with override_settings(CACHES=caches), override_counters(views=CACHED):
            yield client
        client.close()


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
class TestWhatWaits:
    def test_it_is_a_finding_that_needs_nobody(self) -> None:
        Counter.objects.increment_many({"views:a": 1, "views:b": 1, "views:c": 1})
        found = with_wait()
        assert (found.subject, found.counters, found.needed, found.action) == (
            "default",
            3,
            False,
            "",
        )
        assert 1 <= found.rows <= 3
        assert found.lag is not None
        assert 0 <= found.lag < 60
        line = next(line for line in output("doctor").splitlines() if "wait" in line)
        assert line.startswith(
            f"default · cached · 3 counters in {found.rows} generations wait, for "
        )
        assert line.endswith(" s at most")
        flush()
        assert not [one for one in of_redis() if one.rows]

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
        with pytest.raises(CommandError, match="need somebody"):
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
            assert output("doctor").startswith("default · cached · it cannot be asked: ")
            with pytest.raises(CommandError, match="1 of these need"):
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

    def test_where_nothing_is_wrong_fail_ends_well(self) -> None:
        assert output("doctor", "--fail") == "Nothing waits, and nothing is wrong."


@pytest.mark.django_db
class TestTables:
    def test_one_that_is_missing_is_named(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_counters_countersource RENAME TO something_else")
        (found,) = examine()
        assert found.action == (
            "default does not have the django_counters_countersource: run manage.py migrate"
        )

    @pytest.mark.postgres
    def test_before_the_first_migrate(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path TO pg_temp")
        said = output("doctor")
        assert said == "database · default does not have the tables: run manage.py migrate"


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
        server.config_set("maxmemory-policy", "volatile-ttl")
        assert self.codes() == ["W013"]
        server.config_set("appendonly", "yes")
        assert self.codes() == []
        # While it writes the first one it would not end.
        server.config_set("appendonly", "no")

    def test_only_with_deploy(self, server: Any) -> None:
        assert self.codes() == ["W013"]
        assert not [one for one in run_checks() if "W013" in (one.id or "")]

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

    def test_one_that_cannot_be_asked(self) -> None:
        with override_settings(CACHES=NOBODY), override_counters(views=CACHED):
            assert self.codes() == ["W014"]

    def test_one_that_may_not_be_asked(self, server: Any) -> None:
        Counter.objects.increment("views:a")
        server.execute_command("ACL", "SETUSER", "default", "-info")
        assert self.codes() == ["W014"]
        (found,) = of_redis()
        assert found.needed
        # Counting there is refused as well.
        assert found.action.startswith("it cannot be asked: NOINFO")

    @pytest.mark.parametrize(
        ("version", "old"),
        [("6.0.20", True), ("6.2.0", False), ("7.2.4", False), ("10.0.1", False)],
    )
    def test_versions(self, version: str, old: bool) -> None:
        class Pending:
            name = "r"

            def information(self, section: str) -> dict[str, str]:
                return {"redis_version": version} if section == "server" else {}

        pending: Any = Pending()
        assert [code for code, _ in weaknesses(pending)] == ["W015"] * old


@pytest.mark.postgres
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
        assert all("counters-e021" in (one.hint or "") for one in found)
        return [str(one.msg) for one in found]

    def test_nothing_is_wrong(self) -> None:
        with override_counters(views=CACHED):
            assert self.problems() == []

    @pytest.mark.parametrize(
        ("declared", "problem"),
        [
            ({"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}, "is not a Redis but"),
            ({"BACKEND": DJANGO, "LOCATION": "memcached://a"}, "has no URL of a Redis"),
            (
                {
                    "BACKEND": "django_redis.cache.RedisCache",
                    "LOCATION": ["redis://a", "redis://b"],
                    "OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"},
                },
                "cannot count in one atomic step",
            ),
            ({"BACKEND": DJANGO, "LOCATION": "redis://a", "OPTIONS": {"hots": 1}}, "these options"),
        ],
    )
    def test_a_cache_that_cannot_count(self, declared: dict[str, Any], problem: str) -> None:
        caches = {**settings.CACHES, "odd": declared}
        views = {"STRATEGY": "cached", "CACHE": "odd"}
        with override_settings(CACHES=caches), override_counters(views=views):
            (said,) = self.problems()
        assert said.startswith("Counters cannot be cached there: ")
        assert problem in said

    def test_fields_declare_it_too(self) -> None:
        with override_settings(CACHES={"default": {"BACKEND": "a.b"}}):
            (said,) = self.problems()
        assert "'default' is not a Redis but a.b" in said

    def test_where_the_settings_are_wrong_it_says_nothing(self) -> None:
        with override_settings(COUNTERS={"a": {"STRATEGY": "cashed"}}):
            assert checks.check_caches() == []
            assert checks.check_servers() == []

    @pytest.mark.parametrize("strategy", ["cached", "exact"])
    def test_redis_py_is_needed_where_something_is_cached(self, strategy: str) -> None:
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_REDIS_PY, strategy],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        needs = "Counters cannot be cached there: cached counters need redis-py: pip install"
        assert run.stdout.strip().startswith(needs if strategy == "cached" else "[]")


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
    COUNTERS={"views": {"STRATEGY": sys.argv[1]}},
)
django.setup()
from django.core.checks import run_checks
found = [one for one in run_checks() if one.id.startswith("counters")]
print(*(one.msg for one in found) if found else found or ["[]"])
"""
