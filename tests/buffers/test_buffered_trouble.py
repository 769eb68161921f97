"""Buffers in outages, interrupts and the end of a process: each increment counts once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.contrib import buffers
from django_counters.contrib.buffers import buffer as module
from django_counters.contrib.buffers import pages
from django_counters.contrib.buffers.buffer import Buffer
from django_counters.contrib.buffers.pages import Serial
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.buffers.process import end
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.buffers.buffering import LATER, landed

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture(params=["exact", "sharded"])
def inner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _hits(inner: str) -> Iterator[None]:
    present.clear()
    hits = {"STRATEGY": inner, "BUFFER": LATER}
    full = {"STRATEGY": inner, "BUFFER": {**LATER, "most": 1}}
    with override_counters(hits=hits, full=full):
        yield
    present.clear()


@pytest.fixture
def lander() -> Any:
    return pages.InDatabase


def away(*_: Any) -> Any:
    raise CounterUnavailable(using="default", reason="away")


def buffer_of(key: str) -> Buffer:
    Counter.objects.increment(key)
    (found,) = [one for _, one in present.those_of() if key in one.entries]
    return found


def test_a_lost_answer_then_an_outage(lander: Any, monkeypatch: Any) -> None:
    land = lander.land

    def lose(*arguments: Any) -> None:
        land(*arguments)
        raise OutcomeUnknown(using="default")

    Counter.objects.increment("hits:home", 7)
    for broken, error in ((lose, OutcomeUnknown), (away, CounterUnavailable)):
        monkeypatch.setattr(lander, "land", broken)
        with pytest.raises(error):
            buffers.flush()
        assert Counter.objects.value("hits:home") == 7
    monkeypatch.setattr(lander, "land", land)
    buffers.flush()
    assert landed() == Counter.objects.value("hits:home") == 7


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
def test_a_page_whose_history_is_forgotten_is_put_aside() -> None:
    """It was sent so long ago that nobody knows any more whether it was counted."""
    found = buffer_of("hits:home")
    old = Serial(mint(clock.utc() - timedelta(days=29)).hex, 1)
    found.interval = replace(found.interval, serial=old)
    buffers.flush()
    assert landed() == 0
    (incident,) = CounterIncident.objects.all()
    assert (incident.detail["reason"], incident.detail["amounts"]) == ("expired", {"hits:home": 1})


def test_the_end_says_what_may_be_counted(lander: Any, monkeypatch: Any, caplog: Any) -> None:
    land = lander.land

    def lose(*arguments: Any) -> None:
        land(*arguments)
        raise OutcomeUnknown(using="default")

    monkeypatch.setattr(lander, "land", lose)
    Counter.objects.increment("hits:home", 7)
    with pytest.raises(OutcomeUnknown):
        buffers.flush()
    Counter.objects.increment("hits:home", 5)
    with caplog.at_level("ERROR", "django_counters"):
        end()
    told = [one.message for one in caplog.records if "incident" in one.message]
    assert told == [
        "Counter incident: lost at the end of a process: default {'hits:home': 5}",
        "Counter incident: perhaps lost at the end of a process: default {'hits:home': 7}",
    ]


def test_what_is_committed_and_cannot_be_counted_is_told(lander: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lander, "land", away)
    Counter.objects.increment("full:b")
    with transaction.atomic():
        for name in "abc":
            Counter.objects.increment(f"full:{name}", 10)
        monkeypatch.setattr(lander, "apply", away)
    # The first one takes the place of what is sealed and cannot be landed.
    values = Counter.objects.values_of([f"full:{name}" for name in "abc"])
    assert list(values.values()) == [10, 1, 0]
    told = CounterIncident.objects.filter(kind="lost").values_list("detail", flat=True)
    assert sorted(key for detail in told for key in detail["amounts"]) == ["full:b", "full:c"]


def test_a_seal_that_is_interrupted(monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    Counter.objects.increment("hits:home", 7)
    with monkeypatch.context() as patch:
        patch.setattr(module, "SealedInterval", interrupted)
        with pytest.raises(KeyboardInterrupt):
            buffers.flush()
    Counter.objects.increment("hits:home", 5)
    assert Counter.objects.value("hits:home") == 12
    assert buffers.flush() == 2
    assert landed() == Counter.objects.value("hits:home") == 12


def test_nothing_is_taken_after_the_end(monkeypatch: Any) -> None:
    """Not by one who has found room just before."""
    found, has_room = buffer_of("hits:home"), Buffer._has_room

    def ended(self: Buffer) -> bool:
        room = has_room(self)
        self.closed = True
        self.flush()
        return room

    monkeypatch.setattr(Buffer, "_has_room", ended)
    Counter.objects.increment("hits:other")
    assert not found.entries
    assert (landed(), landed("hits:other")) == (1, 1)
