"""How old what regions have of each other is, and what the doctor says of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters.contrib.regions import sql as stored
from django_counters.contrib.regions.sql import store_of
from django_counters.contrib.regions.state import Exchange, exchanged, inquired
from django_counters.features import Finding, Verdict
from django_counters.metrics.doctor import examine, facts_of
from django_counters.metrics.facts import PARTS
from django_counters.models import CounterPosition
from django_counters.registry import registry
from django_counters.tables.schema import databases
from tests.regions.regions import EU, US, Region, _regional, exchange  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])
commits = pytest.mark.django_db(transaction=True, databases=["default", "other"])
PUBLISH, PULL = "manage.py counters upkeep publish", "manage.py counters upkeep pull"


def seen(region: Region) -> Exchange:
    found: Exchange = region.within(exchanged)
    return found


def ages(region: Region) -> dict[str, float | None]:
    """Whole minutes: a test may take seconds."""
    return {name: age and age // 60 for name, age in seen(region).seconds.items()}


def needed(region: Region) -> dict[str, str]:
    """The command of each finding about regions that needs somebody, by its subject."""
    found: list[Finding] = region.within(examine)
    about = [finding for finding in found if finding.subject.startswith("region ")]
    assert all(finding.command in finding.action for finding in about)
    return {finding.subject: finding.command for finding in about if finding.needed}


class TestAges:
    def test_never_before_it_was_done(self) -> None:
        assert ages(EU) == {"eu": None, "us": None}
        # There is nothing to copy of a region that has published nothing.
        EU.pull()
        assert ages(EU) == {"eu": None, "us": None}

    def test_what_brought_nothing_new_was_done_nevertheless(self) -> None:
        EU.count("likes:x")
        exchange(EU, US)
        EU.pass_time(3600)
        assert ages(EU) == {"eu": 60, "us": 60}
        assert EU.publish().entries == EU.pull()["us"].entries == 0
        assert ages(EU) == {"eu": 0, "us": 0}

    def test_cursors_are_not_touched_by_it(self) -> None:
        """What a peer says after a restore of when it has last copied something stays true."""
        EU.count("likes:x")
        exchange(EU, US)
        cursors = CounterPosition.objects.using("other").filter(source="region eu")
        before = list(cursors.values())
        US.pass_time(3600)
        US.pull()
        (after,) = cursors.values()
        assert {**after, "moved_at": None} == {**before[0], "moved_at": None}
        assert (before[0]["moved_at"] - after["moved_at"]).total_seconds() == 3600

    def test_a_clock_that_was_set_back(self) -> None:
        exchange(EU, US)
        EU.pass_time(-86_400)
        assert ages(EU) == {"eu": 0, "us": 0}

    def test_a_region_that_was_restored_is_not_up_to_date(self) -> None:
        backup = EU.backup()
        EU.count("likes:x")
        exchange(EU, US)
        US.pass_time(3600)
        EU.restore(backup)
        assert "eu was restored" in US.pull()["eu"].problem
        assert ages(US)["eu"] == 60
        EU.fence()
        exchange(EU, US)
        assert ages(US)["eu"] == 0
        assert seen(EU).incarnation == 2

    def test_one_that_does_not_come_to_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(4):
            EU.count(f"likes:{number}")
        monkeypatch.setattr(stored, "_PAGE", 2)
        store, calls = store_of("default"), 0
        publish = store.publish

        def fail_once(*given: Any) -> int:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise RuntimeError("no more")
            return publish(*given)

        monkeypatch.setattr(store, "publish", fail_once)
        with pytest.raises(RuntimeError):
            EU.publish()
        assert ages(EU)["eu"] is None
        EU.publish()
        assert ages(EU)["eu"] == 0

    def test_regions_that_nobody_copies_any_more(self) -> None:
        US.count("likes:x")
        exchange(US, EU)
        with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={}):
            found = exchanged("default")
        assert (found.peers, found.strangers) == ((), ("us",))


def closing_all(work: Callable[[], Any]) -> Any:
    """Do something in a thread that is not heard of again."""
    try:
        return work()
    finally:
        connections.close_all()


@pytest.mark.many_writers
@commits
def test_while_somebody_else_does_it_nothing_is_done() -> None:
    """The other one may not come to its end."""
    EU.count("likes:x")
    exchange(EU, US)
    EU.pass_time(3600)
    with transaction.atomic():
        for source in ("region eu", "region us"):
            assert registry.positions("default").hold(source, "1") is not None
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(closing_all, EU.publish).result(30).busy
            assert pool.submit(closing_all, EU.pull).result(30)["us"].busy
    assert ages(EU) == {"eu": 60, "us": 60}


class TestWhoIsAsked:
    def test_one_query_and_no_other_region(self) -> None:
        EU.count("likes:x")
        exchange(EU, US)
        with (
            EU.settings(),
            CaptureQueriesContext(connection) as here,
            CaptureQueriesContext(connections["other"]) as there,
        ):
            assert exchanged("default").region == "eu"
            assert len(here) == 1
            facts_of("default", *PARTS)
        assert len(there) == 0

    def test_a_site_without_regions_pays_nothing(self) -> None:
        with (
            override_settings(COUNTERS_REGION=None),
            CaptureQueriesContext(connection) as queries,
        ):
            assert exchanged("default") == Exchange()
        assert len(queries) == 0
        assert Exchange().seconds == {}

    def test_the_database_of_another_region_is_none_of_this_one(self) -> None:
        exchange(EU, US)
        with EU.settings():
            assert databases() == ["default"]
            assert exchanged("other") == Exchange()
        with override_settings(COUNTERS_REGION="eu"):
            assert databases() == ["default", "other"]

    def test_another_database_of_this_region(self) -> None:
        with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={}):
            assert exchanged("default").region == "eu"
            assert exchanged("other") == Exchange()


@commits
class TestTheDoctor:
    def test_what_was_never_done_and_what_is_late(self) -> None:
        assert needed(EU) == {"region eu": PUBLISH, "region us": PULL}
        exchange(EU, US)
        assert needed(EU) == {}
        EU.pass_time(59)
        exchange(EU)
        EU.pass_time(55)
        assert needed(EU) == {}
        EU.pass_time(6)
        assert needed(EU) == {"region eu": PUBLISH, "region us": PULL}

    def test_a_region_that_was_restored(self) -> None:
        EU.count("likes:x")
        backup = EU.backup()
        exchange(EU, US)
        EU.restore(backup)
        registry.positions("default").touch("region", "eu")
        registry.positions("default").touch("region", "us")
        assert needed(EU) == {"region eu": "manage.py counters regions fence"}
        EU.fence()
        assert needed(EU) == {}

    def test_what_is_information(self) -> None:
        US.count("likes:x")
        exchange(US, EU)
        with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={}):
            (finding,) = examine()
        assert (finding.subject, finding.verdict) == ("region us", Verdict.WARN)
        assert "COUNTERS_REGIONS" in finding.action

    def test_wrong_settings(self) -> None:
        with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={"us": "nowhere"}):
            (finding,) = examine()
        assert (finding.subject, finding.needed) == ("settings", True)
        assert "'us' is neither an alias" in finding.action

    @pytest.mark.many_writers
    def test_a_peer_that_is_away_and_one_that_does_not_answer(self) -> None:
        exchange(EU, US)
        with at("127.0.0.1", 1):
            (finding,) = EU.within(examine)
        assert (finding.subject, finding.verdict) == ("region us", Verdict.WARN)
        assert "unavailable: " in finding.action
        with socket.create_server(("127.0.0.1", 0)) as mute, at(*mute.getsockname()):
            began = time.monotonic()
            (peer,) = EU.within(lambda using: inquired(exchanged(using), using, 0.2)).peers
            assert time.monotonic() - began < 30
            # It waits for the server, which hangs up now.
            mute.accept()[0].close()
            for thread in threading.enumerate():
                if thread.name == "django_counters-regions":
                    thread.join(30)
                    assert not thread.is_alive()
        assert "within 0 s" in peer.problem


@contextmanager
def at(host: str, port: int) -> Iterator[None]:
    """Let the database of the other region be elsewhere."""
    there = connections["other"].settings_dict
    before = {name: there[name] for name in ("HOST", "PORT")}
    there.update(HOST=host, PORT=port)
    try:
        yield
    finally:
        there.update(before)
