"""Nobody holds all of it for ever: limits for each actor, in total, and of time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import Error
from django.db import models, transaction
from django.test.utils import isolate_apps

from django_counters import clock
from django_counters.conf import problems
from django_counters.contrib import holds
from django_counters.contrib.holds.errors import HoldLimitExceeded
from django_counters.contrib.holds.holding import AT_ONCE
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.holds.sql import SqlHolds
from django_counters.errors import (
    InsufficientCount,
    InvalidActor,
    InvalidConfiguration,
    InvalidDelta,
    TokenConflict,
)
from django_counters.fields import CounterField
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.totals import SqlCorrections
from django_counters.testing import override_counters
from django_counters.upkeep import forget_actor
from tests.concurrency.crowd import Threads
from tests.holds.conftest import Stock, pass_time
from tests.testapp.models import Product

LIMITS = {"held_per_actor": 3, "held_in_total": 5, "hold_minutes": 60}
# As a namespace declares them.
OPTIONS = {name.upper(): limit for name, limit in LIMITS.items()}
KEY = "stock:lamp"


@pytest.fixture(autouse=True)
def _limited(_declared: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    field: Any = Product._meta.get_field("stock")
    monkeypatch.setitem(vars(field), "options", {**field.options, **LIMITS})
    with override_counters(
        stock={"FLOOR": 0, **OPTIONS},
        seats={"FLOOR": 0, "PER": ["day"], **OPTIONS},
    ):
        yield


def test_an_actor_holds_no_more_than_its_part(stock: Stock) -> None:
    first = stock.hold(2, who="ann")
    assert (first.actor, stock.holds()[0].actor) == ("ann", "ann")
    for quantity in (2, 4):
        with pytest.raises(HoldLimitExceeded) as refused:
            stock.hold(quantity, who="ann")
        error = refused.value
        assert (error.requested, error.held, error.limit) == (quantity, 2, 3)
    assert stock.value() == 8
    stock.hold(1, who="ann")
    assert first.release()
    stock.hold(2, who="ann")
    # What is sold or over is not held.
    stock.holds()[0].commit()
    pass_time()
    assert stock.hold(3, who="ann").available is not None


def test_all_together_hold_no_more_than_is_declared(stock: Stock) -> None:
    stock.hold(3, who="ann")
    stock.hold(2, who="bob")
    with pytest.raises(HoldLimitExceeded) as refused:
        stock.hold(1, who="cid")
    assert (refused.value.held, refused.value.limit) == (5, 5)
    assert (stock.value(), CounterHold.objects.count()) == (5, 2)


def test_another_counter_has_its_own(db: None) -> None:
    for key in (KEY, "stock:chair"):
        Counter.objects.increment(key, 10)
        assert holds.hold(key, 3, who="ann").available == 7


def test_who_has_to_be_named(stock: Stock) -> None:
    with pytest.raises(InvalidActor, match="Pass who"):
        stock.hold(1)
    user = User.objects.create_user("ann")
    assert stock.hold(1, who=user).actor == str(user.pk)


def test_the_same_token_is_of_the_same_actor(stock: Stock) -> None:
    stock.hold(1, token="cart", who="ann")
    assert stock.hold(1, token="cart", who="ann").replayed
    with pytest.raises(TokenConflict):
        stock.hold(1, token="cart", who="bob")


def test_it_ends_in_time_however_often_it_is_extended(stock: Stock) -> None:
    with pytest.raises(InvalidDelta, match="at most 60 minutes"):
        stock.hold(1, who="ann", minutes=61)
    hold = stock.hold(1, who="ann", minutes=30)
    for _ in range(3):
        hold = hold.extend(minutes=60)
    made = CounterHold.objects.get().created_at
    assert hold.expires_at - made <= timedelta(minutes=60, seconds=1)
    CounterHold.objects.update(created_at=clock.now() - timedelta(minutes=50))
    CounterHold.objects.update(expires_at=clock.now() + timedelta(minutes=5))
    later = hold.extend(minutes=60).expires_at - clock.now()
    assert timedelta(minutes=9) < later < timedelta(minutes=11)
    CounterHold.objects.update(created_at=clock.now() - timedelta(minutes=70))
    # Never for less than before.
    assert hold.extend(minutes=60).expires_at - clock.now() > timedelta(minutes=9)


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["named", "field"])
def test_the_limits_hold_from_all_sides(kind: str) -> None:
    registry.forget_strategies()
    Counter.objects.increment(KEY, 100)
    product = Product.stock.of(Product.objects.create(stock=100).pk)

    def work(number: int) -> int:
        take: Any = partial(holds.hold, product if kind == "field" else KEY)
        try:
            return int(take(1, who=f"actor {number % 2}").quantity)
        except HoldLimitExceeded:
            return 0

    assert sum(Threads(16).run(work)) == 5
    held = CounterHold.objects.values("actor").annotate(held=models.Sum("quantity"))
    assert max(row["held"] for row in held) == 3


@pytest.mark.parametrize("lowered", ["held_per_actor", "held_in_total"])
def test_an_extension_obeys_the_limits_of_now(
    stock: Stock, lowered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was lowered after the hold was made, and the other one is gone."""
    hold = stock.hold(3, who="ann", minutes=10)
    limits = {"hold_minutes": 60, lowered: 2}
    field: Any = Product._meta.get_field("stock")
    monkeypatch.setitem(vars(field), "options", limits)
    options = {name.upper(): limit for name, limit in limits.items()}
    with override_counters(
        stock={"FLOOR": 0, **options},
        seats={"FLOOR": 0, "PER": ["day"], **options},
    ):
        with pytest.raises(HoldLimitExceeded) as refused:
            hold.extend(minutes=30)
        assert (refused.value.requested, refused.value.held, refused.value.limit) == (3, 0, 2)
        assert holds.find(hold.token).expires_at == hold.expires_at


def test_what_others_hold_does_not_end_an_extension(stock: Stock) -> None:
    """All that may be held is held, and each hold can still be extended."""
    holds = [stock.hold(3, who="ann", minutes=10), stock.hold(2, who="bob", minutes=10)]
    for hold in holds:
        assert hold.extend(minutes=30).expires_at > hold.expires_at
    assert stock.value() == 5


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_an_extension_that_commits_late_is_within_the_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another call has found the hold over meanwhile, and holds instead of it."""
    Counter.objects.increment(KEY, 100)
    hold = holds.hold(KEY, 3, who="ann")
    CounterHold.objects.update(expires_at=clock.now() + timedelta(seconds=1))
    extending, held, ready = (threading.Event() for _ in range(3))
    extend, total = SqlHolds.extend, SqlCorrections.hold

    def late(self: SqlHolds, token: str, seconds: float) -> Any:
        until = extend(self, token, seconds)
        extending.set()
        assert held.wait(60)
        return until

    def wait_for_the_total(self: SqlCorrections, *given: Any) -> Any:
        if held.is_set():
            ready.set()
        return total(self, *given)

    def work(number: int) -> str:
        if number:
            assert extending.wait(60)
            while holds.find(hold.token).state == "held":
                continue
            with transaction.atomic():
                holds.hold(KEY, 3, who="ann")
                held.set()
                # The extension asks for the total, or has missed this hold and is done.
                assert ready.wait(60)
            return ""
        try:
            hold.extend(minutes=30)
        except HoldLimitExceeded:
            return "refused"
        finally:
            ready.set()
        return "extended"

    monkeypatch.setattr(SqlHolds, "extend", late)
    monkeypatch.setattr(SqlCorrections, "hold", wait_for_the_total)

    assert Threads(2).run(work) == ["refused", ""]
    now = clock.now()
    assert sum(one.quantity for one in CounterHold.objects.filter(expires_at__gt=now)) == 3


@pytest.mark.parametrize("option", ["held_per_actor", "held_in_total", "hold_minutes"])
@pytest.mark.parametrize("wrong", [0, -1, "3", True, 1.5])
def test_wrong_options_are_told(db: None, option: str, wrong: Any) -> None:
    with (
        pytest.raises(InvalidConfiguration, match=option),
        override_counters(stock={option.upper(): wrong}),
    ):
        Counter.objects.value(KEY)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"CEILING": {"day": 5}}, "because it has a quota"),
        ({"ONCE": True}, "because it counts once for each actor"),
        ({"STRATEGY": "sharded"}, "sharded counters can't be held"),
    ],
)
def test_limits_of_what_cannot_be_held_are_told(declared: dict[str, Any], why: str) -> None:
    for option, limit in OPTIONS.items():
        [problem] = problems({"stock": {**declared, option: limit}})
        assert problem.code == "E008"
        assert f"{option.lower()}: " in problem.message
        assert why in problem.message


@isolate_apps("tests.testapp")
def test_limits_of_fields_that_cannot_be_held_are_told() -> None:
    class Wrong(models.Model):
        stock = CounterField(ceiling={"day": 5}, held_in_total=9, hold_minutes=60)
        seats = CounterField(strategy="slotted", held_per_actor=2)
        calls = CounterField(held_per_actor=0)

        class Meta:
            app_label = "testapp"

    found = {error.obj.name: error.id for error in Wrong.check() if isinstance(error, Error)}
    assert found == dict.fromkeys(("stock", "seats", "calls"), "counters.E020")


def test_as_many_expired_holds_as_there_are_are_enough(db: None) -> None:
    with override_counters(stock={"FLOOR": 0}):
        number = AT_ONCE + AT_ONCE // 2
        Counter.objects.increment(KEY, number)
        holds.hold(KEY, number, token="first")
        CounterHold.objects.all().delete()
        then = clock.now() - timedelta(hours=1)
        CounterHold.objects.bulk_create(
            CounterHold(token=f"t{n}", key=KEY, quantity=1, expires_at=then, created_at=then)
            for n in range(number)
        )
        with pytest.raises(InsufficientCount) as refused:
            holds.hold(KEY, number + 1)
        assert refused.value.available == number
        CounterHold.objects.update(state=CounterHold.State.HELD)
        Counter.objects.decrement(KEY, number)
        assert holds.hold(KEY, number).available == 0


@pytest.mark.parametrize("sign", ["\x1b[2J", "\u202e", "\u2066", "\x07", "\0", "\ud800"])
def test_a_note_does_not_steer_how_it_is_shown(stock: Stock, sign: str) -> None:
    with pytest.raises(ValueError, match="controls the display"):
        stock.hold(1, who="ann", note=f"a basket{sign}")
    assert not CounterHold.objects.exists()
    assert stock.hold(1, who="ann", note="a\tbasket\n").note == "a\tbasket\n"


def test_forgetting_a_person_clears_the_name_and_keeps_the_stock(stock: Stock) -> None:
    stock.hold(2, who="ann")
    stock.hold(1, who="bob")
    value = stock.value()
    assert forget_actor("ann", dry_run=True)["holds"] == 1
    assert forget_actor("ann")["holds"] == 1
    assert forget_actor("ann")["holds"] == 0
    assert sorted(hold.actor for hold in stock.holds()) == ["", "bob"]
    assert stock.value() == value
