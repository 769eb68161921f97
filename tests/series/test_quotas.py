"""A quota is the ceiling of what a period counts: no writers pass it together, and none is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import Error
from django.db import connection, connections, models, transaction
from django.db.models import Sum
from django.test.utils import isolate_apps, override_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_counters import CeilingExceeded, CounterField, InsufficientCount, QuotaExceeded, clock
from django_counters.checks import check_setting
from django_counters.contrib import series
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.series.calendar import period_of
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import UnsupportedBounds
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterMeasure,
    CounterShard,
    SlottedCounter,
)
from django_counters.registry import registry
from django_counters.stores.sql.dialects import dialect_of
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests import machines
from tests.testapp.models import Member

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "calls:acme"
TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # No period ends while a test runs.
    now = clock.utc()
    monkeypatch.setattr(clock, "utc", lambda: now)
    quotas = {"month": 100, "day": 40}
    with override_counters(calls={"CEILING": quotas, "TAGS": {"model": 2}}):
        yield


def used(key: str = KEY, period: str = "month") -> int:
    number = CounterCell.Period[period.upper()]
    found = CounterCell.objects.filter(key=key, period=number).aggregate(sum=Sum("value"))
    return found["sum"] or 0


def refused(by: int, **said: object) -> QuotaExceeded:
    before = Counter.objects.value(KEY), used(), used(period="day")
    with pytest.raises(QuotaExceeded) as caught:
        Counter.objects.increment(KEY, by, **said)  # type: ignore[arg-type]
    assert (Counter.objects.value(KEY), used(), used(period="day")) == before
    return caught.value


def test_a_change_beyond_it_counts_nothing() -> None:
    assert Counter.objects.increment(KEY, 30, tags={"model": "a"}) == 30
    error = refused(11, tags={"model": "b"})
    assert isinstance(error, CeilingExceeded)
    assert (error.period, error.available, error.requested, error.ceiling) == ("day", 10, 11, 40)
    assert error.shortfalls == ((KEY, 11, 10, 40),)
    assert str(error) == f"{KEY} has 10 left of 40 for this day, 11 were requested."
    # All tags share it.
    assert Counter.objects.increment(KEY, 10, tags={"model": "b"}) == 40
    assert refused(1).available == 0
    assert refused(101).period == "month"


def test_what_is_taken_back_is_room_again() -> None:
    Counter.objects.increment(KEY, 40)
    Counter.objects.decrement(KEY, 5)
    assert refused(6).available == 5
    assert Counter.objects.increment(KEY, 5) == 40


class TestEarlierPeriods:
    """What was counted before a period makes no room in it, however it is taken back."""

    WAYS: ClassVar[dict[str, Callable[[int], object]]] = {
        "one": lambda by: Counter.objects.decrement(KEY, by),
        "as an increment": lambda by: Counter.objects.increment(KEY, -by),
        "with tags": lambda by: Counter.objects.decrement(KEY, by, tags={"model": "b"}),
        "with a token": lambda by: Counter.objects.decrement(KEY, by, token=mint(clock.utc())),
        "many": lambda by: Counter.objects.decrement_many({KEY: by, "calls:b": 1}),
        "a queryset": lambda by: Counter.objects.filter(key=KEY).decrement(by),
    }

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("within", [nullcontext, transaction.atomic, Counter.objects.collect])
    def test_open_no_quota(self, way: str, within: Callable[[], Any]) -> None:
        long_ago = clock.utc() - timedelta(days=70)
        Counter.objects.increment(KEY, 40, at=long_ago, tags={"model": "a"})
        Counter.objects.increment(KEY, 10, tags={"model": "a"})
        with within():
            self.WAYS[way](30)
        assert Counter.objects.value(KEY) == 20
        assert [(one.used, one.available) for one in series.quotas(KEY)] == [
            (0, 40),
            (0, 100),
        ]
        refused(41)
        assert Counter.objects.increment(KEY, 40) == 60
        # What the earlier day counted stays.
        assert refused(1, at=long_ago).period == "day"

    def test_give_their_room_back_where_they_counted(self) -> None:
        long_ago = clock.utc() - timedelta(days=70)
        Counter.objects.increment(KEY, 40, at=long_ago)
        Counter.objects.decrement(KEY, 5, at=long_ago)
        assert refused(6, at=long_ago).available == 5
        assert [one.used for one in series.quotas(KEY)] == [0, 0]

    def test_a_refused_decrease_takes_nothing_back(self) -> None:
        with override_counters(calls={"FLOOR": 0, "CEILING": {"month": 100}}):
            Counter.objects.increment(KEY, 30)
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement(KEY, 31)
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement_many({KEY: 31, "calls:b": 1})
            assert (Counter.objects.value(KEY), used()) == (30, 30)

    def test_a_quota_that_was_lowered_refuses_no_decrease(self) -> None:
        Counter.objects.increment(KEY, 40)
        with override_counters(calls={"CEILING": {"day": 10}, "TAGS": {"model": 2}}):
            assert Counter.objects.decrement(KEY, 5) == 35
            Counter.objects.decrement_many({KEY: 5, "plain": 1})
        assert used(period="day") == 30

    @pytest.mark.parametrize("many", [False, True])
    def test_of_a_field(self, many: bool) -> None:
        member = Member.objects.create()
        member.requests.increment(10, at=clock.utc() - timedelta(days=40))
        member.requests.increment(4)
        if many:
            Member.objects.decrement(requests=9)
        else:
            member.requests.decrement(9)
        assert [(one.used, one.available) for one in series.quotas(member.requests)] == [(0, 10)]
        with pytest.raises(QuotaExceeded):
            member.requests.increment(11)

    def test_in_shards_are_refused(self) -> None:
        with pytest.raises(UnsupportedBounds):
            CounterShard.objects.increment(KEY, -1)
        with pytest.raises(UnsupportedBounds):
            CounterDelta.objects.append(KEY, -1)
        with pytest.raises(UnsupportedBounds):
            SlottedCounter.objects.increment(Member.objects.create(), "requests", -1)


@pytest.mark.many_writers
def test_parallel_decreases_take_no_more_than_there_is() -> None:
    """40 of this month and 400 of another: 16 threads take 15 back, four by four."""
    with override_counters(calls={"CEILING": {"month": 400}, "TAGS": {"model": 2}}):
        Counter.objects.increment(KEY, 400, at=clock.utc() - timedelta(days=70))
        Counter.objects.increment(KEY, 40)

        def take(number: int) -> None:
            for turn in range(5):
                if turn % 2:
                    Counter.objects.decrement_many({KEY: 3, f"other:{number}": 1})
                else:
                    Counter.objects.decrement(KEY, 3, tags={"model": str(number % 2)})
            connections.close_all()

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(take, range(16)))
        assert Counter.objects.value(KEY) == 200
        assert [one.used for one in series.quotas(KEY)] == [0]


def test_each_period_has_its_own() -> None:
    """What happened in another month takes nothing from this one."""
    now = clock.utc()
    long_ago = now - timedelta(days=40)
    Counter.objects.increment(KEY, 40, at=long_ago)
    assert Counter.objects.increment(KEY, 40) == 80
    assert refused(1, at=long_ago).period == "day"


@override_settings(TIME_ZONE="Asia/Tokyo")
def test_it_resets_by_the_clocks_of_the_namespace() -> None:
    """Also where the settings name another zone later."""
    Counter.objects.increment(KEY, 40, at=datetime(2026, 1, 31, 14, 59, tzinfo=UTC))
    with override_settings(TIME_ZONE="UTC"):
        error = refused(1, at=datetime(2026, 1, 31, 14, 0, tzinfo=UTC))
        assert (error.period, error.resets_at) == ("day", datetime(2026, 2, 1, tzinfo=TOKYO))
        Counter.objects.increment(KEY, 40, at=datetime(2026, 1, 31, 15, 0, tzinfo=UTC))
        Counter.objects.increment(KEY, 40, at=datetime(2026, 1, 29, 15, 0, tzinfo=UTC))
        error = refused(21, at=datetime(2026, 1, 28, 1, tzinfo=UTC))
        assert (error.period, error.available) == ("month", 20)
        assert error.resets_at == datetime(2026, 2, 1, tzinfo=TOKYO)


def test_usage() -> None:
    assert [(one.period, one.used) for one in series.quotas(KEY)] == [
        ("day", 0),
        ("month", 0),
    ]
    Counter.objects.increment(KEY, 30)
    day, month = async_to_sync(series.aquotas)(KEY)
    assert (day.ceiling, day.used, day.available) == (40, 30, 10)
    assert (month.ceiling, month.used, month.available) == (100, 30, 70)
    assert clock.utc() < day.resets_at <= month.resets_at
    with override_counters(calls={"CEILING": {"day": 20}}):
        assert [(one.used, one.available) for one in series.quotas(KEY)] == [(30, 0)]
    assert series.quotas("other:key") == ()


def test_many_are_refused_together() -> None:
    Counter.objects.increment_many({KEY: 35, "calls:b": 1})
    with pytest.raises(QuotaExceeded) as caught:
        Counter.objects.increment_many({"calls:b": 5, KEY: 6, "plain": 1, "calls:c": 41})
    assert caught.value.shortfalls == ((KEY, 6, 5, 40), ("calls:c", 41, 40, 40))
    assert Counter.objects.values_of([KEY, "calls:b", "plain"]) == {
        KEY: 35,
        "calls:b": 1,
        "plain": 0,
    }
    Counter.objects.increment_many({KEY: 5, "calls:b": 5, "plain": 1})
    with pytest.raises(QuotaExceeded):
        Counter.objects.filter(key__startswith="calls:").increment()


def test_in_a_transaction() -> None:
    """The refusal leaves the caller's transaction as it was, and a rollback gives the room back."""
    with transaction.atomic():
        Counter.objects.increment(KEY, 40)
        Counter.objects.increment("plain", 1)
        refused(1)
        with Counter.objects.collect():
            Counter.objects.increment("plain", 1)
            refused(1)
        transaction.set_rollback(True)
    assert Counter.objects.increment(KEY, 40) == 40
    assert Counter.objects.value("plain") == 0


def test_a_token_is_not_used_up_by_a_refusal() -> None:
    Counter.objects.increment(KEY, 40)
    token = mint(clock.utc())
    refused(5, token=token)
    Counter.objects.decrement(KEY, 5)
    for replayed in (False, True):
        result = Counter.objects.increment(KEY, 5, token=token)
        assert (int(result), result.replayed) == (40, replayed)


@pytest.mark.many_writers
def test_parallel_writers_never_pass_it() -> None:
    """16 threads ask for three times as much as there is: all of it is given out, and no more."""
    declared = {"CEILING": {"month": 100}, "TAGS": {"model": 2}}

    def take(number: int) -> int:
        given = 0
        for turn in range(20):
            with suppress(QuotaExceeded):
                if turn % 3:
                    Counter.objects.increment(KEY, tags={"model": str(number % 2)})
                else:
                    Counter.objects.increment_many({KEY: 1, f"other:{number}": 1})
                given += 1
        connections.close_all()
        return given

    with override_counters(calls=declared), ThreadPoolExecutor(16) as threads:
        given = sum(threads.map(take, range(16)))
    assert given == used() == Counter.objects.value(KEY) == 100


class TestFields:
    def test_a_record_has_its_own(self) -> None:
        first, second = Member.objects.create(), Member.objects.create()
        assert first.requests.increment(8) == 8
        with pytest.raises(QuotaExceeded) as caught:
            first.requests.increment(3)
        assert caught.value.key == f"testapp.Member.requests:{first.pk}"
        assert second.requests.increment(10) == 10
        assert [one.available for one in series.quotas(first.requests)] == [2]
        assert [one.available for one in async_to_sync(series.aquotas)(second.requests)] == [0]

    def test_querysets(self) -> None:
        first, second = Member.objects.create(), Member.objects.create()
        first.requests.increment(8)
        with pytest.raises(QuotaExceeded) as caught:
            Member.objects.increment(requests=3)
        assert caught.value.shortfalls[0][1:] == (3, 2, 10)
        assert (first.requests.value(), second.requests.value()) == (8, 0)
        assert Member.objects.increment(requests=2) == 2

    def test_slots_refuse(self) -> None:
        member = Member.objects.create()
        with pytest.raises(UnsupportedBounds):
            SlottedCounter.objects.increment(member, "requests", 1)

    def test_migrations_name_it(self) -> None:
        field = Member._meta.get_field("requests")
        assert field.deconstruct()[3]["ceiling"] == {"month": 10}


def test_shards_refuse() -> None:
    with pytest.raises(UnsupportedBounds):
        CounterShard.objects.increment(KEY)
    assert Counter.objects.value(KEY) == 0


@pytest.mark.parametrize("copy", [False, pytest.param(True, marks=pytest.mark.many_writers)])
def test_the_ledger_refuses(copy: bool) -> None:
    with pytest.raises(UnsupportedBounds):
        CounterDelta.objects.append(KEY, 1)
    with pytest.raises(UnsupportedBounds):
        CounterDelta.objects.append_many([("plain", 1), (KEY, 1)], copy=copy)
    assert (Counter.objects.value(KEY), Counter.objects.value("plain"), used()) == (0, 0, 0)


def test_a_floor_beside_it_holds() -> None:
    with override_counters(calls={"FLOOR": 0, "CEILING": {"month": 9}}):
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement(KEY)
        Counter.objects.increment(KEY, 9)
        assert refused(1).period == "month"


def test_a_ceiling_of_one_call_holds_beside_it() -> None:
    with pytest.raises(CeilingExceeded) as caught:
        Counter.objects.increment(KEY, 5, ceiling=4)
    assert not isinstance(caught.value, QuotaExceeded)
    assert used() == 0


def test_a_strategy_that_was_changed() -> None:
    """What waits in shards is part of the value and of the periods."""
    declared = {"PER": ["day"], "TAGS": {"model": 2}}
    with override_counters(calls={"STRATEGY": "sharded", **declared}):
        Counter.objects.increment(KEY, 30)
    with override_counters(calls={**declared, "CEILING": {"day": 40}}):
        assert refused(11).available == 10
        assert Counter.objects.increment(KEY, 10) == 40


def test_statements() -> None:
    """A change with a quota is two statements in a transaction, however many keys it has."""
    Counter.objects.increment_many({KEY: 1, "calls:b": 1})
    seen: list[str] = []

    def look(execute: Any, sql: str, *given: Any) -> Any:
        seen.append(sql)
        return execute(sql, *given)

    with transaction.atomic(), connection.execute_wrapper(look):
        Counter.objects.increment_many({f"calls:{number}": 1 for number in range(50)})
    joined = dialect_of("default").cells.join
    assert len([sql for sql in seen if "SAVEPOINT" not in sql]) == (2 if joined else 3)


PROBLEMS = [
    ({"CEILING": {}}, "names some"),
    ({"CEILING": {"year": 5}}, "'year' is no period"),
    ({"CEILING": {"day": 0}}, "an integer from 1 on"),
    ({"CEILING": {"day": True}}, "an integer from 1 on"),
    ({"CEILING": {"day": 5}, "STRATEGY": "sharded"}, "cannot hold a ceiling of a period"),
    ({"CEILING": {"day": 5}, "STRATEGY": "cached"}, "cannot hold a ceiling of a period"),
    ({"CEILING": {"day": 5}, "STRATEGY": "ledger"}, "cannot hold a ceiling of a period"),
]


@pytest.mark.parametrize(("options", "says"), PROBLEMS)
def test_wrong_ones(options: dict[str, object], says: str) -> None:
    with override_settings(COUNTERS={"calls": options}):
        found = [error for error in check_setting() if error.id == "counters.E036"]
    assert found
    assert says in found[0].msg


@isolate_apps("tests.testapp")
def test_wrong_fields() -> None:
    class Wrong(models.Model):
        hits = CounterField(strategy="slotted", ceiling={"day": 5})
        calls = CounterField(ceiling={"decade": 5})

        class Meta:
            app_label = "testapp"

    found = {error.obj.name: error.id for error in Wrong.check() if isinstance(error, Error)}
    assert found == dict.fromkeys(("hits", "calls"), "counters.E037")


@isolate_apps("tests.testapp")
def test_a_ceiling_of_the_value_needs_no_key_that_is_a_text() -> None:
    """Where nothing is counted by period, the primary key of a record stands in no cell."""

    class Day(models.Model):
        day = models.DateField(primary_key=True)
        hits = CounterField(ceiling=5)
        calls = CounterField(ceiling={"day": 5})

        class Meta:
            app_label = "testapp"

    found = {error.obj.name: error.id for error in Day.check() if isinstance(error, Error)}
    assert found == {"calls": "counters.E037"}


class _Quotas(RuleBasedStateMachine):
    """Counts and corrections of one counter beside what its periods should have.

    Neither takes more from a period than that has counted, so none opens a quota.
    """

    CEILINGS: ClassVar = {"day": 40, "month": 100}
    WHO: ClassVar = {"reason": "a correction", "actor": "ops"}
    now: datetime

    def __init__(self) -> None:
        super().__init__()
        for model in (Counter, CounterCell, CounterHold, Member):
            model._base_manager.all()._raw_delete("default")
        type(self).now = datetime(2026, 3, 15, 12, tzinfo=UTC)
        self.used: dict[tuple[str, datetime], int] = {}
        self.value = 0
        self.begin()

    def begin(self) -> None:
        """Create the counted record; a named counter needs none."""

    def call(self, name: str, *args: Any, **said: Any) -> Any:
        return getattr(Counter.objects, name)(KEY, *args, **said)

    def quotas(self) -> tuple[series.QuotaUsage, ...]:
        return series.quotas(KEY)

    def many(self, **asked: int) -> None:
        for name, by in asked.items():
            said: dict[str, Any] = {name: {KEY: by}, **self.WHO, "case": uuid4().hex}
            Counter.objects.adjust_many(**said)

    def cells(self, at: datetime) -> list[tuple[str, datetime]]:
        return [(by, period_of(by, at, UTC)[0]) for by in self.CEILINGS]

    def room(self, at: datetime) -> int:
        return min(
            self.CEILINGS[by] - self.used.get((by, start), 0) for by, start in self.cells(at)
        )

    def add(self, by: int, at: datetime) -> None:
        self.value += by
        for cell in self.cells(at):
            self.used[cell] = self.used.get(cell, 0) + by

    def corrected(self, by: int) -> None:
        self.value += by
        for cell in self.cells(self.now):
            used = self.used.get(cell, 0)
            self.used[cell] = used + max(by, -max(used, 0))

    @rule(by=st.integers(1, 60), days=st.sampled_from([0, 0, 0, 1, 20, 40, 70]), tag=st.booleans())
    def increment(self, by: int, days: int, *, tag: bool) -> None:
        at = self.now - timedelta(days=days)
        said: dict[str, Any] = {"tags": {"model": "a"}} if tag else {}
        if by <= self.room(at):
            self.call("increment", by, at=at, **said)
            self.add(by, at)
        else:
            with pytest.raises(QuotaExceeded):
                self.call("increment", by, at=at, **said)

    @rule(by=st.integers(1, 30), tag=st.booleans())
    def decrement(self, by: int, *, tag: bool) -> None:
        if by <= self.value:
            self.call("decrement", by, **({"tags": {"model": "a"}} if tag else {}))
            self.corrected(-by)

    @rule(by=st.integers(-90, 60).filter(bool), many=st.booleans())
    def adjust_by(self, by: int, *, many: bool) -> None:
        if by > 0 and by > self.room(self.now):
            with pytest.raises(QuotaExceeded):
                self.call("adjust", by=by, **self.WHO)
        elif self.value + by >= 0:
            self.many(by=by) if many else self.call("adjust", by=by, **self.WHO)
            self.corrected(by)

    @rule(part=st.integers(0, 3), many=st.booleans())
    def adjust_to(self, part: int, *, many: bool) -> None:
        to = self.value * part // 4
        self.many(to=to) if many else self.call("adjust", to=to, **self.WHO)
        self.corrected(to - self.value)

    @rule()
    def reset(self) -> None:
        self.call("reset", **self.WHO)
        self.corrected(-self.value)

    @rule(days=st.sampled_from([1, 16, 31]))
    def time_passes(self, days: int) -> None:
        type(self).now = self.now + timedelta(days=days)

    @invariant()
    def the_periods_agree(self) -> None:
        found = {one.period: (one.used, one.available) for one in self.quotas()}
        cells = dict(self.cells(self.now))
        used = {by: self.used.get((by, start), 0) for by, start in cells.items()}
        assert found == {by: (n, max(self.CEILINGS[by] - n, 0)) for by, n in used.items()}
        assert self.call("value") == self.value


class _NamedQuotas(_Quotas):
    """The same, with `forget`, which named counters alone have."""

    @rule()
    def forget(self) -> None:
        assert Counter.objects.forget(KEY) == self.value
        self.value, self.used = 0, {}


class _FieldQuotas(_Quotas):
    """The same of a record."""

    CEILINGS: ClassVar = {"month": 10}

    def begin(self) -> None:
        self.member = Member.objects.create()

    def call(self, name: str, *args: Any, **said: Any) -> Any:
        said.pop("tags", None)
        return getattr(self.member.requests, name)(*args, **said)

    def quotas(self) -> tuple[series.QuotaUsage, ...]:
        return series.quotas(self.member.requests)

    def many(self, **asked: int) -> None:
        for name, by in asked.items():
            said: dict[str, Any] = {name: {self.member.pk: by}, **self.WHO, "case": uuid4().hex}
            Member.objects.adjust_many("requests", **said)


@pytest.mark.rare
@pytest.mark.parametrize("model", [_NamedQuotas, _FieldQuotas])
def test_nothing_that_is_taken_back_opens_a_quota(
    model: type[_Quotas], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "utc", lambda: model.now)
    quotas = {"CEILING": _Quotas.CEILINGS, "FLOOR": 0, "TAGS": {"model": 2}}
    with (
        override_settings(TIME_ZONE="UTC"),
        override_counters(calls=quotas),
    ):
        CounterMeasure.objects.all().delete()
        registry.forget_strategies()
        machines.run(model, request, steps=30, examples=12, slow=200)
    registry.forget_strategies()
