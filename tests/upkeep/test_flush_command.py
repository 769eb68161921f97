"""``manage.py counters flush``: what it prints, and when it fails."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from io import StringIO
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from django_counters.models import Counter, CounterSource
from django_counters.stores.redis.keys import SLOTS, Slots
from django_counters.stores.sql.batches import SqlBatches
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.upkeep.flush import Report
from django_counters.upkeep.sources import sources
from tests.stores.redis.counting import eventually
from tests.upkeep.test_command import Terminal, output

pytestmark = pytest.mark.django_db(transaction=True)
UNREACHABLE = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    }
}


def failed(*arguments: str) -> tuple[str, str]:
    """What it prints and complains of."""
    out = StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("counters", "flush", *arguments, stdout=out)
    return out.getvalue().strip(), str(caught.value)


@pytest.mark.usefixtures("cached")
class TestOnce:
    def test_it_says_what_it_did(self) -> None:
        Counter.objects.increment_many({"views:a": 3, "views:b": 1})
        said = output("flush")
        assert said.startswith("2 counters changed by ")
        assert said.endswith(" generations")
        assert Counter.objects.get(key="views:a").value == 3
        assert output("flush") == "0 counters changed by 0 generations"

    def test_json(self) -> None:
        Counter.objects.increment("views:a", 5)
        said = json.loads(output("flush", "--json"))
        assert list(said) == ["database", *(field.name for field in fields(Report))]
        assert (said["database"], said["counters"], said["generations"]) == ("default", 1, 1)

    def test_what_cannot_be_landed_is_named_and_fails_it(self) -> None:
        Counter.objects.create(key="views:full", value=INT8[1])
        Counter.objects.increment_many({"views:full": 7, "views:a": 1})
        said, complaint = failed("--json")
        assert json.loads(said)["quarantined"] == {"views:full": 7}
        assert complaint == "1 could not be landed: views:full: 7"
        assert Counter.objects.get(key="views:a").value == 1
        assert output("flush") == "0 counters changed by 0 generations"

    def test_what_redis_has_lost_is_said_once(self, cached: str) -> None:
        Counter.objects.increment("views:a")
        output("flush")
        Counter.objects.increment("views:a")
        slots = Slots("default", cached)
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.delete(*(slots.keys(slot)[0] for slot in range(SLOTS)))
        _, complaint = failed()
        assert f"{SLOTS} incidents: lost: default [0]" in complaint
        assert output("flush") == "0 counters changed by 0 generations"

    def test_it_flushes_also_where_another_one_is_at_work(self) -> None:
        Counter.objects.increment("views:a")
        (pending,) = sources("default")
        with pending.flight() as alone:
            assert alone
            assert output("flush").startswith("1 counters changed")

    def test_progress_is_for_people(self) -> None:
        Counter.objects.increment("views:a")
        terminal, file = Terminal(), StringIO()
        call_command("counters", "flush", stdout=StringIO(), stderr=terminal)
        call_command("counters", "flush", stdout=StringIO(), stderr=file)
        assert "0 transactions done, apply" in terminal.getvalue()
        assert "1 transactions done, acknowledged" in terminal.getvalue()
        assert terminal.getvalue().endswith("\r\x1b[K")
        assert file.getvalue() == ""


class TestNothingToFlush:
    def test_a_redis_that_is_away_fails_it(self) -> None:
        with override_settings(CACHES=UNREACHABLE), override_counters(views={"STRATEGY": "cached"}):
            said, complaint = failed("--json")
        assert list(json.loads(said)["away"]) == ["default"]
        assert complaint.startswith("default cannot be reached: ")

    def test_a_cache_that_is_no_redis_fails_it(self) -> None:
        views = {"STRATEGY": "cached", "CACHE": "nowhere"}
        with override_counters(views=views):
            _, complaint = failed()
        assert "there is no cache 'nowhere' in CACHES" in complaint

    @pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan", "inf", "86401"])
    def test_a_loop_needs_a_pause(self, seconds: str) -> None:
        with pytest.raises(CommandError, match="no number of seconds"):
            output("flush", f"--loop={seconds}")


@contextmanager
def ended_when(done: Callable[[], bool]) -> Iterator[None]:
    """Ask this process to end as soon as something is so that the loop brings about."""
    over = threading.Event()

    def ask() -> None:
        try:
            # Also where it never is, so that the test comes to its end.
            eventually(lambda: over.is_set() or done())
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            connections.close_all()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


def admit(*, everybody: bool) -> None:
    """Let new connections to the database of the test be refused, or not any more."""
    name = connections["default"].settings_dict["NAME"]
    with connections["other"].cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {str(everybody).lower()}')


def is_admitted() -> bool:
    with connections["other"].cursor() as cursor:
        name = connections["default"].settings_dict["NAME"]
        cursor.execute("SELECT datallowconn FROM pg_database WHERE datname = %s", [name])
        return bool(cursor.fetchone()[0])


def looped(**streams: Any) -> list[dict[str, Any]]:
    """What a loop prints until it is asked to end."""
    out = StringIO()
    call_command("counters", "flush", "--loop=0.02", "--json", stdout=out, **streams)
    return [json.loads(line) for line in out.getvalue().splitlines()]


# Waiting for a row from a thread needs a database that another connection can read.
@pytest.mark.postgres
@pytest.mark.usefixtures("cached")
class TestLoop:
    def landed(self, value: int) -> Callable[[], bool]:
        return Counter.objects.filter(key="views:a", value=value).exists

    def test_it_goes_on_until_it_is_asked_to_end(self) -> None:
        Counter.objects.increment("views:a")
        first = threading.Event()

        def both() -> bool:
            if self.landed(1)() and not first.is_set():
                first.set()
                Counter.objects.increment("views:a")
            return self.landed(2)()

        with ended_when(both):
            said = looped()
        assert len(said) >= 2
        assert sum(one["counters"] for one in said) == 2
        nothing = {"counters": 0, "generations": 0}
        assert {**said[0], **nothing} == {**said[1], **nothing}

    def test_without_json_it_is_silent_where_nothing_happens(self) -> None:
        Counter.objects.increment("views:a")
        out = StringIO()
        seen = Counter.objects.filter(key="views:a")
        with ended_when(seen.exists):
            call_command("counters", "flush", "--loop=0.02", stdout=out)
        assert out.getvalue() == "1 counters changed by 1 generations\n"

    def test_it_leaves_out_what_another_one_is_flushing(self) -> None:
        CounterSource.objects.all().delete()
        Counter.objects.increment("views:a")
        (pending,) = sources("default")
        out = StringIO()
        with pending.flight() as alone, ended_when(lambda: len(out.getvalue()) > 500):
            assert alone
            call_command("counters", "flush", "--loop=0.02", "--json", stdout=out)
        said = [json.loads(line) for line in out.getvalue().splitlines()]
        assert all(one["elsewhere"] == ["default"] for one in said)
        assert not Counter.objects.filter(key="views:a").exists()

    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_it_goes_on_when_the_database_is_back(self) -> None:
        Counter.objects.increment("views:a")
        errors = StringIO()

        def admitted_and_landed() -> bool:
            if len(errors.getvalue().splitlines()) > 1:
                admit(everybody=True)
            return bool(errors.getvalue()) and is_admitted() and self.landed(1)()

        admit(everybody=False)
        try:
            with ended_when(admitted_and_landed):
                said = looped(stderr=errors)
        finally:
            admit(everybody=True)
        first, second, *_ = errors.getvalue().splitlines()
        assert "not currently accepting connections" in first + second
        assert sum(one["counters"] for one in said) == 1

    def test_what_is_wrong_is_said_and_it_goes_on(self) -> None:
        Counter.objects.create(key="views:full", value=INT8[1])
        Counter.objects.increment_many({"views:full": 7})
        errors = StringIO()
        with ended_when(lambda: bool(errors.getvalue())):
            said = looped(stderr=errors)
        assert errors.getvalue() == "1 could not be landed: views:full: 7\n"
        assert said[0]["quarantined"] == {"views:full": 7}

    def test_it_finishes_the_flush_that_it_is_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Counter.objects.increment("views:a")
        claim = SqlBatches.claim

        def asked_meanwhile(self: SqlBatches, batches: Any) -> set[str]:
            os.kill(os.getpid(), signal.SIGTERM)
            return claim(self, batches)

        monkeypatch.setattr(SqlBatches, "claim", asked_meanwhile)
        (said,) = looped()
        assert (said["counters"], Counter.objects.get(key="views:a").value) == (1, 1)
        (pending,) = sources("default")
        assert not any(slot.open or slot.places for slot in pending.waiting())

    def test_signals_mean_what_they_meant_when_it_has_ended(self) -> None:
        def handlers() -> list[Any]:
            return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

        before = handlers()
        Counter.objects.increment("views:a")
        with ended_when(self.landed(1)):
            looped()
        assert handlers() == before
