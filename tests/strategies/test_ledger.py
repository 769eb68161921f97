"""The promises of the ledger: entries, values, bounds, transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.checks import run_checks
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext, override_settings

from django_counters import clock
from django_counters.exceptions import (
    CounterOverflow,
    InsufficientCount,
    InvalidConfiguration,
    InvalidDelta,
    InvalidKey,
    UnsupportedBounds,
    UnsupportedConsistency,
    ValueNotKnown,
)
from django_counters.models import Counter, CounterDelta
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.types import INT8
from django_counters.values import Appended
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
    def test_every_change_is_an_entry(self) -> None:
        Counter.objects.increment("orders:a")
        Counter.objects.increment("orders:a", 5)
        Counter.objects.decrement("orders:a", 2)
        Counter.objects.increment("orders:b", -7)
        assert entries() == [("orders:a", 1), ("orders:a", 5), ("orders:a", -2), ("orders:b", -7)]
        assert_counts({"orders:a": 4, "orders:b": -7, "orders:c": 0})

    def test_the_total_waits_for_its_rollup(self) -> None:
        Counter.objects.increment("orders:a", 5)
        assert totals() == {"orders:a": (0, 0)}

    def test_an_entry_is_an_increment(self) -> None:
        Counter.objects.increment("orders:a")
        (entry,) = CounterDelta.objects.all()
        assert entry.kind == CounterDelta.Kind.INCREMENT
        assert str(entry) == "orders:a +1"

    def test_each_entry_has_a_token_of_its_own(self) -> None:
        returned: Any = [Counter.objects.increment("orders:a") for _ in range(20)]
        tokens = {one.token for one in returned}
        assert len(tokens) == 20
        assert tokens == set(CounterDelta.objects.values_list("token", flat=True))

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

    def test_any_printable_text_is_kept_as_it_is(self) -> None:
        texts = ["%s", "a*b{c}[d]", '"quoted"', "'", "\\", "größe:Ω", "🎉", "NULL", "a,b"]
        keys = [f"orders:{text}" for text in texts]
        Counter.objects.increment_many(dict.fromkeys(keys, 2))
        for key in keys:
            Counter.objects.increment(key)
        assert Counter.objects.values_of(keys) == dict.fromkeys(keys, 3)
        assert [Counter.objects.value(key) for key in keys] == [3] * len(keys)

    def test_the_manager_of_entries_serves_any_namespace(self) -> None:
        Counter.objects.increment_many({"plain": 1, "likes:a": 1})
        for key in ("plain", "likes:a", "orders:a"):
            CounterDelta.objects.append(key, 5)
        assert_counts({"plain": 6, "likes:a": 6, "orders:a": 5})

    @pytest.mark.parametrize("key", ["", "a b", None, 5, "x" * 201])
    def test_no_bad_key(self, key: Any) -> None:
        for call in (CounterDelta.objects.append, Counter.objects.increment):
            with pytest.raises(InvalidKey):
                call(key, 1)
        assert entries() == []

    @pytest.mark.parametrize("delta", [True, 1.0, "1", None, 0, 2**63])
    def test_no_bad_delta(self, delta: Any) -> None:
        for call in (CounterDelta.objects.append, Counter.objects.increment):
            with pytest.raises(InvalidDelta):
                call("orders:a", delta)
        assert entries() == []


class TestWhatIsReturned:
    """An append reads nothing, so there is no number to return, and none to be taken for one."""

    def test_it_says_what_was_appended(self) -> None:
        returned: Any = Counter.objects.increment("orders:a", 5)
        assert type(returned) is Appended
        assert (returned.key, returned.replayed) == ("orders:a", False)
        assert CounterDelta.objects.get(token=str(returned.token)).delta == 5
        assert repr(returned) == "<appended: orders:a>"

    @pytest.mark.parametrize(
        "use",
        [int, str, bool, float, hash, lambda v: v == 5, lambda v: v + 1, lambda v: f"{v}"],
        ids=["int", "str", "bool", "float", "hash", "equal", "add", "format"],
    )
    def test_to_ask_it_for_a_number_is_an_error(self, use: Callable[[Any], Any]) -> None:
        returned = Counter.objects.increment("orders:a", 5)
        with pytest.raises(ValueNotKnown, match="without reading") as caught:
            use(returned)
        assert caught.value.key == "orders:a"

    def test_the_same_of_many(self) -> None:
        returned: Any = Counter.objects.increment_many({"orders:a": 1, "orders:b": 2})
        assert [value.key for value in returned.values()] == ["orders:a", "orders:b"]
        with pytest.raises(ValueNotKnown):
            sum(returned.values())


@pytest.mark.postgres
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
    def test_an_exact_one_tells_total_from_tail(self) -> None:
        Counter.objects.create(key="orders:a", value=100)
        Counter.objects.increment("orders:a", 7)
        before = clock.now()
        reading = Counter.objects.read("orders:a")
        assert (reading.value, reading.total, reading.pending) == (107, 100, 7)
        assert reading.consistency == "exact"
        assert before <= reading.as_of <= clock.now()

    def test_a_rolled_up_one_is_the_total_alone(self) -> None:
        Counter.objects.create(key="orders:a", value=100)
        before = clock.now()
        Counter.objects.increment("orders:a", 7)
        reading = Counter.objects.read("orders:a", consistency="rolled_up")
        assert (reading.value, reading.total, reading.pending) == (100, 100, 0)
        assert reading.consistency == "rolled_up"
        # It promises nothing of what came after.
        assert reading.as_of < before

    @pytest.mark.parametrize("consistency", ["exact", "rolled_up"])
    def test_what_was_never_counted_is_zero(self, consistency: str) -> None:
        reading = Counter.objects.read("orders:never", consistency=consistency)
        assert (reading.value, reading.total, reading.pending) == (0, 0, 0)

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

    @pytest.mark.django_db(transaction=True)
    def test_counting_goes_on_after_it(self) -> None:
        for turn in range(1, 4):
            Counter.objects.increment("orders:a")
            assert Counter.objects.value("orders:a") == turn
            assert roll_up().entries == 1
            assert Counter.objects.value("orders:a") == turn
        Counter.objects.increment("orders:a")
        reading = Counter.objects.read("orders:a")
        assert (reading.total, reading.pending) == (3, 1)


class TestBounds:
    def test_a_call_cannot_ask_for_what_a_ledger_cannot_hold(self) -> None:
        with pytest.raises(UnsupportedBounds) as caught:
            Counter.objects.decrement("orders:a", floor=0)
        assert (caught.value.key, caught.value.strategy) == ("orders:a", "ledger")
        with pytest.raises(UnsupportedBounds):
            Counter.objects.increment("orders:a", ceiling=10)
        assert entries() == []

    def test_only_the_bound_that_the_value_moves_towards_is_asked(self) -> None:
        Counter.objects.increment("orders:a", floor=0)
        Counter.objects.decrement("orders:a", 3, ceiling=9)
        assert_counts({"orders:a": -2})

    @pytest.mark.parametrize(("key", "by"), [("stock:a", -5), ("stock:a", 5), ("quota:a", 10)])
    def test_entries_are_no_way_around_a_floor(self, key: str, by: int) -> None:
        Counter.objects.increment("stock:a", 2)
        with pytest.raises(UnsupportedBounds):
            CounterDelta.objects.append(key, by)
        with pytest.raises(UnsupportedBounds):
            CounterDelta.objects.append_many([("orders:a", 1), (key, by)])
        assert entries() == []
        assert_counts({"stock:a": 2})


class TestConfiguration:
    @pytest.mark.parametrize(
        ("declared", "code", "message"),
        [
            ({"FLOOR": 0}, "E009", "cannot hold a floor"),
            ({"CEILING": 9}, "E009", "cannot hold a floor or a ceiling"),
            ({"OPTIONS": {"shards": 4}}, "E008", "no option 'shards'"),
            ({"OPTIONS": {"retention": 4}}, "E008", "Did you mean 'retention_days'?"),
            ({"OPTIONS": {"retention_days": 3}}, "E008", "4 or more"),
            ({"OPTIONS": {"retention_days": True}}, "E008", "None or 4"),
            ({"OPTIONS": {"retention_days": 90.0}}, "E008", "None or 4"),
            ({"STRATEGY": "legder"}, "E004", "Did you mean 'ledger'?"),
        ],
    )
    @pytest.mark.django_db(databases=["default", "other"])
    def test_a_mistake_is_found_and_counts_nothing(
        self, declared: Any, code: str, message: str
    ) -> None:
        with override_settings(COUNTERS={"wrong": {"STRATEGY": "ledger", **declared}}):
            (error,) = [e for e in run_checks() if (e.id or "").startswith("counters.")]
            with pytest.raises(InvalidConfiguration):
                Counter.objects.increment("wrong:a")
        assert error.id == f"counters.{code}"
        assert message in error.msg
        assert entries() == []

    @pytest.mark.parametrize("days", [None, 4, 90, 36_500])
    def test_the_retention_may_be(self, days: int | None) -> None:
        with override_counters(kept={"STRATEGY": "ledger", "OPTIONS": {"retention_days": days}}):
            Counter.objects.increment("kept:a")
            assert_counts({"kept:a": 1})


class TestMany:
    def test_strategies_mix(self) -> None:
        many = {"orders:b": 2, "plain": -1, "orders:a": 1, "likes:a": 4, "stock:a": 3}
        for turn in (1, 2):
            returned: Any = Counter.objects.increment_many(many)
            for key, by in many.items():
                if key.startswith("orders:"):
                    assert isinstance(returned[key], Appended)
                else:
                    assert returned[key] == turn * by
        assert sorted(entries()) == [*[("orders:a", 1)] * 2, *[("orders:b", 2)] * 2]
        assert_counts({key: 2 * by for key, by in many.items()})

    def test_a_refused_floor_takes_the_entries_back(self) -> None:
        Counter.objects.increment("stock:a", 2)
        with transaction.atomic():
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement_many({"stock:a": 3, "orders:a": 1, "orders:b": 1})
            Counter.objects.increment("orders:b")
        assert entries() == [("orders:b", 1)]
        assert_counts({"stock:a": 2, "orders:a": 0, "orders:b": 1})

    def test_a_queryset(self) -> None:
        Counter.objects.increment_many({"orders:a": 1, "orders:b": 2, "plain": 3})
        assert Counter.objects.filter(key__startswith="orders:").increment(5) == 2
        assert Counter.objects.filter(key="orders:a").decrement(2) == 1
        assert_counts({"orders:a": 4, "orders:b": 7, "plain": 3})


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

    def test_the_whole_range_is_usable(self) -> None:
        Counter.objects.increment("orders:a", LOWEST)
        assert_counts({"orders:a": LOWEST})
        Counter.objects.increment("orders:a", HIGHEST)
        assert_counts({"orders:a": -1})
