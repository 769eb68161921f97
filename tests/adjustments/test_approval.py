"""Adjustments of two people: asked for by one, decided on by another, once."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from django_counters import clock
from django_counters.adjustments.approval import approve, ask, reject
from django_counters.errors import (
    InsufficientCount,
    InvalidAdjustment,
    InvalidDelta,
    OutcomeUnknown,
    RecordMissing,
    RequestDecided,
    TokenConflict,
    ValueChanged,
)
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.write.changes import named
from django_counters.write.records import of_record
from tests.concurrency.crowd import Threads
from tests.stores.test_failures import lost_at_commit
from tests.testapp.models import Product

NAMESPACES: dict[str, dict[str, Any]] = {
    "stock": {"FLOOR": 0, "APPROVE_ABOVE": 100},
    "orders": {"STRATEGY": "ledger", "APPROVE_ABOVE": 100},
    "likes": {"STRATEGY": "sharded", "APPROVE_ABOVE": 100},
}
KEYS = ["stock:a", "orders:a", "likes:a"]


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    with override_counters(**NAMESPACES):
        yield


def _asked(key: str = "stock:a", *, to: int = 1000, actor: object = "ann") -> AdjustmentRequest:
    value = Counter.objects.value(key)
    return ask(named(key), to=to, expected=value, reason="a stocktake", actor=actor)


@pytest.mark.django_db
def test_a_record_that_is_gone_is_not_adjusted() -> None:
    product = Product.objects.create(stock=5)
    asked = ask(of_record(product, "stock"), to=9, expected=5, reason="found", actor="ann")
    product.delete()
    with pytest.raises(RecordMissing):
        approve(asked.pk, approver="bob", expected=5)
    asked.refresh_from_db()
    assert (asked.state, CounterAdjustment.objects.count()) == ("waiting", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("key", KEYS)
def test_the_request_of_one_is_done_by_another(key: str) -> None:
    Counter.objects.increment(key, 7)
    asked = ask(named(key), by=500, expected=7, reason="a stocktake", actor="ann", case="T-1")
    assert (asked.state, Counter.objects.value(key)) == ("waiting", 7)
    decided, row = approve(asked.pk, approver="bob", expected=7, request_id="r-1")
    assert Counter.objects.value(key) == 507
    assert (row.before, row.after, row.delta) == (7, 507, 500)
    assert (row.actor_name, row.approver_name) == ("ann", "bob")
    assert (row.reason, row.case, row.request_id) == ("a stocktake", "T-1", "r-1")
    asked.refresh_from_db()
    for one in (asked, decided):
        assert (one.state, one.decider_name, one.adjustment) == ("approved", "bob", row.number)
    assert asked.decided_at is not None
    assert clock.meant(asked.decided_at) >= clock.meant(asked.created_at)


@pytest.mark.django_db
def test_nobody_decides_on_what_they_have_asked_for() -> None:
    ann = User.objects.create_user("ann", is_superuser=True)
    asked = _asked(actor=ann)
    ann.username = "another name"
    for person in (ann, "ann"):
        with pytest.raises(InvalidAdjustment):
            approve(asked.pk, approver=person, expected=0)
        with pytest.raises(InvalidAdjustment):
            reject(asked.pk, actor=person, note="a mistake")
    asked.refresh_from_db()
    assert (asked.state, Counter.objects.value("stock:a")) == ("waiting", 0)
    _, row = approve(asked.pk, approver=User.objects.create_user("bob"), expected=0)
    assert (row.actor_id, row.actor_name, row.approver_name) == (str(ann.pk), "ann", "bob")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "decider",
    [{"decider_name": "ann"}, {"decider_name": "x", "decider_id": "1"}, {"decider_name": ""}],
)
def test_the_database_knows_it_too(decider: dict[str, str]) -> None:
    asked = _asked()
    rows = AdjustmentRequest.objects.filter(pk=asked.pk)
    rows.update(requester_id="1")
    with pytest.raises(IntegrityError), transaction.atomic():
        rows.update(state="approved", **decider)


@pytest.mark.django_db
def test_a_request_is_decided_on_once() -> None:
    approved, rejected = _asked(), _asked("orders:a")
    approve(approved.pk, approver="bob", expected=0)
    reject(rejected.pk, actor="bob", note="no")
    for asked, state in ((approved, "approved"), (rejected, "rejected")):
        for decide in (
            lambda pk: approve(pk, approver="cid", expected=0),
            lambda pk: approve(pk, approver="cid", expected=1000),
            lambda pk: reject(pk, actor="cid", note="no"),
        ):
            with pytest.raises(RequestDecided) as caught:
                decide(asked.pk)
            assert (caught.value.request, caught.value.state) == (asked.pk, state)
            assert caught.value.decider == "bob"
    assert CounterAdjustment.objects.count() == 1
    assert Counter.objects.values_of(["stock:a", "orders:a"]) == {"stock:a": 1000, "orders:a": 0}


@pytest.mark.django_db
def test_a_bound_holds_for_two_as_for_one_and_the_request_waits_on() -> None:
    Counter.objects.increment("stock:a", 500)
    asked = ask(named("stock:a"), by=-500, expected=500, reason="a theft", actor="ann")
    Counter.objects.decrement("stock:a", 1)
    with pytest.raises(InsufficientCount):
        approve(asked.pk, approver="bob", expected=499)
    asked.refresh_from_db()
    assert asked.state == "waiting"
    below = ask(
        named("stock:a"),
        by=-500,
        expected=499,
        reason="a theft",
        actor="ann",
        allow_below_floor=True,
    )
    assert approve(below.pk, approver="bob", expected=499)[1].after == -1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"to": -1, "expected": 0}, InsufficientCount),
        ({"to": 1, "expected": 5}, ValueChanged),
        ({"to": 1, "by": 1, "expected": 0}, InvalidAdjustment),
        ({"to": 1, "expected": 0, "reason": "  "}, InvalidAdjustment),
        ({"to": 1, "expected": 0, "actor": ""}, InvalidAdjustment),
        ({"by": 0, "expected": 0}, InvalidDelta),
    ],
)
def test_nothing_is_asked_that_nobody_could_approve(
    asked: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(named("stock:a"), **{"reason": "a stocktake", "actor": "ann", **asked})
    assert not AdjustmentRequest.objects.exists()


@pytest.mark.django_db
def test_a_token_asks_once() -> None:
    def again(to: int = 1000) -> AdjustmentRequest:
        return ask(
            named("stock:a"), to=to, expected=0, reason="a stocktake", actor="ann", token="t"
        )

    assert again().pk == again().pk
    with pytest.raises(TokenConflict):
        again(to=1001)
    assert AdjustmentRequest.objects.count() == 1


@pytest.mark.django_db(databases=["default", "other"])
def test_a_request_stands_in_the_database_of_its_counter() -> None:
    asked = ask(named("stock:a", "other"), to=9, expected=0, reason="a stocktake", actor="ann")
    assert not AdjustmentRequest.objects.using("default").exists()
    approve(asked.pk, approver="bob", expected=0, using="other")
    assert Counter.objects.value("stock:a", using="other") == 9
    assert Counter.objects.value("stock:a") == 0


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["ask", "approve", "reject"])
def test_a_decision_whose_commit_is_not_answered(what: str) -> None:
    """Nobody knows whether it is made, and nobody is told that it is not."""
    asked = _asked()
    works: dict[str, Callable[[], object]] = {
        "ask": _asked,
        "approve": lambda: approve(asked.pk, approver="bob", expected=0),
        "reject": lambda: reject(asked.pk, actor="bob", note="no"),
    }
    work = works[what]
    with lost_at_commit(AdjustmentRequest), pytest.raises(OutcomeUnknown):
        work()
    assert AdjustmentRequest.objects.get().state == "waiting"
    work()


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_of_a_hundred_approvals_at_once_one_adjusts() -> None:
    asked = _asked()

    def decide(number: int) -> str:
        try:
            if number % 10 == 9:
                reject(asked.pk, actor=f"person {number}", note="no")
            else:
                approve(asked.pk, approver=f"person {number}", expected=0)
        except RequestDecided:
            return "late"
        return "decided"

    answers = Threads(25).run(lambda number: [decide(4 * number + turn) for turn in range(4)])
    outcomes = Sums(outcome for four in answers for outcome in four)
    assert outcomes == {"decided": 1, "late": 99}
    asked.refresh_from_db()
    rows = list(CounterAdjustment.objects.all())
    assert len(rows) == (asked.state == "approved")
    assert Counter.objects.value("stock:a") == sum(row.delta for row in rows)
