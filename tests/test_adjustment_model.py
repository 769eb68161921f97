"""Adjustments of counters of every kind against a dictionary and a list."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from django.conf import settings as django_settings
from django.db import models, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from django_counters import clock
from django_counters.adjustments.audit import verify_audit
from django_counters.cached.flush import flush
from django_counters.errors import TokenConflict, ValueChanged
from django_counters.ledger.horizon import SqlHorizon
from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterDelta,
    CounterIncident,
    CounterShard,
    CounterToken,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup, verify
from tests import machines
from tests.adjustments.adjustables import KINDS, NAMED, WHO, Adjustable
from tests.chains import unguarded
from tests.conftest import forget_pending
from tests.testapp.models import Article, Post, Song

pytestmark = pytest.mark.rare

DECLARED: dict[str, Any] = {name: kind.declared or {} for name, kind in NAMED.items()}
KEYS = [f"{name}:{letter}" for name in NAMED for letter in "aß"]
# The names of the counters, and of what kinds they are.
RECORDS = {
    "likes": "exact field",
    "plays": "slotted field",
    "reads": "cached field",
    "downloads": "slots",
}
TABLES: list[type[models.Model]] = [
    *(CounterDelta, CounterShard, Counter, CounterToken, CounterIncident, SlottedCounter),
    *(Article, Post, Song),
]
names = st.sampled_from([*KEYS, *RECORDS])
keys = st.sampled_from(KEYS)
amounts = st.integers(-9, 9) | st.sampled_from([-(2**40), 2**40])
deltas = amounts.filter(bool)


class Undone(Exception):
    """Takes a transaction or a savepoint back."""


class Said(NamedTuple):
    """What an adjustment has to say for ever."""

    name: str
    before: int
    after: int
    case: str = ""


class Model(RuleBasedStateMachine):
    """What the counters and the adjustments should be."""

    def __init__(self) -> None:
        super().__init__()
        for model in TABLES:
            model._base_manager.all()._raw_delete("default")
        with unguarded():
            CounterAdjustment._base_manager.all()._raw_delete("default")
        SqlHorizon("default").found()
        forget_pending("default", str(django_settings.CACHES["default"]["KEY_PREFIX"]))
        flush()
        CounterIncident._base_manager.all().delete()
        self.records = {name: Adjustable(KINDS[kind]) for name, kind in RECORDS.items()}
        self.values = dict.fromkeys([*KEYS, *RECORDS], 0)
        self.said: list[Said] = []
        self.used: list[tuple[Any, str, int, int]] = []
        self.cases = 0

    def _adjust(self, name: str, **asked: Any) -> CounterAdjustment:
        if name in KEYS:
            return Counter.objects.adjust(name, **(WHO | asked))
        return self.records[name].adjust(**asked)

    def _adjusted(self, name: str, after: int, row: Any, case: str = "") -> None:
        before = self.values[name]
        assert (row.before, row.after) == (before, after)
        self.said.append(Said(name, before, after, case))
        self.values[name] = after

    @rule(name=names, by=deltas)
    def increment(self, name: str, by: int) -> None:
        if name in KEYS:
            Counter.objects.increment(name, by)
        else:
            self.records[name].increment(by)
        self.values[name] += by

    @rule(many=st.dictionaries(keys, deltas, min_size=1, max_size=4))
    def increment_many(self, many: dict[str, int]) -> None:
        Counter.objects.increment_many(many)
        for name, by in many.items():
            self.values[name] += by

    @rule(name=names, to=amounts, expects=st.booleans())
    def adjust_to(self, name: str, to: int, expects: bool) -> None:
        expected = self.values[name] if expects else None
        row = self._adjust(name, to=to, expected=expected)
        self._adjusted(name, to, row)

    @rule(name=names, by=deltas)
    def adjust_by(self, name: str, by: int) -> None:
        self._adjusted(name, self.values[name] + by, self._adjust(name, by=by))

    @rule(name=names, to=amounts, off=deltas)
    def adjust_what_has_changed(self, name: str, to: int, off: int) -> None:
        with pytest.raises(ValueChanged) as caught:
            self._adjust(name, to=to, expected=self.values[name] + off)
        assert caught.value.current == self.values[name]

    @rule(name=names, by=deltas)
    def adjust_once(self, name: str, by: int) -> None:
        token = mint(clock.utc())
        row = self._adjust(name, by=by, token=token)
        self._adjusted(name, self.values[name] + by, row)
        self.used.append((token, name, by, row.number))

    @precondition(lambda self: self.used)
    @rule(which=st.integers(0, 1000), other=deltas)
    def replay(self, which: int, other: int) -> None:
        token, name, by, number = self.used[which % len(self.used)]
        row = self._adjust(name, by=by, token=token)
        assert (row.number, row.replayed) == (number, True)
        if other != by:
            with pytest.raises(TokenConflict):
                self._adjust(name, by=other, token=token)

    @rule(
        to=st.dictionaries(keys, amounts, min_size=1, max_size=6),
        step=st.integers(1, 4),
        between=st.booleans(),
    )
    def adjust_many(self, to: dict[str, int], step: int, between: bool) -> None:
        self.cases += 1
        asked: dict[str, Any] = {**WHO, "to": to, "case": f"T-{self.cases}", "step": step}
        dry = Counter.objects.adjust_many(**asked, dry_run=True)
        done = Counter.objects.adjust_many(**asked)
        assert (dry.changes, done.refused) == (done.changes, {})
        assert [change.counter for change in done.changes] == list(to)
        for change in done.changes:
            self._adjusted(change.counter, to[change.counter], change, f"T-{self.cases}")
        if between:
            self.increment(next(iter(to)), 1)
        assert Counter.objects.adjust_many(**asked).done == len(to)

    @rule(many=st.dictionaries(keys, deltas, min_size=1, max_size=4), to=amounts)
    def collect(self, many: dict[str, int], to: int) -> None:
        """What is owed is part of the value; what is cached comes when the block has ended."""
        with Counter.objects.collect():
            for name, by in many.items():
                Counter.objects.increment(name, by)
            for name, by in many.items():
                cached = name.startswith("cached:")
                self.values[name] += 0 if cached else by
                self._adjusted(name, to, self._adjust(name, to=to))
                self.values[name] += by if cached else 0

    @rule(name=names, to=amounts, by=deltas)
    def undone(self, name: str, to: int, by: int) -> None:
        """What is taken back was never adjusted, and its number is given again."""
        with transaction.atomic():
            with pytest.raises(Undone), transaction.atomic():
                self._adjust(name, to=to)
                raise Undone
            self._adjusted(name, self.values[name] + by, self._adjust(name, by=by))

    @rule()
    def roll_up(self) -> None:
        assert rollup().stuck == []

    @rule()
    def flush(self) -> None:
        assert flush().quarantined == {}

    @rule(key=keys)
    def explain(self, key: str) -> None:
        found = Counter.objects.explain(key)
        parts = found.total + found.shards + found.tail + (found.redis or 0)
        assert found.value == parts == self.values[key]

    @invariant()
    def the_names_agree(self) -> None:
        assert Counter.objects.values_of(KEYS) == {key: self.values[key] for key in KEYS}

    # These cost more than all other steps together, so they are steps, too.
    @rule()
    def the_values_agree(self) -> None:
        cached = Counter.objects.values_of(KEYS, consistency="cached", max_age=86_400)
        assert cached == {key: self.values[key] for key in KEYS}
        found = {name: record.value() for name, record in self.records.items()}
        assert found == {name: self.values[name] for name in RECORDS}

    @rule()
    def the_adjustments_agree(self) -> None:
        found = CounterAdjustment.objects.order_by("number")
        rows = [
            Said(row.key if not row.field else row.field.rpartition(".")[2], *row_of(row))
            for row in found
        ]
        assert rows == self.said
        assert [row.number for row in found] == list(range(1, len(rows) + 1))

    @rule()
    def nothing_drifts(self) -> None:
        assert verify().drifts == []
        assert verify_audit().flaws == []

    def teardown(self) -> None:
        self.the_values_agree()
        self.the_adjustments_agree()
        self.nothing_drifts()
        assert not CounterIncident.objects.exists()


def row_of(row: CounterAdjustment) -> tuple[int, int, str]:
    assert row.after == row.before + row.delta
    assert (row.entry is not None) == (row.key.startswith("ledger:") and row.delta != 0)
    return row.before, row.after, row.case


@pytest.mark.needs("ledger")
@pytest.mark.django_db(transaction=True)
def test_adjustments_agree_with_a_list(request: pytest.FixtureRequest, cached: str) -> None:
    with override_counters(**DECLARED):
        machines.run(Model, request, steps=40, examples=8, slow=20)
