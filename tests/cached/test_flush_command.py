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

from django_counters.cached.flush import FlushReport
from django_counters.cached.sources import slots_of, sources
from django_counters.models import Counter
from django_counters.redis.keys import SLOTS
from django_counters.testing import override_counters
from django_counters.types import INT8
from tests.cached.test_metrics import NOBODY
from tests.redis.counting import eventually
from tests.upkeep.test_command import output

pytestmark = pytest.mark.django_db(transaction=True)


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
        said = json.loads(output("flush", "--json"))
        assert list(said) == ["database", *(field.name for field in fields(FlushReport))]
        assert (said["database"], said["counters"], said["generations"]) == ("default", 0, 0)

    def test_it_flushes_also_where_another_one_is_at_work(self) -> None:
        Counter.objects.increment("views:a")
        (pending,) = sources("default")
        with pending.flight() as alone:
            assert alone
            assert output("flush").startswith("1 counters changed")

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
        slots = slots_of("default", cached)
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.delete(*(slots.keys(slot)[0] for slot in range(SLOTS)))
        _, complaint = failed()
        assert f"{SLOTS} incidents: lost: default [0]" in complaint
        assert output("flush") == "0 counters changed by 0 generations"


class TestNothingToFlush:
    def test_a_redis_that_is_away_fails_it(self) -> None:
        with override_settings(CACHES=NOBODY), override_counters(views={"STRATEGY": "cached"}):
            said, complaint = failed("--json")
        assert list(json.loads(said)["away"]) == ["default"]
        assert complaint.startswith("default was not flushed: ")

    def test_a_loop_needs_a_pause(self) -> None:
        for seconds in ("0", "-1", "x", "nan", "inf", "86401"):
            with pytest.raises(CommandError, match="isn't a number of seconds"):
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


def looped(*options: str, **streams: Any) -> list[dict[str, Any]]:
    """What a loop prints until it is asked to end."""
    out = StringIO()
    call_command("counters", "flush", "--loop=0.02", "--json", *options, stdout=out, **streams)
    return [json.loads(line) for line in out.getvalue().splitlines()]


# Waiting for a row from a thread needs a database that another connection can read.
@pytest.mark.many_writers
@pytest.mark.usefixtures("cached")
class TestLoop:
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_it_goes_on_when_the_database_is_back(self) -> None:
        Counter.objects.increment("views:a", using="other")
        other, errors = connections["other"], StringIO()
        other.close()
        host, other.settings_dict["HOST"] = other.settings_dict["HOST"], "/nonexistent"

        def back_and_landed() -> bool:
            if errors.getvalue():
                other.settings_dict["HOST"] = host
            landed = Counter.objects.using("other").filter(key="views:a", value=1)
            return bool(errors.getvalue()) and landed.exists()

        try:
            with ended_when(back_and_landed):
                said = looped("--database=other", stderr=errors)
        finally:
            other.settings_dict["HOST"] = host
            other.close()
        assert "/nonexistent" in errors.getvalue()
        assert sum(one["counters"] for one in said) == 1

    def test_what_is_wrong_is_said_and_it_goes_on(self) -> None:
        Counter.objects.create(key="views:full", value=INT8[1])
        Counter.objects.increment_many({"views:full": 7})
        errors = StringIO()
        with ended_when(lambda: bool(errors.getvalue())):
            said = looped(stderr=errors)
        assert errors.getvalue() == "1 could not be landed: views:full: 7\n"
        assert said[0]["quarantined"] == {"views:full": 7}
