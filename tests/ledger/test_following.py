"""The ledger is read as an outbox: entries in an order in which a reader may stop and go on."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connection, transaction

from django_counters import clock
from django_counters.errors import PositionGone
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import maintain, rebase
from django_counters.models import Counter, CounterDelta, CounterPosition
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, LedgerPage
from tests.concurrency.narrow import know_tokens_for, narrow
from tests.settling import let_others_end, roll_up

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def append(*amounts: int, key: str = "a", hours_ago: float = 0) -> list[UUID]:
    """An entry of each amount, in a transaction of its own; the tokens."""
    tokens = [mint(clock.utc() - hours_ago * HOUR) for _ in amounts]
    for by, token in zip(amounts, tokens, strict=True):
        CounterDelta.objects.append(key, by, token=token)
    return tokens


def follow(position: str = "", most: int = 1000) -> tuple[list[int], str]:
    """The amounts of all entries after a position, and where the last one is."""
    let_others_end()
    amounts: list[int] = []
    while page := CounterDelta.objects.since(position, most=most):
        amounts += [entry.delta for entry in page]
        assert page.position != position
        position = page.position
    assert page.entries == ()
    return amounts, page.position


class TestPages:
    @pytest.mark.parametrize("most", [1, 3, 1000])
    def test_each_entry_once_in_the_order_of_transactions(self, most: int) -> None:
        append(1, 2)
        CounterDelta.objects.append_many([("a", 3), ("b", 4), ("a", 5)])
        CounterDelta.objects.append_many([("a", 6), ("b", 7)], copy=True)
        amounts, position = follow(most=most)
        assert sorted(amounts) == [1, 2, 3, 4, 5, 6, 7]
        assert amounts[:2] == [1, 2]
        assert set(amounts[2:5]) == {3, 4, 5}
        assert follow(position) == ([], position)
        append(8)
        assert follow(position)[0] == [8]

    def test_an_entry_is_what_the_table_has(self) -> None:
        (token,) = append(5)
        let_others_end()
        (entry,) = CounterDelta.objects.since()
        assert entry == CounterDelta.objects.get(token=token)
        for name in ("token", "created_at", "key", "delta", "kind", "seq"):
            assert getattr(entry, name) == getattr(CounterDelta.objects.get(), name)

    def test_a_rollup_changes_nothing(self) -> None:
        append(1, 2)
        _, position = follow(most=1)
        append(3)
        roll_up()
        append(4)
        roll_up()
        assert follow(position)[0] == [3, 4]
        assert follow()[0] == [1, 2, 3, 4]

    def test_from_now_on(self) -> None:
        append(1)
        let_others_end()
        position = CounterDelta.objects.end()
        assert follow(position) == ([], position)
        append(2, 3)
        assert follow(position)[0] == [2, 3]

    @pytest.mark.postgresql
    def test_many_other_transactions_are_between(self) -> None:
        """So that one stretch of numbers has nothing in it, and the next one is longer."""
        append(1)
        with connection.cursor() as cursor:
            cursor.execute(
                "DO $$ BEGIN FOR i IN 1..200 LOOP "
                "PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
            )
        append(2, 3)
        assert follow(most=2)[0] == [1, 2, 3]

    @pytest.mark.many_writers
    def test_what_does_not_fit_into_its_total_keeps_its_place(self) -> None:
        append(1)
        _, position = follow()
        append(*[INT8[1] // 2] * 3, key="big")
        append(2)
        before = follow(position)[0]
        assert len(before) == 4
        let_others_end()
        roll_up()
        assert follow(position)[0] == before
        append(-INT8[1] // 2, key="big")
        roll_up()
        assert CounterDelta.objects.filter(xid__gte=2**62).count() == 0
        assert follow(position)[0] == [*before, -INT8[1] // 2]

    def test_a_text_that_is_no_position(self) -> None:
        for text in ("x", "1-2", "1-2-3-4-5", "1-2--3", "1-2-3-token"):
            with pytest.raises(ValueError, match=r"position|badly formed"):
                CounterDelta.objects.since(text)
        with pytest.raises(ValueError, match="one entry"):
            CounterDelta.objects.since(most=0)

    def test_a_position_of_this_size_can_be_kept(self) -> None:
        append(1)
        _, position = follow()
        assert len(position) <= 100

    def test_from_async_code(self) -> None:
        async def read() -> LedgerPage[CounterDelta]:
            return await CounterDelta.objects.asince(await CounterDelta.objects.aend())

        assert len(async_to_sync(read)()) == 0


class TestGone:
    """Nothing is left out in silence."""

    @pytest.mark.postgresql
    def test_partitions_that_were_dropped(self) -> None:
        with narrow(6 * HOUR, window=48 * HOUR):
            # Whatever the time is: this partition ends 36 to 42 hours ago, the next one 24 to 30.
            append(1, 2, hours_ago=42)
            append(3, hours_ago=30)
            _, reader = follow(most=2)
            behind = CounterDelta.objects.since(most=1)
            append(4)
            roll_up()
            know_tokens_for(HOUR)
            maintain(width=6 * HOUR)
            assert follow(behind.position)[0] == [2, 3, 4], "what is sealed can be read"
            maintain(width=6 * HOUR, keep=35 * HOUR)
            with pytest.raises(PositionGone, match="dropped"):
                CounterDelta.objects.since(behind.position)
            assert follow(reader)[0] == [4], "this one had read it before"
            # From the beginning is after what is gone.
            assert follow()[0] == [3, 4]
            maintain(width=6 * HOUR, keep=timedelta(0))
            assert follow(reader)[0] == [4]
            assert follow()[0] == [4]
            (row,) = CounterPosition.objects.filter(source="ledger", part="dropped")
            assert row.timeline == "0"

    @pytest.mark.postgresql
    def test_an_idle_ledger_of_which_all_was_read_and_dropped(self) -> None:
        with narrow(6 * HOUR, window=48 * HOUR):
            append(1, hours_ago=40)
            _, position = follow()
            roll_up()
            know_tokens_for(HOUR)
            for _ in range(2):
                maintain(width=6 * HOUR, keep=timedelta(0))
            assert CounterDelta.objects.count() == 0
            assert follow(position) == ([], position)
            append(2)
            assert follow(position)[0] == [2]

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="without partitions: SQLite")
    def test_entries_that_were_deleted(self) -> None:
        append(1, hours_ago=40)
        behind = CounterDelta.objects.since(most=1).position
        append(2, hours_ago=40)
        _, reader = follow()
        roll_up()
        SqlPartitions("default").forget(clock.utc())
        assert CounterDelta.objects.count() == 1, "the last one, which others are numbered after"
        assert follow(behind)[0] == [2], "nothing that this one has not read is gone"
        append(3)
        roll_up()
        SqlPartitions("default").forget(clock.utc())
        with pytest.raises(PositionGone, match="dropped"):
            CounterDelta.objects.since(behind)
        append(4)
        assert follow(reader)[0] == [3, 4]

    def test_a_rebase(self) -> None:
        append(1, 2)
        _, position = follow(most=1)
        rebase()
        with pytest.raises(PositionGone, match="rebase"):
            CounterDelta.objects.since(position)
        assert follow()[0] == []
        append(3)
        assert follow()[0] == [3]

    def test_a_position_of_a_state_that_was_lost(self) -> None:
        """As after a restore to an earlier moment: others get the same numbers."""
        append(1)
        let_others_end()
        fence, xid, seq, token = CounterDelta.objects.since().position.split("-")
        with pytest.raises(PositionGone, match="not of this database"):
            CounterDelta.objects.since("-".join((fence, xid, seq, mint(clock.utc()).hex)))
        with pytest.raises(PositionGone, match="not of this database"):
            CounterDelta.objects.since("-".join((fence, str(int(xid) + 10**9), seq)))
        assert CounterDelta.objects.since("-".join((fence, xid, seq, token))).entries == ()


@pytest.mark.many_writers
class TestWithWhatIsDone:
    def test_a_reader_that_rolls_back_reads_the_page_again(self) -> None:
        append(1)
        let_others_end()
        for _ in range(2):
            with transaction.atomic():
                page = CounterDelta.objects.since()
                assert [entry.delta for entry in page] == [1]
                transaction.set_rollback(True)

    def test_what_a_ledger_appends_in_every_way(self) -> None:
        with override_counters(orders={"STRATEGY": "ledger"}):
            Counter.objects.increment("orders:a", 1)
            Counter.objects.adjust("orders:a", by=5, reason="A test", actor="t")
            amounts, position = follow()
            assert amounts == [1, 5]
            Counter.objects.increment("orders:a", 2)
            call_command("counters", "upkeep", "rollup", verbosity=0)
            assert follow(position)[0] == [2]
