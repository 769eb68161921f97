"""The promises of the ledger: entries, values, bounds, transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.errors import (
    CounterOverflow,
    InvalidConfiguration,
    UnsupportedBounds,
    UnsupportedConsistency,
)
from django_counters.models import Counter, CounterDelta
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, Unknown
from tests.settling import roll_up

LOWEST, HIGHEST = INT8
LEDGER: dict[str, Any] = {
    "orders": {"STRATEGY": "ledger"},
    "likes": {"STRATEGY": "sharded"},
    "stock": {"FLOOR": 0},
    "quota": {"CEILING": 9},
}
FRAME = ("BEGIN", "SAVEPOINT", "RELEASE", "COMMIT")
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(**LEDGER)


def entries(using: str = "default") -> list[tuple[str, int]]:
    rows = CounterDelta.objects.using(using).order_by("seq")
    return list(rows.values_list("key", "delta"))


def totals() -> dict[str, tuple[int, int | None]]:
    """What is rolled up, and how much of it came from elsewhere."""
    rows = Counter.objects.values_list("key", "value", "outside")
    return {key: (value, outside) for key, value, outside in rows}


def fresh() -> UUID:
    """A token that nobody has used."""
    return mint(clock.utc())


def statements(do: Callable[[], Any]) -> int:
    """How many are executed, without those that open and end transactions."""
    with CaptureQueriesContext(connection) as captured:
        do()
    return len([one for one in captured if not one["sql"].upper().startswith(FRAME)])


class TestAppending:
    def test_every_change_is_an_entry_and_the_total_waits_for_its_rollup(self) -> None:
        Counter.objects.increment("orders:a", 5)
        Counter.objects.decrement("orders:a", 2)
        Counter.objects.increment("orders:b", -7)
        assert entries() == [("orders:a", 5), ("orders:a", -2), ("orders:b", -7)]
        first = CounterDelta.objects.order_by("seq")[0]
        assert (first.kind, str(first)) == (CounterDelta.Kind.INCREMENT, "orders:a +5")
        assert totals() == {"orders:a": (0, 0), "orders:b": (0, 0)}

    def test_nobody_alters_or_deletes_one(self) -> None:
        Counter.objects.increment("orders:a")
        (entry,) = CounterDelta.objects.all()
        with pytest.raises(TypeError, match="append"):
            entry.save()
        with pytest.raises(TypeError, match="corrects"):
            entry.delete()

    def test_nor_many_of_them(self) -> None:
        Counter.objects.increment("orders:a")
        rows = CounterDelta.objects.filter(key="orders:a")
        refused: list[Callable[[], Any]] = [
            rows.delete,
            lambda: rows.update(delta=5),
            lambda: rows.bulk_update(rows, ["delta"]),
            lambda: CounterDelta.objects.create(key="orders:a", delta=5),
            lambda: CounterDelta.objects.bulk_create([CounterDelta(key="orders:a", delta=5)]),
            lambda: CounterDelta.objects.get_or_create(key="orders:b"),
            lambda: CounterDelta.objects.update_or_create(key="orders:a"),
        ]
        for call in refused:
            with pytest.raises(TypeError, match="append one that corrects"):
                call()
        assert entries() == [("orders:a", 1)]


def test_to_ask_what_is_returned_for_a_number_is_an_error() -> None:
    """An append reads nothing, so there is no number to return, and none to be taken for one."""
    one: Any = Counter.objects.increment("orders:a", 5)
    assert (one.key, one.replayed, repr(one)) == (
        "orders:a",
        False,
        f"<appended: orders:a: {one.reason}>",
    )
    assert CounterDelta.objects.get(token=str(one.token)).delta == 5
    many = Counter.objects.increment_many({"orders:a": 1, "orders:b": 2})
    for returned in (one, many["orders:a"]):
        assert returned.value is None
        assert "without reading" in returned.reason
        assert returned.key == "orders:a"


@pytest.mark.postgresql
class TestStatements:
    def test_an_append_is_one(self) -> None:
        for _ in range(2):
            # The first one of a counter, and the second one.
            assert statements(lambda: Counter.objects.increment("orders:a")) == 1
            assert statements(lambda: CounterDelta.objects.append("plain", 1)) == 1
        token = fresh()
        for _ in range(2):
            # The first call with a token, and a replay.
            assert statements(lambda: Counter.objects.increment("orders:a", token=token)) == 1

    def test_so_are_many(self) -> None:
        many = {f"orders:{number}": 1 for number in range(100)}
        assert statements(lambda: Counter.objects.increment_many(many)) == 1
        assert statements(lambda: CounterDelta.objects.append_many(many.items())) == 1
        tokened = [(key, by, fresh()) for key, by in many.items()]
        assert statements(lambda: CounterDelta.objects.append_many(tokened)) == 1

    def test_and_what_is_read(self) -> None:
        Counter.objects.increment_many({"orders:a": 1, "likes:a": 1, "plain": 1})
        for call in (
            lambda: Counter.objects.value("orders:a"),
            lambda: Counter.objects.read("orders:a"),
            lambda: Counter.objects.read("orders:a", consistency="rolled_up"),
            lambda: Counter.objects.values_of(["orders:a", "likes:a", "plain", "never"]),
        ):
            assert statements(call) == 1


class TestReading:
    def test_a_rolled_up_one_is_the_total_alone(self) -> None:
        Counter.objects.create(key="orders:a", value=100)
        before = clock.now()
        Counter.objects.increment("orders:a", 7)
        reading = Counter.objects.read("orders:a", consistency="rolled_up")
        assert (reading.value, reading.total, reading.pending) == (100, 100, 0)
        assert reading.consistency == "rolled_up"
        # It promises nothing of what came after.
        assert reading.as_of < before

    def test_other_consistencies_are_refused(self) -> None:
        with pytest.raises(UnsupportedConsistency, match="exact, rolled_up"):
            Counter.objects.read("orders:a", consistency="cached")
        with pytest.raises(UnsupportedConsistency, match="only: exact"):
            Counter.objects.read("plain", consistency="rolled_up")

    @pytest.mark.django_db(transaction=True)
    def test_a_rollup_moves_the_tail_into_the_total(self) -> None:
        Counter.objects.increment_many({"orders:a": 5, "orders:b": -5})
        Counter.objects.decrement("orders:a", 2)
        before = clock.now() - timedelta(milliseconds=1)
        assert roll_up().entries == 3
        # The second one can say for sure that nothing of before is missing.
        assert roll_up().entries == 0
        exact = Counter.objects.read("orders:a")
        rolled_up = Counter.objects.read("orders:a", consistency="rolled_up")
        assert (exact.total, exact.pending) == (3, 0)
        assert rolled_up.value == 3
        assert before <= rolled_up.as_of <= clock.now()
        assert totals() == {"orders:a": (3, 0), "orders:b": (-5, 0)}
        # Entries stay.
        assert len(entries()) == 3


class TestBounds:
    @pytest.mark.parametrize(("key", "by"), [("stock:a", -5), ("stock:a", 5), ("quota:a", 10)])
    def test_entries_are_no_way_around_a_floor(self, key: str, by: int) -> None:
        Counter.objects.increment("stock:a", 2)
        with pytest.raises(UnsupportedBounds):
            CounterDelta.objects.append(key, by)
        with pytest.raises(UnsupportedBounds):
            CounterDelta.objects.append_many([("orders:a", 1), (key, by)])
        assert entries() == []
        assert_counts({"stock:a": 2})


def test_what_the_retention_may_be() -> None:
    def kept(days: object) -> override_counters:
        return override_counters(kept={"STRATEGY": "ledger", "OPTIONS": {"retention_days": days}})

    for days in (3, True, 90.0):
        with kept(days), pytest.raises(InvalidConfiguration, match="None or 4 or more"):
            Counter.objects.increment("kept:a")
    for expected, fits in enumerate((None, 4, 36_500), 1):
        with kept(fits):
            Counter.objects.increment("kept:a")
            assert_counts({"kept:a": expected})


class TestRange:
    @pytest.mark.parametrize(("edge", "by"), [(HIGHEST, 1), (LOWEST, -1)])
    def test_a_total_that_could_not_take_it_refuses_it(self, edge: int, by: int) -> None:
        Counter.objects.create(key="orders:a", value=edge - 5 * by)
        with transaction.atomic():
            for _ in range(2):
                with pytest.raises(CounterOverflow) as caught:
                    Counter.objects.increment("orders:a", 6 * by)
                with pytest.raises(CounterOverflow):
                    Counter.objects.increment_many({"orders:b": 1, "orders:a": 6 * by})
            # The caller's transaction goes on.
            Counter.objects.increment("orders:a", 5 * by)
        assert caught.value.key == "orders:a"
        assert entries() == [("orders:a", 5 * by)]
        assert_counts({"orders:a": edge, "orders:b": 0})

    def test_the_sum_of_a_call_counts(self) -> None:
        with pytest.raises(CounterOverflow):
            CounterDelta.objects.append_many([("orders:a", HIGHEST), ("orders:a", HIGHEST)])
        CounterDelta.objects.append_many([("orders:a", HIGHEST), ("orders:a", LOWEST)])
        assert_counts({"orders:a": -1})


class TestTransactions:
    def test_a_savepoint_takes_the_mark_of_the_ledger_with_it(self) -> None:
        """A counter that never had an entry is again one of which the ledger knows nothing."""
        Counter.objects.increment("plain", 5)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            CounterDelta.objects.append("plain", 2)
            CounterDelta.objects.append("new", 2)
            assert totals() == {"plain": (5, 5), "new": (0, 0)}
            raise ZeroDivisionError
        assert totals() == {"plain": (5, None)}
        assert Counter.objects.increment("plain") == 6
        assert totals() == {"plain": (6, None)}


@pytest.mark.postgresql
@pytest.mark.parametrize("order", [("plain", "orders:a"), ("orders:a", "plain")])
def test_what_others_wait_for_comes_after_what_nobody_waits_for(order: tuple[str, str]) -> None:
    with CaptureQueriesContext(connection) as captured:
        Counter.objects.increment_many(dict.fromkeys(order, 1))
    called = [one["sql"] for one in captured if "django_counters_a" in one["sql"]]
    assert ["append" in sql for sql in called] == [True, False]


class TestCollector:
    def test_a_block_appends_one_entry_for_each_counter(self) -> None:
        with Counter.objects.collect():
            returned = Counter.objects.increment("orders:a")
            Counter.objects.increment_many({"orders:a": 2, "orders:b": 3, "plain": 1})
            assert isinstance(returned, Unknown)
            assert entries() == []
            assert_counts({"orders:a": 3, "orders:b": 3, "plain": 1})
            reading = Counter.objects.read("orders:a")
            assert (reading.value, reading.total, reading.pending) == (3, 0, 3)
        assert sorted(entries()) == [("orders:a", 3), ("orders:b", 3)]
        assert_counts({"orders:a": 3, "orders:b": 3, "plain": 1})

    def test_an_entry_of_its_own_is_not_collected(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("orders:a", 2)
            CounterDelta.objects.append("orders:a", 3)
            assert entries() == [("orders:a", 3)]
            assert_counts({"orders:a": 5})
        assert_counts({"orders:a": 5})
