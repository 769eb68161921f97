"""Adjustments: what they change and keep, for every kind of counter, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from django_counters import clock
from django_counters.errors import (
    ApprovalRequired,
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidAdjustment,
    InvalidDelta,
    InvalidKey,
    InvalidToken,
    TokenConflict,
    ValueChanged,
)
from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterDelta,
    CounterShard,
)
from django_counters.signals import counter_adjusted
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import INT8
from django_counters.upkeep import rollup
from tests.adjustments.adjustables import (
    COMMITS,
    KINDS,
    NAMED,
    WHO,
    Adjustable,
    assert_sound,
    everything,
    nothing_written,
    params,
    parts,
    upkeep,
)

pytestmark = pytest.mark.django_db
adjust = Counter.objects.adjust


class TestEveryKind:
    def test_what_it_changes_and_keeps(self, any_counter: Adjustable) -> None:
        """Value = increments + adjustments, wherever the increments wait meanwhile."""
        any_counter.increment(5)
        first = any_counter.adjust(to=12)
        assert (parts(first), any_counter.value()) == ((5, 12, 7), 12)
        any_counter.increment(3)
        second = any_counter.adjust(by=-4)
        assert (parts(second), any_counter.value()) == ((15, 11, -4), 11)
        any_counter.increment(2)
        upkeep()
        assert any_counter.value() == 13
        third = any_counter.adjust(to=0, expected=13)
        assert (parts(third), any_counter.value()) == ((13, 0, -13), 0)
        any_counter.increment(1)
        upkeep()
        assert any_counter.value() == 1
        assert (first.number, second.number, third.number) == (1, 2, 3)
        assert_sound()

    def test_a_refusal_writes_nothing(self, some_counter: Adjustable) -> None:
        some_counter.increment(5)
        with nothing_written(some_counter):
            with pytest.raises(ValueChanged) as caught:
                some_counter.adjust(to=9, expected=4)
            assert (caught.value.expected, caught.value.current) == (4, 5)
            with pytest.raises((CounterOverflow, CeilingExceeded)):
                some_counter.adjust(by=INT8[1])

    @pytest.mark.parametrize("name", params(name for name in KINDS if "32-bit" in name))
    def test_a_narrow_column(self, name: str, cached: str) -> None:
        counter = Adjustable(KINDS[name])
        counter.increment(5)
        for asked in ({"to": 2**31}, {"by": 2**31 - 5}, {"to": -(2**31) - 1}):
            with nothing_written(counter), pytest.raises(CounterOverflow):
                counter.adjust(**asked)
        assert counter.adjust(to=2**31 - 1).after == 2**31 - 1
        assert counter.adjust(to=0).after == 0
        # What waits has to be in the total first: alone it would not fit.
        upkeep()
        assert counter.adjust(to=-(2**31)).after == -(2**31) == counter.value()
        assert_sound()

    @COMMITS
    def test_what_is_rolled_back_never_was(self, some_counter: Adjustable) -> None:
        some_counter.increment(5)
        heard: list[Any] = []
        with _hearing(heard), nothing_written(some_counter), transaction.atomic():
            some_counter.adjust(by=3)
            transaction.set_rollback(True)
        with _hearing(heard), transaction.atomic():
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                some_counter.adjust(by=100)
                raise ZeroDivisionError
            row = some_counter.adjust(by=1)
            assert heard == []
        assert (row.number, parts(row)) == (1, (5, 6, 1))
        assert heard == [(1, "default")]
        assert some_counter.value() == 6
        assert_sound()

    def test_a_token_adjusts_once(self, some_counter: Adjustable) -> None:
        some_counter.increment(5)
        token = mint(clock.utc())
        first = some_counter.adjust(by=3, token=token)
        some_counter.increment(1)
        with nothing_written(some_counter):
            again = some_counter.adjust(by=3, token=token)
            assert (again, again.digest) == (first, first.digest)
            assert (first.replayed, again.replayed) == (False, True)
            for other in ({"by": 4}, {"to": 3}, {"to": 8}):
                with pytest.raises(TokenConflict):
                    some_counter.adjust(token=token, **other)
            with pytest.raises(TokenConflict):
                adjust("other", by=3, token=token, **WHO)
        assert_sound()


class _hearing:  # noqa: N801
    """Keeps the numbers of adjustments that were told of, each with its database."""

    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    def __enter__(self) -> None:
        counter_adjusted.connect(self._hear, sender=CounterAdjustment)

    def __exit__(self, *_: object) -> None:
        counter_adjusted.disconnect(self._hear, sender=CounterAdjustment)

    def _hear(self, adjustment: CounterAdjustment, using: str, **_: Any) -> None:
        assert CounterAdjustment.objects.get(number=adjustment.number).digest == adjustment.digest
        self._heard.append((adjustment.number, using))


class TestRow:
    def test_all_that_is_said_is_kept(self) -> None:
        ann = User.objects.create(username="ann")
        bob = User.objects.create(username="bob")
        # What is kept ends with milliseconds.
        now = clock.now()
        before = now.replace(microsecond=now.microsecond // 1000 * 1000)
        row = adjust(
            "a",
            to=3,
            reason=" counted\nby hand ",
            actor=ann,
            approver=bob,
            case=" T-17 ",
            request_id="r-1",
        )
        identity = str(ann.pk)
        ann.delete()
        found = CounterAdjustment.objects.get()
        assert found.digest == row.digest
        assert before <= found.created_at <= clock.now()
        told = ("field", "key", "reason", "case", "request_id", "entry", "number")
        assert [getattr(found, name) for name in told] == [
            *("", "a", "counted\nby hand", "T-17", "r-1"),
            *(None, 1),
        ]
        people = (found.actor_id, found.actor_name, found.approver_id, found.approver_name)
        assert people == (identity, "ann", str(bob.pk), "bob")

    def test_only_a_ledger_has_an_entry(self, counter: Adjustable) -> None:
        row = counter.adjust(by=3)
        found = list(CounterDelta.objects.values_list("token", "key", "delta", "kind"))
        if counter.strategy == "ledger":
            assert found == [(row.entry, counter.key, 3, CounterDelta.Kind.ADJUSTMENT)]
        else:
            assert (row.entry, found) == (None, [])

    @COMMITS
    def test_a_receiver_that_fails_undoes_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail(**_: Any) -> None:
            raise ZeroDivisionError

        counter_adjusted.connect(fail)
        try:
            adjust("a", to=3, **WHO)
        finally:
            counter_adjusted.disconnect(fail)
        assert Counter.objects.value("a") == 3
        assert "ZeroDivisionError" in caplog.text


BAD: list[dict[str, Any]] = [
    {},
    {"to": 1, "by": 1},
    {"to": 1, "reason": ""},
    {"to": 1, "reason": " \n\t"},
    {"to": 1, "reason": "x" * 1001},
    {"to": 1, "reason": "\0"},
    {"to": 1, "reason": "\ud800"},
    {"to": 1, "actor": ""},
    {"to": 1, "actor": None},
    {"to": 1, "actor": 7},
    {"to": 1, "actor": "x" * 256},
    {"to": 1, "actor": User(username="unsaved")},
    {"to": 1, "approver": ""},
    {"to": 1, "approver": "ann"},
    {"to": 1, "case": " "},
    {"to": 1, "case": "x" * 101},
    {"to": 1, "request_id": "x" * 256},
]


class TestBadInput:
    @pytest.mark.parametrize("asked", BAD, ids=str)
    def test_what_nobody_could_explain_later(self, asked: dict[str, Any]) -> None:
        before = everything()
        with pytest.raises(InvalidAdjustment):
            adjust("a", **WHO | asked)
        assert everything() == before

    def test_what_is_no_amount_no_key_and_no_token(self) -> None:
        no_integers: list[Any] = [True, 1.0, "1", INT8[1] + 1, INT8[0] - 1]
        wrong: list[tuple[type[Exception], str, list[Any]]] = [
            (InvalidDelta, "by", [0, *no_integers]),
            (InvalidDelta, "to", no_integers),
            (InvalidDelta, "expected", no_integers),
            (InvalidKey, "key", ["", "a b", "x" * 201, None, 7]),
            (InvalidToken, "token", ["", 7, b"t", "x" * 256]),
        ]
        for error, name, values in wrong:
            for value in values:
                asked: dict[str, Any] = {"key": "a", **WHO, name: value}
                if name not in ("by", "to"):
                    asked["to"] = 1
                with pytest.raises(error):
                    adjust(**asked)
        assert not CounterAdjustment.objects.exists()

    def test_nobody_approves_their_own(self) -> None:
        ann = User.objects.create(username="ann")
        same = User.objects.get(pk=ann.pk)
        same.username = "renamed"
        for actor, approver in ((ann, ann), (ann, same), ("ann", ann), (ann, "ann")):
            with pytest.raises(InvalidAdjustment, match="another person"):
                adjust("a", to=1, reason="r", actor=actor, approver=approver)
        assert not CounterAdjustment.objects.exists()


class TestBounds:
    def test_a_floor_and_a_ceiling_hold(self, override_counters: Any) -> None:
        override_counters(c={"FLOOR": 0, "CEILING": 10})
        Counter.objects.increment("c:a", 5)
        with pytest.raises(InsufficientCount) as short:
            adjust("c:a", by=-6, **WHO)
        assert (short.value.requested, short.value.available, short.value.floor) == (6, 5, 0)
        with pytest.raises(CeilingExceeded) as full:
            adjust("c:a", to=11, **WHO)
        assert (full.value.requested, full.value.available, full.value.ceiling) == (6, 5, 10)
        with pytest.raises(CeilingExceeded):
            adjust("c:a", to=11, allow_below_floor=True, **WHO)
        assert parts(adjust("c:a", to=10, **WHO)) == (5, 10, 5)
        assert parts(adjust("c:a", to=0, **WHO)) == (10, 0, -10)
        assert parts(adjust("c:a", to=-3, allow_below_floor=True, **WHO)) == (0, -3, -3)
        # Upwards is never refused by a floor.
        assert parts(adjust("c:a", by=1, **WHO)) == (-3, -2, 1)
        assert CounterAdjustment.objects.count() == 4

    def test_the_value_would_fit_but_the_total_alone_does_not(self) -> None:
        with override_counters(c=NAMED["sharded"].declared or {}):
            Counter.objects.create(key="c:a", value=INT8[1])
            CounterShard.objects.increment("c:a", -10)
            before = everything()
            with pytest.raises(CounterOverflow):
                adjust("c:a", by=5, **WHO)
            assert everything() == before
            rollup()
            assert parts(adjust("c:a", by=5, **WHO)) == (INT8[1] - 10, INT8[1] - 5, 5)

    def test_the_whole_range(self, counter: Adjustable) -> None:
        adjust = counter.adjust
        assert parts(adjust(to=INT8[1])) == (0, INT8[1], INT8[1])
        for asked in ({"by": 1}, {"to": INT8[0]}):
            with pytest.raises(CounterOverflow):
                adjust(**asked)
        assert adjust(to=0).delta == -INT8[1]
        assert parts(adjust(to=INT8[0])) == (0, INT8[0], INT8[0])
        with pytest.raises(CounterOverflow):
            adjust(to=0)
        assert counter.value() == INT8[0]
        assert_sound()


class TestApproval:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_above_the_limit_a_second_person_is_needed(
        self, sign: int, override_counters: Any
    ) -> None:
        override_counters(c={"APPROVE_ABOVE": 100})
        assert adjust("c:a", by=100 * sign, **WHO).approver_name == ""
        with pytest.raises(ApprovalRequired) as caught:
            adjust("c:a", by=101 * sign, **WHO)
        assert (caught.value.delta, caught.value.limit) == (101 * sign, 100)
        with pytest.raises(ApprovalRequired):
            adjust("c:a", to=-sign, **WHO)
        assert CounterAdjustment.objects.count() == 1
        row = adjust("c:a", by=101 * sign, approver="bob", **WHO)
        assert (row.approver_name, Counter.objects.value("c:a")) == ("bob", 201 * sign)

    def test_a_limit_of_nothing(self, override_counters: Any) -> None:
        override_counters(c={"APPROVE_ABOVE": 0})
        with pytest.raises(ApprovalRequired):
            adjust("c:a", by=1, **WHO)
        assert adjust("c:a", to=0, **WHO).delta == 0
