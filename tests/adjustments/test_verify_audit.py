"""Whatever the owner of the table does to the adjustments is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries

from django_counters.adjustments import audit
from django_counters.adjustments.audit import (
    CHANGED,
    MISSING,
    REPLACED,
    UNBALANCED,
    UNEXPECTED,
    Anchor,
    Flaw,
    verify_audit,
)
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment, CounterIncident
from django_counters.testing import override_counters
from tests.chains import _guarded, append, spoil, unguarded, write_anew  # noqa: F401 - a fixture
from tests.schemas import changes_schema

pytestmark = [changes_schema, pytest.mark.usefixtures("guarded")]

# What somebody might put instead, for each column that can be changed alone.
OTHERS: dict[str, str] = {
    "field": "'shop.Product.stock'",
    "key": "'stock:b'",
    "before": f"{connection.ops.quote_name('before')} - 1",
    "after": "after + 1",
    "delta": "delta - 1",
    "reason": "'none'",
    "case": "''",
    "actor_id": "'1'",
    "actor_name": "'eve'",
    "approver_id": "''",
    "approver_name": "''",
    "request_id": "''",
    "entry": "NULL",
    "created_at": "'2020-01-01 00:00:00'",
}


def flaws(anchor: Anchor | None = None) -> list[Flaw]:
    return verify_audit(anchor=anchor).flaws


def head(using: str = "default") -> Anchor:
    found = verify_audit(using).head
    assert found is not None
    return found


def forget() -> None:
    """As somebody does who knows where the last head is kept."""
    Counter.objects.filter(key__startswith="counters.audited:").delete()


def change(number: int, column: str, value: str) -> None:
    spoil(f"UPDATE {{}} SET {connection.ops.quote_name(column)} = {value} WHERE number = {number}")


class TestWhatIsSound:
    def test_nothing_at_all(self) -> None:
        assert verify_audit() == audit.AuditReport()

    def test_a_chain(self) -> None:
        append(3)
        report = verify_audit()
        last = CounterAdjustment.objects.get(number=3)
        assert (report.checked, report.head, report.flaws) == (3, (3, last.digest), [])
        assert not CounterIncident.objects.exists()

    @pytest.mark.parametrize("kept", [1, 2, 3])
    def test_an_anchor_holds_however_many_came_later(self, kept: int) -> None:
        append(kept)
        anchor = head()
        append(3 - kept)
        assert flaws(anchor) == []

    @pytest.mark.parametrize("rows", [3, 4, 5])
    def test_it_reads_page_by_page(
        self,
        rows: int,
        monkeypatch: pytest.MonkeyPatch,
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        append(rows)
        monkeypatch.setattr(audit, "PAGE", 2)
        verify_audit()
        # Before the walk the head that is kept and what requests led to; after it the ledger, and
        # the head.
        with django_assert_num_queries(rows // 2 + rows % 2 + 1 + 4):
            assert verify_audit().checked == rows

    def test_adjustments_that_are_made_meanwhile_do_no_harm(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(3)
        monkeypatch.setattr(audit, "PAGE", 2)
        pages = 0

        def meanwhile(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            nonlocal pages
            found = execute(sql, *rest)
            if sql.startswith("SELECT") and "ASC LIMIT 2" in sql:
                pages += 1
                if pages == 1:
                    append()
            return found

        with connection.execute_wrapper(meanwhile):
            report = verify_audit()
        assert pages == 3
        assert (report.checked, report.flaws) == (4, [])


class TestWhatIsFound:
    @pytest.mark.parametrize(
        ("column", "number"), [*((name, 2) for name in OTHERS), ("reason", 1), ("reason", 4)]
    )
    def test_a_changed_column(self, column: str, number: int) -> None:
        append(4)
        change(number, column, OTHERS[column])
        assert flaws() == [Flaw(number, number, CHANGED)]

    def test_every_column_is_looked_at(self) -> None:
        columns = {field.attname for field in CounterAdjustment._meta.concrete_fields}
        # Of these two there are tests below.
        assert set(OTHERS) == columns - {"number", "digest"}

    def test_a_changed_row_with_the_digest_it_should_have(self) -> None:
        append(3)
        change(2, "reason", "'none'")
        (third,) = CounterAdjustment.objects.filter(number=3).values_list("digest", flat=True)
        write_anew()
        change(3, "digest", f"'{third}'")
        assert flaws() == [Flaw(3, 3, CHANGED)]

    @pytest.mark.parametrize(
        ("done", "found"),
        [
            ([f"UPDATE {{}} SET digest = '{'0' * 64}' WHERE number = 2"], [Flaw(2, 3, CHANGED)]),
            (["DELETE FROM {} WHERE number = 1"], [Flaw(1, 1, MISSING)]),
            (["DELETE FROM {} WHERE number IN (2, 3)"], [Flaw(2, 3, MISSING)]),
            # A changed row after a gap is found by the next one.
            (
                ["DELETE FROM {} WHERE number = 1", "UPDATE {} SET reason = '' WHERE number = 3"],
                [Flaw(1, 1, MISSING), Flaw(3, 3, CHANGED)],
            ),
            # Numbers of deleted rows are given again.
            (
                [
                    "DELETE FROM {} WHERE number = 2",
                    *(f"UPDATE {{}} SET number = {n - 1} WHERE number = {n}" for n in (3, 4, 5)),
                ],
                [Flaw(2, 4, CHANGED)],
            ),
        ],
    )
    def test_what_was_done_to_five(self, done: list[str], found: list[Flaw]) -> None:
        append(5)
        for sql in done:
            spoil(sql)
        assert flaws() == found

    def test_rows_that_changed_places(self) -> None:
        append(4, reason="one")
        append(reason="five")
        for number, to in ((2, 100), (5, 2), (100, 5)):
            change(number, "number", str(to))
        assert flaws() == [Flaw(2, 3, CHANGED), Flaw(5, 5, CHANGED)]

    def test_an_adjustment_that_does_not_add_up(self) -> None:
        append()
        append(before=5, after=9, delta=1)
        assert flaws() == [Flaw(2, 2, UNBALANCED)]

    def test_neighbours_with_different_problems_are_told_apart(self) -> None:
        append()
        append(delta=1)
        append()
        change(3, "reason", "'none'")
        assert flaws() == [Flaw(2, 2, UNBALANCED), Flaw(3, 3, CHANGED)]

    def test_a_number_that_was_never_given(self) -> None:
        append(2)
        with unguarded():
            (row,) = CounterAdjustment.objects.filter(number=2)
            row.number = 0
            CounterAdjustment._base_manager.bulk_create([row])
        assert flaws() == [Flaw(0, 0, UNEXPECTED)]


class TestAnchors:
    def test_rows_cut_off_at_the_end(self) -> None:
        append(5)
        anchor = head()
        spoil("DELETE FROM {} WHERE number > 3")
        # As long as it is so: what was found does not become what is compared with.
        assert flaws() == flaws() == [Flaw(4, 5, MISSING)]
        forget()
        # Nothing that is left says that there were more.
        assert flaws() == []
        assert flaws(anchor) == [Flaw(4, 5, MISSING)]

    @pytest.mark.parametrize("anchored", [True, False])
    def test_all_of_them_gone(self, anchored: bool) -> None:
        append(2)
        anchor = head()
        spoil("DELETE FROM {}")
        assert flaws(anchor if anchored else None) == [Flaw(1, 2, MISSING)]

    def test_what_requests_led_to(self) -> None:
        append(2)
        asked = {"key": "stock:a", "by": 1, "expected": 0, "requester_name": "ann"}
        decided = {"state": "approved", "decider_name": "bob", "adjustment": 2}
        AdjustmentRequest.objects.create(**asked, **decided)
        assert flaws() == []
        spoil("DELETE FROM {}")
        forget()
        assert flaws() == [Flaw(1, 2, MISSING)]

    @pytest.mark.parametrize("left", [0, 2])
    def test_what_the_ledger_has_of_them(self, left: int) -> None:
        with override_counters(orders={"STRATEGY": "ledger"}):
            Counter.objects.increment("orders:a", 9)
            for _ in range(3):
                Counter.objects.adjust("orders:a", by=2, reason="a stocktake", actor="ann")
            Counter.objects.forget("orders:a")
        append()
        assert flaws() == []
        # That of a counter without a ledger leaves nothing behind.
        spoil(f"DELETE FROM {{}} WHERE number > {left}")
        forget()
        assert flaws() == [Flaw(left + 1, 3, MISSING)]

    def test_the_last_head_is_kept(self) -> None:
        before = None
        for _ in range(3):
            append()
            report = verify_audit()
            assert report.kept == before
            before = report.head
        assert list(Counter.objects.values_list("key", "value")) == [
            (f"counters.audited:{before.digest if before else None}", 3)
        ]

    @pytest.mark.postgresql
    def test_where_nothing_can_be_written(self, caplog: pytest.LogCaptureFixture) -> None:
        append(2)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            assert verify_audit().checked == 2
            transaction.set_rollback(True)
        assert any("the head is not kept" in line for line in caplog.messages)

    def test_a_chain_that_was_written_anew(self) -> None:
        append(4)
        anchor = head()
        change(2, "reason", "'none'")
        write_anew()
        append()
        assert flaws() == flaws(anchor) == [Flaw(4, 4, REPLACED)]
        forget()
        assert flaws() == []

    def test_it_is_read_as_it_is_written(self) -> None:
        append(2)
        assert Anchor.parse(str(head())) == head()
        a = "a" * 64
        for text in ("", "3", f"0:{a}", f"3:{a[1:]}", f"3:{a.upper()}", f"-1:{a}"):
            with pytest.raises(ValueError, match="isn't an anchor"):
                Anchor.parse(text)


class TestIncidents:
    def test_each_finding_is_written_down_once(self) -> None:
        append(5)
        spoil("DELETE FROM {} WHERE number IN (2, 4)")
        flaws()
        flaws()
        found = CounterIncident.objects.order_by("pk").values_list("kind", "subject", "detail")
        assert list(found) == [
            ("audit", f"adjustment {n}", {"first": n, "last": n, "problem": MISSING})
            for n in (2, 4)
        ]


class TestCommand:
    def output(self, *arguments: str) -> str:
        self.out = StringIO()
        call_command("counters", "audit", *arguments, stdout=self.out)
        return self.out.getvalue().strip()

    def test_it_fails_and_names_the_numbers(self) -> None:
        append(6)
        anchor = head()
        spoil("DELETE FROM {} WHERE number IN (2, 3, 6)")
        said = "2 findings: 2-3: missing, 6: missing"
        with pytest.raises(CommandError, match=said):
            self.output("--anchor", str(anchor))
        assert self.out.getvalue().startswith("3 adjustments checked; head 5:")

    def test_it_prints_the_head_or_one_object(self) -> None:
        assert self.output() == "0 adjustments checked"
        append(2)
        first = self.output()
        assert first == f"2 adjustments checked; head {head()}"
        assert self.output() == f"{first}; compared with {head()}"
        assert self.output("--anchor", str(head())) == self.output()
        both = {"head": str(head()), "kept": str(head())}
        sound = {"database": "default", "checked": 2, **both, "flaws": []}
        assert json.loads(self.output("--json")) == sound
        spoil("DELETE FROM {} WHERE number = 1")
        with pytest.raises(CommandError, match="1: missing"):
            self.output("--json")
        flaw = {"first": 1, "last": 1, "problem": MISSING}
        assert json.loads(self.out.getvalue()) == {**sound, "checked": 1, "flaws": [flaw]}

    def test_it_refuses_what_is_no_anchor(self) -> None:
        with pytest.raises(CommandError, match=r"'x' isn't an anchor. Pass NUMBER:DIGEST"):
            self.output("--anchor", "x")
