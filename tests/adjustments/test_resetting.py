"""Resets: adjustments to zero, of every kind of counter, with what an adjustment can be told."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters.adjustments import AdjustOptions, ResetOptions
from django_counters.errors import CeilingExceeded, InsufficientCount, ValueChanged
from django_counters.fields import CounterValue
from django_counters.managers import CounterManager
from django_counters.managers.rows import SlotManager
from django_counters.models import Counter, CounterAdjustment, SlottedCounter
from django_counters.testing import override_counters
from tests.adjustments.adjustables import (
    WHO,
    Adjustable,
    assert_sound,
    nothing_written,
    parts,
    upkeep,
)
from tests.testapp.models import Post

pytestmark = pytest.mark.django_db


def test_what_was_counted_goes_and_what_comes_stays(some_counter: Adjustable) -> None:
    some_counter.increment(5)
    assert (parts(some_counter.reset()), some_counter.value()) == ((5, 0, -5), 0)
    some_counter.increment(2)
    upkeep()
    assert some_counter.value() == 2
    assert parts(some_counter.reset()) == (2, 0, -2)
    # Somebody has looked, and it was zero.
    assert parts(some_counter.reset()) == (0, 0, 0)
    assert_sound()


def test_another_value_than_the_expected_one(some_counter: Adjustable) -> None:
    some_counter.increment(5)
    with nothing_written(some_counter), pytest.raises(ValueChanged):
        some_counter.reset(expected=4)


def test_bounds_refuse_it_as_they_refuse_an_adjustment() -> None:
    with override_counters(low={"FLOOR": 3}, high={"CEILING": -3}):
        Counter.objects.increment("low:a", 5)
        with pytest.raises(InsufficientCount):
            Counter.objects.reset("low:a", **WHO)
        Counter.objects.increment("high:a", -5)
        with pytest.raises(CeilingExceeded):
            Counter.objects.reset("high:a", **WHO)
        assert Counter.objects.values_of(["low:a", "high:a"]) == {"low:a": 5, "high:a": -5}
        assert Counter.objects.reset("low:a", allow_below_floor=True, **WHO).after == 0


@pytest.mark.parametrize("face", [CounterManager, SlotManager, CounterValue])
@pytest.mark.parametrize("twin", ["", "a"])
def test_it_takes_what_an_adjustment_takes(face: Any, twin: str) -> None:
    options = inspect.signature(getattr(face, f"{twin}reset")).parameters["options"]
    assert options.annotation == "Unpack[ResetOptions]"
    assert set(AdjustOptions.__annotations__) - set(ResetOptions.__annotations__) == {"to", "by"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("twin", [True, False])
def test_everything_it_is_told_is_kept(twin: bool) -> None:
    post, told = Post.objects.create(), {"case": "T-17", "request_id": "r-1", "approver": "bob"}
    post.likes.increment(3)
    SlottedCounter.objects.increment(post, "downloads", 4)
    Counter.objects.increment("a", 5)

    def reset(face: Any, *given: Any) -> CounterAdjustment:
        call = async_to_sync(face.areset) if twin else face.reset
        row: CounterAdjustment = call(*given, using="default", token=f"t-{given}", **WHO, **told)
        assert call(*given, token=f"t-{given}", **WHO).replayed
        return row

    rows = [
        reset(post.likes),
        reset(SlottedCounter.objects, post, "downloads"),
        reset(Counter.objects, "a"),
    ]
    assert [row.before for row in rows] == [3, 4, 5]
    assert post.likes == 0 == post.likes.value()
    kept = CounterAdjustment.objects.values_list(
        *("delta", "reason", "actor_name", "case", "request_id", "approver_name")
    )
    assert list(kept.order_by("number")) == [
        (-before, "recount", "ann", "T-17", "r-1", "bob") for before in (3, 4, 5)
    ]
