"""The ledger and its rollup among transactions that end late: every read is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction

from django_counters.ledger import upkeep as ledger
from django_counters.ledger.horizon import SqlHorizon
from django_counters.models import Counter, CounterDelta
from django_counters.stores.sql.dialects.spelling import HORIZON
from django_counters.upkeep import rollup, verify
from tests.concurrency.crowd import PATIENCE
from tests.concurrency.servers import be_patient, connected, execute, hurry, server, waiting
from tests.concurrency.waiting import until
from tests.settling import let_others_end, roll_up

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _connections(transactional_db: None) -> Iterator[None]:
    hurry(2_000)
    make("a")
    with connected("late", "later", "roller"):
        yield
    be_patient()


def make(*keys: str, using: str = "default") -> None:
    """Counters that have been in the ledger before: the first entry of one is waited for."""
    counters = [Counter(key=key, value=0, outside=0) for key in keys]
    Counter.objects.using(using).bulk_create(counters)


def append(key: str, by: int = 1, using: str = "default") -> int:
    CounterDelta.objects.append(key, by, using=using)
    return by


def value(key: str, using: str = "default") -> int:
    return Counter.objects.value(key, using=using)


def assert_all_rolled_up(key: str, expected: int, using: str = "default") -> None:
    assert value(key, using) == expected
    roll_up(using)
    assert value(key, using) == expected
    assert Counter.objects.using(using).get(key=key).value == expected
    assert verify(using).drifts == []


class TestLateCommits:
    """What is committed is in every read, whenever and wherever its transaction began."""

    def test_a_transaction_that_is_open_during_several_rollups(self) -> None:
        with transaction.atomic(using="late"):
            append("a", 100, using="late")
            for turn in range(1, 4):
                append("a")
                assert rollup().waiting > 0
                assert value("a") == turn
        assert value("a") == 103
        assert_all_rolled_up("a", 103)

    @pytest.mark.postgresql
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_a_writer_of_another_database_of_the_server(self) -> None:
        """It holds the rollup up, which does no harm; the rollup goes on when it has ended."""
        with transaction.atomic(using="other"):
            append("a", 100, using="other")
            for turn in range(1, 4):
                append("a")
                assert rollup().entries == 0
                assert value("a") == turn
            holder = ledger.state().holder
            assert holder is not None
        assert value("a") == 3
        assert_all_rolled_up("a", 3)
        assert_all_rolled_up("a", 100, "other")

    @pytest.mark.postgresql
    def test_a_prepared_transaction(self) -> None:
        with server(max_prepared_transactions="2") as settings, connected("prepared", **settings):
            call_command("migrate", run_syncdb=True, database="prepared", verbosity=0)
            make("a", using="prepared")
            _prepare("a", "one", "two")
            for turn in range(1, 4):
                append("a", using="prepared")
                assert rollup("prepared").waiting == turn
                assert value("a", "prepared") == turn
            holder = ledger.state("prepared").holder
            assert holder is not None
            assert holder.what == "prepared transaction"
            execute("COMMIT PREPARED 'one'", using="prepared")
            assert value("a", "prepared") == 103
            execute("ROLLBACK PREPARED 'two'", using="prepared")
            assert_all_rolled_up("a", 103, "prepared")

    @pytest.mark.postgresql  # a rollup in a transaction holds up who appends elsewhere
    def test_every_order_of_two_writers_and_a_rollup(self) -> None:
        """After each step of each order the value is what was committed."""
        tried = list(orders((2, 2, 2)))
        make(*(f"order:{number}" for number in range(90)))
        for number, order in enumerate(tried):
            key = f"order:{number}"
            actors = [writes(key, 100, "late"), writes(key, 1, "later"), folds()]
            committed = 0
            for turn in order:
                committed += next(actors[turn])
                assert value(key) == committed, order
        assert len(tried) == 90
        for number in range(90):
            assert value(f"order:{number}") == 101
        roll_up()
        totals = Counter.objects.filter(key__startswith="order:").values_list("value", flat=True)
        assert list(totals) == [101] * 90
        assert verify().drifts == []


def _prepare(key: str, *names: str) -> None:
    """Transactions that append 100, and that neither end nor belong to a connection any more."""
    for name in names:
        transaction.set_autocommit(False, using="prepared")
        append(key, 100, using="prepared")
        execute(f"PREPARE TRANSACTION '{name}'", using="prepared")
        transaction.set_autocommit(True, using="prepared")


def orders(steps: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All orders of so many steps of each actor."""
    if not any(steps):
        yield ()
    for actor, left in enumerate(steps):
        if left:
            rest = (*steps[:actor], left - 1, *steps[actor + 1 :])
            for order in orders(rest):
                yield (actor, *order)


def writes(key: str, by: int, using: str) -> Iterator[int]:
    """A writer in steps, and what each has committed."""
    with transaction.atomic(using=using):
        append(key, by, using)
        with transaction.atomic(using=using):
            append(key, 1000, using)
            transaction.set_rollback(True, using=using)
        yield 0
    yield by


def folds() -> Iterator[int]:
    """A rollup in steps; meanwhile another one finds that there is nothing to do for it."""
    with transaction.atomic(using="roller"):
        assert SqlHorizon("roller").fold() is not None
        assert SqlHorizon("default").fold() is None
        yield 0
    assert SqlHorizon("default").fold() is not None
    yield 0


class TestRollers:
    @pytest.mark.postgresql  # the same
    def test_one_that_finds_another_at_work_goes_home_at_once(self) -> None:
        append("a", 5)
        let_others_end()
        with transaction.atomic(using="roller"):
            folded = SqlHorizon("roller").fold()
            assert folded is not None
            assert folded.entries == 1
            # Who waited here would wait for ever: the other one is this very thread.
            execute("SET statement_timeout = '900ms'", using="later")
            assert SqlHorizon("later").fold() is None
            assert rollup("later").entries == 0
            assert value("a") == 5
        assert_all_rolled_up("a", 5)

    @pytest.mark.postgresql  # for MySQL it is in `test_mysql`
    def test_one_that_another_overtakes_sees_nothing_wrong(self) -> None:
        def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            if "FOR UPDATE" in sql:
                append("a", 5)
                roll_up()
            return execute(sql, *rest)

        with connections["roller"].execute_wrapper(overtake):
            assert SqlHorizon("roller").fold() is not None
        assert_all_rolled_up("a", 5)

    @pytest.mark.postgresql  # elsewhere readers do not wait for whoever has locked a table
    @pytest.mark.parametrize(
        "read",
        [
            lambda: value("a"),
            lambda: Counter.objects.values_of(["a"])["a"],
            lambda: Counter.objects.read("a").value,
            lambda: Counter.objects.explain("a").value,
        ],
        ids=["value", "values_of", "read", "explain"],
    )
    def test_a_rollup_in_the_middle_of_a_read(
        self, read: Callable[[], int], elsewhere: Callable[[Callable[[], Any]], Any]
    ) -> None:
        """Total and tail are of one moment, although they are asked for one after the other."""
        append("a", 5)
        let_others_end()
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic(using="roller"):
                # Readers go as far as to the horizon, that is after they have seen the total.
                execute(f"LOCK TABLE {HORIZON}", using="roller")
                folded = SqlHorizon("roller").fold()
                assert folded is not None
                assert folded.entries == 1
                reading = pool.submit(elsewhere, read)
                until(lambda: waiting() == 1, "a reader that waits")
            assert reading.result(PATIENCE) == 5
