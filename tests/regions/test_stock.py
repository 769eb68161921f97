"""Each region takes from a stock of its own, and stock moves between them: none is sold twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import override_settings

from django_counters.contrib.regions import transfers
from django_counters.contrib.regions.errors import RegionAway, RegionRestored, UnsupportedRegions
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.sql import Incarnation, SqlRegions, store_of
from django_counters.contrib.regions.transfers import receive, shares
from django_counters.errors import InsufficientCount, InvalidDelta, InvalidKey
from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterIncident,
)
from django_counters.testing import override_counters
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture
from tests.regions.serving import _reached  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])
#: How the name of what is on the way from the first region to the second one begins.
SENT = "counters.sent:us.1<eu:"


@pytest.fixture(autouse=True)
def _published(regional: None, reached: None) -> None:
    """Nobody sends anything before it was asked whether its region was restored."""
    exchange(EU, US)


class TestTransfers:
    @pytest.mark.parametrize("key", ["stock:x", "seats:x"])
    def test_what_one_region_has_less_another_one_has_more(self, key: str) -> None:
        EU.count(key, 100)
        assert EU.send(key, 40, US) == 60
        exchange(EU, US)
        assert [region.value(key, region.name) for region in (EU, US)] == [60, 40]
        exchange(EU, US)
        assert EU.value(key) == US.value(key) == 100
        EU.sell(key, 60)
        US.sell(key, 40)
        for region in (EU, US):
            with pytest.raises(InsufficientCount):
                region.sell(key)

    def test_it_arrives_once_however_often_it_is_copied(self) -> None:
        EU.count("stock:x", 10)
        EU.send("stock:x", 4, US)
        EU.publish()
        assert US.pull()["eu"].received == 4
        for _ in range(3):
            exchange(EU, US)
            assert US.pull()["eu"].received == 0
        EU.send("stock:x", 5, US)
        EU.publish()
        assert US.pull()["eu"].received == 5
        assert US.value("stock:x", "us") == 9

    def test_it_comes_and_goes(self) -> None:
        EU.count("stock:x", 10)
        for sender, receiver in [(EU, US), (US, EU), (EU, US)]:
            sender.send("stock:x", 10, receiver)
            exchange(EU, US)
        exchange(EU, US)
        assert [region.value("stock:x", region.name) for region in (EU, US)] == [0, 10]
        assert EU.value("stock:x") == US.value("stock:x") == 10

    def test_what_is_on_the_way_is_a_counter(self) -> None:
        EU.count("stock:x", 10)
        EU.send("stock:x", 4, US)
        assert EU.value("counters.sent:us.1<eu:stock:x") == 4
        exchange(EU, US)
        exchange(EU, US)
        assert EU.value("counters.sent:us.1<eu:stock:x") == 0

    def test_nobody_sends_what_he_does_not_have(self) -> None:
        EU.count("stock:x", 3)
        with pytest.raises(InsufficientCount):
            EU.send("stock:x", 4, US)
        exchange(EU, US)
        assert EU.value("stock:x", "eu") == 3
        assert US.value("stock:x", "us") == 0

    def test_a_token_sends_once(self) -> None:
        EU.count("stock:x", 10)
        first = EU.send("stock:x", 4, US, token="order 7")
        again = EU.send("stock:x", 4, US, token="order 7")
        assert (first, first.replayed) == (6, False)
        assert (again, again.replayed) == (6, True)

    def test_it_is_rolled_back_with_the_transaction(self) -> None:
        EU.count("stock:x", 10)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            EU.send("stock:x", 4, US)
            raise ZeroDivisionError
        exchange(EU, US)
        assert EU.value("stock:x", "eu") == 10
        assert US.value("stock:x", "us") == 0

    def test_bad_input_changes_nothing(self) -> None:
        EU.count("stock:x", 10)
        with pytest.raises(InvalidDelta, match="above zero"):
            EU.send("stock:x", 0, US)
        with pytest.raises(InvalidDelta, match="above zero"):
            EU.send("stock:x", -3, US)
        with pytest.raises(UnsupportedRegions, match="It has: us"):
            EU.send("stock:x", 3, EU)
        with pytest.raises(UnsupportedRegions, match="FLOOR"):
            EU.send("likes:x", 3, US)
        with pytest.raises(UnsupportedRegions, match="FLOOR"):
            EU.send("plain:x", 3, US)
        with pytest.raises(InvalidKey):
            EU.send("stock:" + 190 * "x", 3, US)
        assert EU.value("stock:x", "eu") == 10

    def test_a_server_that_was_started_asks_first(self) -> None:
        EU.count("stock:x", 10)
        EU.restore(EU.backup())
        with pytest.raises(RegionAway, match="has not published since"):
            EU.send("stock:x", 3, US)
        EU.publish()
        assert EU.send("stock:x", 3, US) == 7


class TestALyingRegion:
    """It may say anything about itself, and changes no counter here that is no stock."""

    @pytest.mark.parametrize("counter", ["likes:x", "plain:x", "nowhere:x", "plain", ""])
    def test_what_is_no_stock_is_not_credited(self, counter: str) -> None:
        EU.count(f"{SENT}{counter}", 500)
        EU.count("stock:x", 10)
        EU.send("stock:x", 4, US)
        exchange(EU, US)
        assert not counter or US.value(counter) == 0
        assert US.value("stock:x", "us") == 4
        (incident,) = CounterIncident.objects.using("other")
        assert (incident.kind, incident.subject) == ("quarantined", "stock from regions")
        assert list(incident.detail["counters"]) == [f"{SENT}{counter}"]
        exchange(EU, US)
        assert CounterIncident.objects.using("other").count() == 1

    @pytest.mark.parametrize("key", ["stock:x\n", "stock: x", "stock:e\u0301"])
    def test_a_key_that_is_none_stops_nothing(self, key: str) -> None:
        EU.count("stock:x", 10)
        EU.send("stock:x", 4, US)
        EU.count("likes:x", 7)
        EU.publish()
        for prefix in ("", SENT):
            made = {"region": "eu", "incarnation": 1, "value": 500, "version": 1}
            CounterRegion.objects.using("default").create(key=f"{prefix}{key}", **made)
        US.pull()
        assert (US.value("stock:x", "us"), US.value("likes:x")) == (4, 7)
        assert not CounterRegion.objects.using("other").filter(key__endswith=key).exists()
        (incident,) = CounterIncident.objects.using("other")
        assert (incident.kind, incident.subject) == ("quarantined", "region eu")
        assert sorted(incident.detail["keys"]) == sorted(map(ascii, [key, f"{SENT}{key}"]))

    def test_more_than_there_can_be_stops_nothing(self) -> None:
        for counter in ("stock:x", "stock:y"):
            EU.count(f"{SENT}{counter}", 2**63 - 1)
        EU.count("counters.sent:us.1<eu:stock:z", 4)
        US.count("stock:y", 1)
        exchange(EU, US)
        assert US.value("stock:z", "us") == 4
        assert US.value("stock:y", "us") == 1
        (incident,) = CounterIncident.objects.using("other")
        assert list(incident.detail["counters"]) == ["counters.sent:us.1<eu:stock:y"]

    def test_many_of_them_are_not_in_the_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transfers, "_STEP", 3)
        for number in range(10):
            EU.count(f"{SENT}plain:{number}")
        EU.count("counters.sent:us.1<eu:stock:x", 4)
        exchange(EU, US)
        assert US.value("stock:x", "us") == 4


class TestTopUp:
    def test_a_region_that_has_little_is_sent_half(self) -> None:
        EU.count("seats:x", 100)
        exchange(EU, US)
        assert EU.value("counters.sent:us.1<eu:seats:x") == 50
        exchange(EU, US)
        exchange(EU, US)
        assert [region.value("seats:x", region.name) for region in (EU, US)] == [50, 50]
        US.sell("seats:x", 41)
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("seats:x", "us") == 9 + 20

    def test_what_is_on_the_way_is_not_sent_again(self) -> None:
        EU.count("seats:x", 100)
        for _ in range(3):
            EU.publish()
            EU.pull()
        assert EU.value("counters.sent:us.1<eu:seats:x") == 50

    def test_the_report_says_what_moved(self) -> None:
        EU.count("seats:x", 100)
        EU.count("seats:y", 20)
        assert EU.pull()["us"].sent == 60
        EU.publish()
        assert US.pull()["eu"].received == 60

    def test_of_many_some_move_in_each_transaction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sale waits for as many at most."""
        monkeypatch.setattr(transfers, "_STEP", 2)
        keys = [f"seats:{name}" for name in ("a", "a!", "ab", "b", "é")]
        for key in keys:
            EU.count(key, 100)
        assert EU.pull()["us"].sent == 250
        EU.publish()
        assert US.pull()["eu"].received == 250
        assert [US.value(key, "us") for key in keys] == [50] * 5

    def test_other_stocks_stay_where_they_are(self) -> None:
        EU.count("stock:x", 100)
        EU.count("seats:x", 10)
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("stock:x", "us") == US.value("seats:x", "us") == 0

    @pytest.mark.parametrize(
        ("mine", "theirs", "given"),
        [
            (100, {"us": 0}, {"us": 50}),
            (100, {"us": 0, "ap": 0}, {"ap": 50, "us": 25}),
            (100, {"us": 9, "ap": 10}, {"us": 45}),
            (12, {"us": 9}, {"us": 1}),
            (11, {"us": 10}, {}),
            (10, {"us": 0}, {}),
            (50, {"us": 0, "ap": 51}, {}),
        ],
    )
    def test_shares(self, mine: int, theirs: dict[str, int], given: dict[str, int]) -> None:
        assert shares(mine, theirs, 10) == given


class TestRestores:
    def test_a_restored_stock_is_frozen_until_a_person_decides(self) -> None:
        EU.count("stock:x", 100)
        exchange(EU, US)
        backup = EU.backup()
        EU.sell("stock:x", 30)
        exchange(EU, US)
        EU.sell("stock:x", 50)
        EU.restore(backup)
        done = EU.fence()
        assert (done.frozen, done.stock) == (1, 100)
        with pytest.raises(InsufficientCount):
            EU.sell("stock:x")
        exchange(EU, US)
        assert EU.value("stock:x") == US.value("stock:x") == 0
        (kept,) = CounterAdjustment.objects.filter(key="stock:x")
        assert (kept.before, kept.after, kept.actor_name) == (100, 0, "counters regions fence")
        EU.within(Counter.objects.adjust, "stock:x", to=20, reason="Counted by hand.", actor="anna")
        EU.sell("stock:x")
        exchange(EU, US)
        assert EU.value("stock:x") == US.value("stock:x") == 19

    def test_what_was_sent_before_the_restore_does_not_arrive_after_it(self) -> None:
        """A receiver that is restored may have had it, and sold it."""
        EU.count("stock:x", 100)
        exchange(EU, US)
        backup = US.backup()
        EU.send("stock:x", 40, US)
        exchange(EU, US)
        US.sell("stock:x", 40)
        US.publish()
        EU.pull()
        US.restore(backup)
        with pytest.raises(RegionRestored):
            US.pull()
        US.fence()
        exchange(EU, US)
        assert US.value("stock:x", "us") == 0
        EU.send("stock:x", 5, US)
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("stock:x", "us") == 5
        assert EU.value("stock:x") == US.value("stock:x") == 60

    def test_what_nobody_knows_to_have_arrived_is_gone_too(self) -> None:
        """The receiver sold it, and was restored before anybody copied that."""
        EU.count("stock:x", 100)
        US.count("likes:x")
        exchange(EU, US)
        backup = US.backup()
        US.count("likes:x")
        exchange(EU, US)
        EU.send("stock:x", 40, US)
        EU.publish()
        assert US.pull()["eu"].received == 40
        US.sell("stock:x", 40)
        US.restore(backup)
        US.fence()
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("stock:x", "us") == 0
        assert EU.value("counters.sent:us.1<eu:stock:x") == 40

    def test_a_sender_that_is_restored_has_sent_what_others_know(self) -> None:
        EU.count("stock:x", 100)
        exchange(EU, US)
        backup = EU.backup()
        EU.send("stock:x", 40, US)
        exchange(EU, US)
        EU.restore(backup)
        EU.fence()
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("stock:x", "us") == 40
        EU.within(Counter.objects.adjust, "stock:x", to=60, reason="As it was.", actor="anna")
        EU.send("stock:x", 10, US)
        exchange(EU, US)
        exchange(EU, US)
        assert US.value("stock:x", "us") == 50
        assert EU.value("stock:x") == US.value("stock:x") == 100

    def test_what_nobody_has_copied_freezes_it_too(self) -> None:
        """It was sold between the last page and the end of the server: only a person knows."""
        EU.count("stock:x", 5)
        exchange(EU, US)
        backup = EU.backup()
        EU.sell("stock:x", 5)
        EU.restore(backup)
        done = EU.fence(restored=True)
        assert (done.restored, done.incarnation, done.frozen, done.stock) == (True, 2, 1, 5)
        with pytest.raises(InsufficientCount):
            EU.sell("stock:x")

    def test_who_has_waited_for_a_fence_brings_nothing_back(self) -> None:
        EU.count("stock:x", 10)
        EU.send("stock:x", 4, US)
        EU.publish()
        life = store_of(US.using).life()
        US.fence(restored=True)
        exchange(EU, US)
        assert US.within(partial(receive, Incarnation("us", 1), life)) == {}
        assert US.value("stock:x", "us") == 0

    def test_a_database_with_another_history_waits_for_a_person(self) -> None:
        EU.count("stock:x", 5)
        exchange(EU, US)
        EU.restore(EU.backup(), elsewhere=True)
        with pytest.raises(RegionRestored, match="another history"):
            EU.publish()
        with pytest.raises(RegionRestored, match="another history"):
            EU.pull()
        with pytest.raises(RegionAway):
            EU.send("stock:x", 1, US)
        with pytest.raises(RegionRestored, match="--restored or --intact"):
            EU.fence()
        assert not EU.fence(restored=False).restored
        exchange(EU, US)
        assert EU.send("stock:x", 1, US) == 4

    def test_nobody_is_intact_of_whom_others_know_more(self) -> None:
        EU.count("stock:x", 5)
        backup = EU.backup()
        exchange(EU, US)
        EU.restore(backup)
        with pytest.raises(RegionRestored, match="us has more"):
            EU.fence(restored=False)
        assert EU.value("stock:x") == 5

    def test_without_stock_another_history_is_nothing(self) -> None:
        with override_settings(COUNTERS={"likes": {"REGIONAL": True}}):
            EU.count("likes:x")
            exchange(EU, US)
            EU.restore(EU.backup(), elsewhere=True)
            exchange(EU, US)
            assert EU.value("likes:x") == US.value("likes:x") == 1

    def test_the_fence_needs_no_approval(self) -> None:
        with override_counters(stock={"REGIONAL": True, "FLOOR": 0, "APPROVE_ABOVE": 10}):
            EU.count("stock:x", 100)
            exchange(EU, US)
            backup = EU.backup()
            EU.sell("stock:x")
            exchange(EU, US)
            EU.restore(backup)
            EU.fence()
            assert EU.value("stock:x", "eu") == 0


def test_the_commands_say_what_moved(capsys: Any) -> None:
    EU.count("stock:x", 10)
    EU.send("stock:x", 4, US)
    EU.publish()
    with override_settings(COUNTERS_REGION="us", COUNTERS_REGIONS={"eu": "default"}):
        call_command("counters", "upkeep", "pull", database="other")
    assert capsys.readouterr().out.splitlines() == ["eu: 2 entries copied; 4 received"]


@pytest.mark.rare
@pytest.mark.skipif(connection.vendor == "sqlite", reason="one waits for the other in SQLite")
@pytest.mark.django_db(databases=["default", "other"], transaction=True)
def test_two_who_pull_at_once_receive_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes when the first one knows what is due."""
    exchange(EU, US)
    EU.count("stock:x", 10)
    EU.send("stock:x", 4, US)
    EU.publish()
    known, late = SqlRegions.above_zero, list[int]()

    def above_zero(store: SqlRegions, *args: Any) -> dict[str, int]:
        due = known(store, *args)
        if not late:
            late.append(-1)
            with ThreadPoolExecutor(1) as other:
                late[0] = other.submit(_pull_in_a_thread).result(timeout=30)
        return due

    monkeypatch.setattr(SqlRegions, "above_zero", above_zero)
    assert US.pull()["eu"].received == 4
    assert late == [0]
    assert US.value("stock:x", "us") == 4


def _pull_in_a_thread() -> int:
    try:
        return US.pull()["eu"].received
    finally:
        connections.close_all()
