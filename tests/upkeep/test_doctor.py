"""The doctor: what waits where, and whether it belongs there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core import management
from django.core.management import call_command, get_commands
from django.test.utils import override_settings

from django_counters.exceptions import LedgerFenced
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterIncident,
    CounterShard,
    SlottedCounter,
)
from django_counters.stores.sql import guard
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from django_counters.upkeep.doctor import Finding, examine, of_ledger
from django_counters.upkeep.ledger import rebase, state
from django_counters.upkeep.rollup import rollup
from tests.testapp.models import Post, Song

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _new_content_types() -> Iterator[None]:
    """A number that was rolled back may be used again, for another model."""
    ContentType.objects.clear_cache()
    yield
    ContentType.objects.clear_cache()


def test_nothing_is_found_where_nothing_waits() -> None:
    Counter.objects.increment("a")
    assert examine() == []


def test_a_guard_that_is_gone_is_found() -> None:
    guard.remove("default")
    (found,) = examine()
    assert (found.subject, found.needed) == ("adjustments", True)
    assert found.command == "manage.py migrate"
    assert "missing" in found.action
    guard.make("default")
    assert examine() == []


def test_what_waits_where_it_belongs_needs_nothing() -> None:
    with override_counters(likes={"STRATEGY": "sharded"}):
        for number in range(3):
            Counter.objects.increment("likes:a", shard_key=number)
        Counter.objects.increment("likes:b")
        song = Song.objects.create()
        song.plays.increment()
        SlottedCounter.objects.increment(song, "downloads")
        rows = CounterShard.objects.count()
        assert set(examine()) == {
            Finding("likes", "sharded", rows, 2),
            Finding("slots of testapp.Song.downloads", "slotted", 1, 1),
            Finding("slots of testapp.Song.plays", "slotted", 1, 1),
        }


def test_what_is_left_by_a_change_of_strategy_has_to_be_folded() -> None:
    with override_counters(likes={"STRATEGY": "sharded"}):
        Counter.objects.increment("likes:a")
    CounterShard.objects.increment("plain")
    SlottedCounter.objects.increment(Post.objects.create(), "views")
    found = {finding.subject: finding for finding in examine()}
    assert set(found) == {"(no namespace)", "likes", "slots of testapp.Post.views"}
    assert {finding.strategy for finding in found.values()} == {"exact"}
    assert "sharded" in found["likes"].action
    assert "counters rollup" in found["likes"].action
    assert "slotted" in found["slots of testapp.Post.views"].action
    assert {finding.command for finding in found.values()} == {"manage.py counters rollup"}
    rollup()
    assert examine() == []


def test_namespaces_are_told_apart() -> None:
    many = {"a:1": 1, "a:2": 1, "ab:1": 1, ":x": 1, "a": 1, "größe:Ω": 1, "a:b:c": 1}
    for key in many:
        CounterShard.objects.increment(key)
    found = {finding.subject: (finding.rows, finding.counters) for finding in examine()}
    assert found == {"(no namespace)": (2, 2), "a": (3, 3), "ab": (1, 1), "größe": (1, 1)}


def test_rolled_up_totals_are_not_waiting() -> None:
    SlottedCounter.objects.increment(Song.objects.create(), "downloads")
    rollup()
    assert SlottedCounter.objects.exists()
    assert examine() == []


def test_slots_of_a_model_that_is_gone() -> None:
    kind = ContentType.objects.create(app_label="gone", model="nothing")
    SlottedCounter.objects.create(record_type=kind, record_id="1", name="a", slot=0, count=5)
    (finding,) = examine()
    assert finding.subject == "gone.nothing.a"
    assert "the model is gone" in finding.action
    # Without the option Django does nothing about an app that is not installed.
    assert finding.command == "manage.py remove_stale_contenttypes --include-stale-apps"


def test_slots_of_a_model_that_is_gone_from_an_app_that_is_there() -> None:
    kind = ContentType.objects.create(app_label="testapp", model="nothing")
    SlottedCounter.objects.create(record_type=kind, record_id="1", name="a", slot=0, count=5)
    (finding,) = examine()
    assert finding.command == "manage.py remove_stale_contenttypes"
    call_command("remove_stale_contenttypes", interactive=False, verbosity=0)
    assert examine() == []


def test_a_command_stands_in_the_line_and_is_one_that_there_is() -> None:
    CounterShard.objects.increment("a")
    kind = ContentType.objects.create(app_label="gone", model="nothing")
    SlottedCounter.objects.create(record_type=kind, record_id="1", name="a", slot=0, count=5)
    record(CounterIncident.Kind.DRIFT, "a", {"expected": 1, "found": 2}, "default")
    record(CounterIncident.Kind.OVERFLOW, "b", {}, "default")
    commands = []
    for finding in examine():
        assert finding.needed
        assert finding.command in finding.action
        commands += [finding.command.split()] if finding.command else []
    assert ["manage.py", "counters", "verify"] in commands
    for _, name, *arguments in commands:
        assert name in get_commands()
        management.load_command_class(get_commands()[name], name).create_parser(
            "manage.py", name
        ).parse_args(arguments)


@pytest.mark.django_db(transaction=True)
def test_a_ledger_that_came_from_elsewhere_has_its_command() -> None:
    CounterDelta.objects.append("a", 1)
    rebase()
    fenced = replace(state(), fenced="The ledger is another one: run manage.py counters rebase.")
    (finding, *_) = of_ledger(fenced)
    assert finding.command == "manage.py counters rebase"
    assert finding.command in str(LedgerFenced(using="default", reason="moved"))


def test_wrong_settings_come_first() -> None:
    CounterShard.objects.increment("a")
    with override_settings(COUNTERS={"likes": {"STRATEGY": "shardet"}}):
        (finding,) = examine()
    assert "unknown strategy 'shardet'" in finding.action
    assert finding.command == "manage.py check"
    assert finding.command in finding.action


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    CounterShard.objects.increment("a", using="other")
    assert examine() == []
    assert [finding.rows for finding in examine("other")] == [1]
