"""Cells of cached counters land with their totals, in the transaction that claims both."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.contrib import series
from django_counters.contrib.series.options import SUM, period_cell
from django_counters.models import Counter, CounterDelta, CounterIncident, CounterMeasure
from django_counters.redis.keys import SLOTS, cell_field, cell_in, slot_of
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Delta, Effect
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.series.cells import MEASURED, by_country, cells, land, midnight
from tests.testapp.models import Story

pytestmark = pytest.mark.django_db(transaction=True)
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **MEASURED}
KEYS = [f"hits:{number}" for number in range(30)]


@pytest.fixture(autouse=True)
def _cached(cached: str) -> Iterator[None]:
    with override_counters(hits=CACHED):
        yield


@pytest.mark.parametrize("step", STEPS)
def test_one_that_dies_is_finished_by_the_next(step: str) -> None:
    for round_ in range(1, 4):
        Counter.objects.increment_many(dict.fromkeys(KEYS, 1), tags={"country": "DE"})
        with pytest.raises(Killed):
            flush(step=kill_at(step), largest=10)
        Counter.objects.increment_many(dict.fromkeys(KEYS, 10), tags={"country": "FR"})
        flush()
        for key in (KEYS[0], KEYS[-1]):
            assert by_country(key) == {"DE": round_, "FR": 10 * round_}
    assert not CounterIncident.objects.exists()


def test_a_landing_that_was_overtaken_lands_nothing() -> None:
    """Another flush lands and removes what this one has read."""
    Counter.objects.increment("hits:a", 5, tags={"country": "DE"})

    def overtaken(name: str) -> None:
        if name == "apply":
            flush()

    assert flush(step=overtaken).counters == 0
    assert by_country("hits:a") == {"DE": 5}


def test_a_token_that_was_counted_elsewhere() -> None:
    token = mint(clock.utc())
    CounterDelta.objects.append("hits:a", 3, token=token)
    # Redis has not heard of it.
    Counter.objects.increment("hits:a", 3, token=token, tags={"country": "DE"})
    land()
    assert Counter.objects.value("hits:a") == 3
    assert by_country("hits:a") == {None: 3}


def test_what_a_total_refuses_its_cells_refuse() -> None:
    Counter._base_manager.create(key="hits:full", value=2**63 - 2)
    Counter.objects.increment("hits:full", 5, tags={"country": "DE"})
    Counter.objects.increment("hits:a", 5, tags={"country": "DE"})
    assert flush().quarantined == {"hits:full": 5}
    assert (cells("hits:full"), by_country("hits:a")) == ({}, {"DE": 5})


def test_what_a_total_refuses_of_others_is_no_matter_to_a_token() -> None:
    """It is in the ledger, so it is in its cell, too."""
    Counter._base_manager.create(key="hits:full", value=2**63 - 2)
    Counter.objects.increment("hits:full", 5, tags={"country": "DE"})
    token = mint(clock.utc())
    Counter.objects.increment("hits:full", tags={"country": "FR"}, token=token)
    assert flush().quarantined == {"hits:full": 5}
    assert Counter.objects.value("hits:full") == 2**63 - 1
    assert by_country("hits:full") == {"FR": 1}


@pytest.mark.parametrize("torn", [False, True])
def test_what_is_left_of_a_record_that_is_gone(torn: bool) -> None:
    """Its sum may be zero, or taken away while its cells were read: nothing refuses it then."""
    gone, kept = Story.objects.create(), Story.objects.create()
    for story in (gone, kept):
        story.reads.increment(tags={"country": "DE"})
        story.reads.decrement(1 + torn, tags={"country": "FR"})
    # Redis is not told, as where it is away.
    Story._base_manager.filter(pk=gone.pk)._raw_delete("default")
    if torn:
        counter = f"testapp.Story.reads {gone.pk}"
        where = slots_of("default", pending_prefix()).keys(slot_of(counter))[0]
        pending_in("default", 10, "default")._client.call("HDEL", where, counter, key=where)
    report = flush()
    assert (report.counters, report.quarantined) == (int(torn), {})
    assert cells(str(gone.pk)) == {}
    assert by_country(str(kept.pk), "testapp.Story.reads") == {"DE": 1, "FR": -1 - torn}
    assert kept.reads.value() == -int(torn)


def test_a_cell_that_is_full_keeps_nobody_from_landing() -> None:
    for _ in range(5):
        Counter.objects.increment("hits:a", 2**61, tags={"country": "DE"})
        Counter.objects.decrement("hits:a", 2**61 - 1, tags={"country": "FR"})
        flush()
    assert Counter.objects.value("hits:a") == 5
    assert {one.detail["reason"] for one in CounterIncident.objects.all()} == {"cells"}
    Counter.objects.increment("hits:a")
    land()
    assert Counter.objects.value("hits:a") == 6


def test_they_wait_where_their_counter_waits() -> None:
    """Else a generation could land without them."""
    pending = pending_in("default", 10, "default")
    moment = clock.utc().replace(microsecond=0)
    for number in range(20):
        key = f"hits:{number}"
        effects = (Effect(period_cell(SUM, 1, 2, moment, "DE"), 1),)
        pending.send(pending.add({key: Delta(key, 1, effects=effects)}, -1))
    slots = slots_of("default", pending_prefix())
    for slot in range(SLOTS):
        fields = pending._client.call("HKEYS", slots.keys(slot)[0], key=slots.keys(slot)[0])
        found = [cell for field in fields if (cell := cell_in(field))]
        assert all(slot_of(counter) == slot for counter, _ in found)
        assert len(found) == sum(1 for field in fields if field.startswith("hits:"))


def pending_prefix() -> str:
    """The prefix of the present cache."""
    from django.conf import settings

    return str(settings.CACHES["default"]["KEY_PREFIX"])


def test_a_measure_that_is_declared_no_more() -> None:
    Counter.objects.increment("hits:a", 2, tags={"country": "DE"})
    with override_counters(hits={"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}):
        land()
        assert by_country("hits:a") == {"DE": 2}


def test_a_field_of_somebody_else_is_told_of() -> None:
    Counter.objects.increment("hits:a")
    slots = slots_of("default", pending_prefix())
    where = slots.keys(slot_of("hits:a"))[0]
    client = pending_in("default", 10, "default")._client
    strange = ["#x y z", "#1.2 a b", "#1.2.99999999999999999999 a b"]
    for field in strange:
        client.call("HSET", where, field, 5, key=where)
    flush()
    incident = CounterIncident.objects.get()
    assert set(incident.detail["fields"]) == set(strange)
    assert Counter.objects.value("hits:a") == 1


def test_a_field_and_its_cell() -> None:
    hour = clock.utc().replace(minute=0, second=0, microsecond=0)
    cell = period_cell(SUM, 7, 2, hour, "DE||a%20b")
    for counter in ("views:a", "blog.Post.views 17", "blog.Post.views a b"):
        assert cell_in(cell_field(cell, counter)) == (counter, cell)
    for counter in ("#tag", "views:#1.2.3"):
        assert cell_in(counter) is None


def test_increments_of_one_cell_are_one_field() -> None:
    ago = clock.utc() - timedelta(days=1)
    for _ in range(50):
        Counter.objects.increment("hits:a", tags={"country": "DE"})
        Counter.objects.increment("hits:a", at=ago)
    pending = pending_in("default", 10, "default")
    assert sum(waiting.open for waiting in pending.waiting()) <= 1 + 4
    land()
    found = cells("hits:a")
    assert found == {(midnight(clock.utc()), "DE"): 50, (midnight(ago), ""): 50}
    assert CounterMeasure.objects.filter(name="hits").count() == 1


def test_a_series_knows_before_when_all_has_landed() -> None:
    with override_counters(hits=CACHED):
        days = series.of("hits:a").per("day").last(1)
        known: list[Any] = []
        for _ in range(2):
            Counter.objects.increment("hits:a")
            known.append(days.as_of)
            land()
            known.append(days.as_of)
        assert (known[0], known[1]) == (None, known[2])
        assert known[2] < known[3] <= clock.now()
        # Where another slot has landed nothing, nobody knows it of both.
        keys = [f"hits:{number}" for number in range(40)]
        assert series.of(["hits:a", *keys]).as_of is None
