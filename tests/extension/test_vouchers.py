"""A condition of somebody else's app, in each strategy that can promise it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.test.utils import CaptureQueriesContext, isolate_apps

from django_counters import clock
from django_counters.checks import check_setting
from django_counters.conf import measure_of
from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InvalidActor,
    UnsupportedCondition,
    UnsupportedMaximum,
)
from django_counters.fields import CounterField
from django_counters.models import Counter, CounterDelta
from django_counters.querysets import CounterQuerySet
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.extension.apps import Moods
from tests.extension.models import Party, Voucher
from tests.extension.vouchers import OncePerVoucher

pytestmark = [pytest.mark.django_db, pytest.mark.needs("conditions")]
DECLARED: dict[str, Any] = {
    "points": {"VOUCHERS": True, "CEILING": 5},
    "daily": {"VOUCHERS": True, "CEILING": 5, "PER": ["day"]},
    "miles": {"VOUCHERS": True, "STRATEGY": "sharded"},
    "steps": {"VOUCHERS": True, "STRATEGY": "sharded", "PER": ["day"]},
}
KINDS = ("points", "daily", "miles", "steps", "drinks", "snacks")


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with override_counters(**DECLARED):
        yield


@pytest.fixture(params=KINDS)
def counter(request: pytest.FixtureRequest) -> Any:
    """What counts with vouchers: a named counter, or that of a record."""
    kind = request.param
    if kind in DECLARED:
        return Named(f"{kind}:ann")
    return getattr(Party.objects.create(), kind)


class Named:
    """A named counter with the calls of a field's value."""

    def __init__(self, key: str) -> None:
        self.increment: Callable[..., Any] = partial(Counter.objects.increment, key)
        self.decrement: Callable[..., Any] = partial(Counter.objects.decrement, key)
        self.value: Callable[[], int] = partial(Counter.objects.value, key)


def test_each_voucher_counts_once_and_is_taken_back(counter: Any) -> None:
    told = [counter.increment(who=code) for code in ("x", "x", "y")]
    assert [(one.value, one.replayed) for one in told] == [(1, False), (1, True), (2, False)]
    told = [counter.decrement(who=code) for code in ("x", "x")]
    assert [(one.value, one.replayed) for one in told] == [(1, False), (1, True)]
    assert counter.value() == Voucher.objects.count() == 1


def test_any_amount_counts_once(counter: Any) -> None:
    told = [counter.increment(3, who="x") for _ in range(2)]
    assert [(one.value, one.replayed) for one in told] == [(3, False), (3, True)]
    assert (counter.value(), Voucher.objects.count()) == (3, 1)


@pytest.mark.parametrize("by", [1, 2])
@pytest.mark.parametrize("kind", ["points", "daily", "drinks"])
def test_a_refused_change_uses_no_voucher(kind: str, by: int) -> None:
    party = Party.objects.create()
    counter = party.drinks if kind == "drinks" else Named(f"{kind}:ann")
    counter.increment(5, who="x")
    with pytest.raises(CeilingExceeded), transaction.atomic():
        counter.increment(by, who="y")
    assert list(Voucher.objects.values_list("code", flat=True)) == ["x"]
    assert counter.value() == 5


def test_a_refused_change_of_a_shard_uses_no_voucher() -> None:
    miles = Named("miles:ann")
    miles.increment(2**63 - 1, who="x")
    with pytest.raises(CounterOverflow), transaction.atomic():
        miles.increment(who="y")
    assert list(Voucher.objects.values_list("code", flat=True)) == ["x"]


@pytest.mark.postgresql
def test_one_statement(counter: Any) -> None:
    counter.increment(who="w")
    for call, code in (
        (counter.increment, "x"),
        (counter.increment, "x"),
        (counter.decrement, "x"),
    ):
        with CaptureQueriesContext(connection) as queries:
            call(who=code)
        statements = [one["sql"] for one in queries if "countermeasure" not in one["sql"]]
        assert len(statements) == 1


def test_a_token_comes_first(counter: Any) -> None:
    token = mint(clock.utc())
    counter.increment(who="x", token=token)
    counter.decrement(who="x")
    again = counter.increment(who="x", token=token)
    assert (again.value, again.replayed) == (1, True)
    assert (counter.value(), Voucher.objects.count()) == (0, 0)


WITHOUT: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "many": (InvalidActor, lambda: Counter.objects.increment_many({"points:ann": 1})),
    "chosen": (InvalidActor, lambda: CounterQuerySet(Party).increment(drinks=1)),
    "maximum": (UnsupportedMaximum, lambda: Counter.objects.maximum("points:ann", 3)),
    "entry": (
        UnsupportedCondition,
        lambda: CounterDelta.objects.append("miles:ann", 1, who="x"),
    ),
}


@pytest.mark.parametrize("way", WITHOUT)
def test_nothing_counts_without_a_voucher(way: str) -> None:
    if way == "entry" and connection.vendor == "mysql":
        pytest.skip("it has no ledger")
    Party.objects.create()
    error, call = WITHOUT[way]
    with pytest.raises(error), transaction.atomic():
        call()
    assert (Counter.objects.value("points:ann"), Voucher.objects.count()) == (0, 0)


def test_forgetting_a_counter_forgets_its_vouchers() -> None:
    Counter.objects.increment("points:ann", 3, who="x")
    Counter.objects.increment("points:bob", who="x")
    Counter.objects.forget("points:ann")
    assert list(Voucher.objects.values_list("key", flat=True)) == ["points:bob"]
    assert Counter.objects.increment("points:ann", who="x") == 1


def test_a_counter_has_one_condition(settings: Any) -> None:
    both = "once and vouchers each declare a condition. Remove one of them."
    settings.COUNTERS = {"points": {"ONCE": True, "VOUCHERS": True}}
    (error,) = check_setting()
    assert error.msg == f"COUNTERS['points']: {both}"
    with isolate_apps("tests.extension"):

        class Fair(models.Model):
            rides = CounterField(once=True, vouchers=True)

        (error,) = Fair.check()
    assert (error.id, both in error.msg) == ("counters.E101", True)


def test_an_option_without_a_condition_leaves_that_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = replace(Moods.options[0], make=lambda **_: {"condition": None})
    monkeypatch.setattr(Moods, "options", (*Moods.options, late))
    measure = measure_of("points", {"vouchers": True})
    assert measure is not None
    assert measure.condition == OncePerVoucher()
