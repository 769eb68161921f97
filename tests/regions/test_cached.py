"""Regional counters that wait in a Redis: nothing of it counts twice after a restore."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from django_counters import clock
from django_counters.cached.flush import FlushReport, Step, flush
from django_counters.contrib.regions.errors import RegionRestored
from django_counters.contrib.regions.reading import by_region
from django_counters.contrib.regions.state import exchanged
from django_counters.errors import UnsupportedReading
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.cached.test_flush import Killed, kill_at
from tests.cached.test_metrics import NOBODY
from tests.regions.regions import EU, TABLES, US, Region, _regional, exchange  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
KEY = "views:x"


@pytest.fixture(autouse=True)
def _views(cached: str, regional: None) -> Iterator[None]:
    """``views`` is cached and regional, in a Redis of this test. Both regions have published."""
    views = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "REGIONAL": True}
    with override_counters(views=views):
        for region in (EU, US):
            region.publish()
        yield


def land(region: Region, step: Step = lambda name: None) -> FlushReport:
    report: FlushReport = region.within(flush, step=step)
    return report


def once(wanted: str, act: Callable[[], object]) -> Step:
    """A step that acts when it comes to ``wanted`` for the first time."""
    todo = [act]

    def step(name: str) -> None:
        if name == wanted and todo:
            todo.pop()()

    return step


def land_and_die(region: Region, step: str) -> None:
    with pytest.raises(Killed):
        land(region, kill_at(step))


def values() -> tuple[int, int]:
    return EU.value(KEY), US.value(KEY)


def agree() -> int:
    """Land, publish and copy all; the value, which both have."""
    for region in (EU, US):
        assert not land(region).away
    exchange(EU, US)
    (value,) = set(values())
    return value


class TestValues:
    def test_here_at_once_and_elsewhere_when_they_have_landed(self) -> None:
        US.count(KEY, 10)
        assert agree() == 10
        EU.count(KEY, 5)
        assert values() == (15, 10)
        exchange(EU, US)
        assert values() == (15, 10)
        assert agree() == 15

    def test_of_each_region_and_of_several_counters(self) -> None:
        EU.count(KEY, 5)
        US.count(KEY, 2)
        EU.count("likes:x", 3)
        agree()
        EU.count(KEY, 100)
        with EU.settings():
            assert by_region(KEY, "default") == {"eu": 105, "us": 2}
            found = Counter.objects.values_of([KEY, "views:y", "likes:x"])
            assert found == {KEY: 107, "views:y": 0, "likes:x": 3}
        assert (EU.value(KEY, "eu"), EU.value(KEY, "us")) == (105, 2)

    def test_of_async_code(self) -> None:
        US.count(KEY, 2)
        agree()

        async def work() -> None:
            await Counter.objects.aincrement(KEY, 5)
            assert await Counter.objects.avalue(KEY) == 7
            assert await Counter.objects.avalues_of([KEY]) == {KEY: 7}
            with pytest.raises(UnsupportedReading):
                await Counter.objects.aread(KEY)
            await sync_to_async(connections.close_all)()

        with EU.settings():
            asyncio.run(work())

    def test_as_old_as_is_asked_for(self) -> None:
        US.count(KEY, 2)
        agree()
        EU.count(KEY, 5)
        found = EU.within(Counter.objects.value, KEY, consistency="cached", max_age=60)
        assert found == 7


class TestRestored:
    def test_what_had_landed_and_was_not_acknowledged(self) -> None:
        """The page says it, so it must not be in Redis when the database is put back."""
        EU.count(KEY, 1)
        agree()
        backup = EU.backup()
        EU.count(KEY, 5)
        land_and_die(EU, "acknowledge")
        exchange(EU, US)
        EU.restore(backup)
        EU.fence()
        assert agree() == 6

    def test_what_had_landed_and_was_not_published(self) -> None:
        EU.count(KEY, 1)
        agree()
        backup = EU.backup()
        EU.count(KEY, 5)
        land_and_die(EU, "acknowledge")
        EU.restore(backup)
        EU.fence()
        assert agree() == 6

    def test_what_waited_all_the_time(self) -> None:
        EU.count(KEY, 1)
        agree()
        backup = EU.backup()
        EU.count(KEY, 5)
        agree()
        EU.count(KEY, 30)
        EU.restore(backup)
        EU.fence()
        assert agree() == 36

    def test_what_is_in_the_backup_and_was_not_acknowledged(self) -> None:
        EU.count(KEY, 5)
        land_and_die(EU, "acknowledge")
        backup = EU.backup()
        EU.count(KEY, 30)
        exchange(EU, US)
        EU.restore(backup)
        EU.fence()
        assert agree() == 35

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_nothing_lands_before_somebody_has_asked_the_others(self, elsewhere: bool) -> None:
        EU.count(KEY, 1)
        agree()
        backup = EU.backup()
        EU.count(KEY, 5)
        agree()
        EU.count(KEY, 30)
        EU.restore(backup, elsewhere=elsewhere)
        (reason,) = land(EU).away.values()
        assert "its server was started" in reason
        with pytest.raises(RegionRestored):
            EU.publish()
        EU.fence()
        assert agree() == 36

    def test_a_server_that_was_started_goes_on_when_it_has_published(self) -> None:
        EU.count(KEY, 5)
        agree()
        EU.restore(EU.backup())
        EU.count(KEY, 30)
        assert land(EU).away
        EU.publish()
        assert agree() == 35

    def test_one_that_was_promoted_goes_on_when_somebody_has_said_so(self) -> None:
        EU.count(KEY, 5)
        agree()
        EU.restore(EU.backup(), elsewhere=True)
        EU.count(KEY, 30)
        assert land(EU).away
        # A person has to say so where there is stock.
        EU.fence(restored=False)
        assert agree() == 35

    def test_a_backup_from_before_its_first_publication(self) -> None:
        EU.count(KEY, 5)
        agree()
        EU.count(KEY, 30)
        EU.restore([(table, []) for table in TABLES])
        assert land(EU).away
        EU.fence()
        assert agree() == 35

    def test_who_has_read_something_before_does_not_land_it_after_the_fence(self) -> None:
        backup = EU.backup()
        EU.count(KEY, 5)

        def meanwhile() -> None:
            land(EU)
            exchange(EU, US)
            EU.restore(backup)
            EU.fence()

        assert land(EU, once("apply", meanwhile)).busy
        assert agree() == 5

    def test_counters_that_are_not_regional_land_in_any_history(self) -> None:
        with override_counters(views={"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}):
            EU.count(KEY, 5)
            exchange(EU, US)
            EU.restore(EU.backup(), elsewhere=True)
            assert not land(EU).away


class TestSettled:
    """What is published leaves Redis before others hear of it."""

    def test_what_has_not_landed_stays(self) -> None:
        EU.count(KEY, 5)
        land(EU)
        EU.count(KEY, 30)
        land_and_die(EU, "apply")
        assert EU.publish().entries == 1
        assert EU.value(KEY) == 35
        assert agree() == 35

    def test_redis_forgets_totals_that_it_would_get_wrong(self) -> None:
        """It has acknowledged what had been counted in another way before."""
        count = partial(EU.within, Counter.objects.increment, KEY, 5, token=mint(clock.utc()))
        read = partial(EU.within, Counter.objects.value, KEY, consistency="cached", max_age=60)
        with override_counters(views={"REGIONAL": True}):
            count()
        assert read() == 5
        count()
        land_and_die(EU, "acknowledge")
        assert EU.publish().entries == 1
        assert read() == 5


class TestWithoutRedis:
    def test_the_rest_is_published(self) -> None:
        EU.count(KEY, 5)
        EU.count("likes:x", 3)
        land(EU)
        EU.pass_time(60)
        with override_settings(CACHES=NOBODY):
            done = EU.publish()
        assert (done.entries, done.pages) == (1, 1)
        assert done.problem.startswith("views: ")
        with EU.settings():
            age = exchanged("default").published
        assert age is not None
        assert age >= timedelta(seconds=60)
        US.pull()
        assert (US.value("likes:x"), US.value(KEY)) == (3, 0)
        assert agree() == 5

    def test_the_command_says_so(self) -> None:
        EU.count(KEY, 5)
        land(EU)
        with (
            EU.settings(),
            override_settings(CACHES=NOBODY),
            pytest.raises(CommandError, match="views: "),
        ):
            call_command("counters", "upkeep", "publish")
