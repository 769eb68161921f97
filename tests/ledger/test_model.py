"""The ledger, shards, tokens, rollups and changes of strategy against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from django.db import models, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_counters import clock
from django_counters.contrib import series
from django_counters.errors import (
    CeilingExceeded,
    InsufficientCount,
    TokenConflict,
    UnsupportedHistory,
)
from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.upkeep import rebase
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
    CounterToken,
)
from django_counters.testing import override_counters
from django_counters.tokens import Token, check_token, mint
from django_counters.types import Appended, AppendedMany
from django_counters.upkeep import rollup, verify
from tests import machines

pytestmark = pytest.mark.rare

STRATEGIES: list[dict[str, Any]] = [
    {"STRATEGY": "ledger"},
    {"STRATEGY": "exact"},
    {"STRATEGY": "sharded"},
    {"STRATEGY": "sharded", "OPTIONS": {"shards": 3}},
]
TABLES: list[type[models.Model]] = [
    CounterDelta,
    CounterShard,
    Counter,
    CounterToken,
    CounterHorizon,
    CounterIncident,
]
KEYS = ["a:1", "a:2", "a:\\N", "b:1", "b:größe", "plain"]
keys = st.sampled_from(KEYS)
strategies = st.sampled_from(STRATEGIES)
deltas = st.integers(-9, 9).filter(bool) | st.sampled_from([-(2**40), 2**40])
many_deltas = st.dictionaries(keys, deltas, min_size=1)
routes = st.none() | st.integers(0, 70)
# Which of the tokens that were used, and how old a new one is.
numbers = st.integers(0, 1000)
ages = st.sampled_from([timedelta(), timedelta(hours=1), timedelta(hours=30), timedelta(hours=47)])


class Undone(Exception):
    """Takes a savepoint back."""


class Use(NamedTuple):
    """What a token was used for, and what was returned: None where it was an entry."""

    key: str
    by: int
    value: int | None = None


class Batch(NamedTuple):
    """What a token was used for, and what was returned of those that are no entries."""

    many: dict[str, int]
    values: dict[str, int]


class Model(RuleBasedStateMachine):
    """What the counters should be."""

    def __init__(self) -> None:
        super().__init__()
        for model in TABLES:
            model._base_manager.all()._raw_delete("default")
        SqlHorizon("default").found()
        self.values = dict.fromkeys(KEYS, 0)
        self.entries = dict.fromkeys(KEYS, 0)
        self.used: dict[UUID | Token, Use] = {}
        self.batches: dict[UUID | Token, Batch] = {}
        self.declared: dict[str, dict[str, Any]] = {}

    @initialize(a=strategies, b=strategies)
    def declare(self, a: dict[str, Any], b: dict[str, Any]) -> None:
        self.declared = {"a": a, "b": b}

    @rule(namespace=st.sampled_from(["a", "b", "default"]), to=strategies)
    def change_strategy(self, namespace: str, to: dict[str, Any]) -> None:
        self.declared = {**self.declared, namespace: to}

    @contextmanager
    def settings(self) -> Iterator[None]:
        with override_counters(**self.declared):
            yield

    def strategy(self, key: str) -> str:
        declared = self.declared.get(key.partition(":")[0] if ":" in key else "default", {})
        return str(declared.get("STRATEGY", "exact"))

    def count(self, key: str, by: int, *, appended: bool) -> None:
        self.values[key] += by
        if appended:
            self.entries[key] += by

    def counted(self, key: str, by: int, returned: Any) -> None:
        """A call of the strategy of a key has counted, and returned what it should."""
        appended = self.strategy(key) == "ledger"
        self.count(key, by, appended=appended)
        assert isinstance(returned, Appended) if appended else returned == self.values[key]

    @rule(key=keys, by=deltas, route=routes)
    def increment(self, key: str, by: int, route: int | None) -> None:
        with self.settings():
            self.counted(key, by, Counter.objects.increment(key, by, shard_key=route))

    @rule(key=keys, by=deltas, route=routes)
    def increment_shard(self, key: str, by: int, route: int | None) -> None:
        self.count(key, by, appended=False)
        with self.settings():
            assert CounterShard.objects.increment(key, by, shard_key=route) == self.values[key]

    @rule(key=keys, by=deltas)
    def append(self, key: str, by: int) -> None:
        CounterDelta.objects.append(key, by)
        self.count(key, by, appended=True)

    @rule(many=many_deltas)
    def increment_many(self, many: dict[str, int]) -> None:
        with self.settings():
            returned = Counter.objects.increment_many(many)
        for key, by in many.items():
            self.counted(key, by, returned[key])

    @rule(many=many_deltas)
    def collect(self, many: dict[str, int]) -> None:
        with self.settings(), Counter.objects.collect():
            for key, by in many.items():
                Counter.objects.increment(key, by)
        for key, by in many.items():
            self.count(key, by, appended=self.strategy(key) == "ledger")

    @rule(key=keys, by=st.integers(1, 9), bound=st.integers(-20, 20))
    def within_bounds(self, key: str, by: int, bound: int) -> None:
        """Only exact counters take them, and they ask them of all that there is."""
        if self.strategy(key) != "exact":
            return
        with self.settings():
            if self.values[key] - by < bound:
                with pytest.raises(InsufficientCount):
                    Counter.objects.decrement(key, by, floor=bound)
            else:
                self.counted(key, -by, Counter.objects.decrement(key, by, floor=bound))
            if self.values[key] + by > bound:
                with pytest.raises(CeilingExceeded):
                    Counter.objects.increment(key, by, ceiling=bound)
            else:
                self.counted(key, by, Counter.objects.increment(key, by, ceiling=bound))

    @rule(key=keys, by=deltas, ago=ages, is_text=st.booleans())
    def increment_once(self, key: str, by: int, ago: timedelta, is_text: bool) -> None:
        token = Token(uuid4().hex, "user:1") if is_text else mint(clock.utc() - ago)
        with self.settings():
            returned: Any = Counter.objects.increment(key, by, token=token)
        assert returned.replayed is False
        self.counted(key, by, returned)
        value = None if self.strategy(key) == "ledger" else self.values[key]
        self.used[token] = Use(key, by, value)

    @rule(key=keys, by=deltas, ago=ages)
    def append_once(self, key: str, by: int, ago: timedelta) -> None:
        token = mint(clock.utc() - ago)
        assert CounterDelta.objects.append(key, by, token=token).replayed is False
        self.count(key, by, appended=True)
        self.used[token] = Use(key, by)

    @precondition(lambda self: self.used)
    @rule(number=numbers)
    def replay(self, number: int) -> None:
        token, use = self.pick(number)
        with self.settings():
            again: Any = Counter.objects.increment(use.key, use.by, token=token)
        assert again.replayed
        if use.value is None:
            assert isinstance(again, Appended)
        else:
            assert again == use.value

    @precondition(lambda self: self.used)
    @rule(number=numbers, key=keys, by=deltas)
    def append_again(self, number: int, key: str, by: int) -> None:
        token, use = self.pick(number)
        assert CounterDelta.objects.append(use.key, use.by, token=token).replayed
        if (key, by) != (use.key, use.by):
            with pytest.raises(TokenConflict):
                CounterDelta.objects.append(key, by, token=token)

    @rule(many=many_deltas, is_text=st.booleans())
    def increment_many_once(self, many: dict[str, int], is_text: bool) -> None:
        token = Token(uuid4().hex) if is_text else mint(clock.utc())
        with self.settings():
            returned: Any = Counter.objects.increment_many(many, token=token)
        assert returned.replayed is False
        for key, by in many.items():
            self.counted(key, by, returned[key])
        self.batches[token] = Batch(
            many, {key: n for key, n in returned.items() if not isinstance(n, Appended)}
        )

    @precondition(lambda self: self.batches)
    @rule(number=numbers)
    def replay_many(self, number: int) -> None:
        token, (many, values) = list(self.batches.items())[number % len(self.batches)]
        with self.settings():
            again: Any = Counter.objects.increment_many(many, token=token)
        assert again.replayed
        assert {key: again[key] for key in values} == values
        assert all(isinstance(again[key], Appended) for key in set(many) - set(values))

    def pick(self, number: int) -> tuple[UUID | Token, Use]:
        """One of the tokens that were used."""
        return list(self.used.items())[number % len(self.used)]

    @rule(pairs=st.lists(st.tuples(keys, deltas), max_size=9), copy=st.booleans())
    def append_many(self, pairs: list[tuple[str, int]], copy: bool) -> None:
        appended = CounterDelta.objects.append_many(pairs, copy=copy)
        assert appended == AppendedMany(len(pairs), 0)
        for key, by in pairs:
            self.count(key, by, appended=True)

    @rule(
        new=st.lists(st.tuples(keys, deltas, ages), max_size=5),
        again=st.lists(numbers, max_size=5),
        plain=st.lists(st.tuples(keys, deltas), max_size=3),
    )
    def append_many_once(
        self,
        new: list[tuple[str, int, timedelta]],
        again: list[int],
        plain: list[tuple[str, int]],
    ) -> None:
        """New ones, some that were used before, perhaps twice, and some without a token."""
        known = {t: use for t, use in self.used.items() if check_token(t).uuid}
        replayed = [list(known.items())[number % len(known)] for number in again if known]
        fresh = [(key, by, mint(clock.utc() - ago)) for key, by, ago in new]
        given: list[Any] = [(use.key, use.by, token) for token, use in replayed]
        found = CounterDelta.objects.append_many([*given, *plain, *fresh])
        assert found == AppendedMany(len(fresh) + len(plain), len(replayed))
        for key, by, token in fresh:
            self.used[token] = Use(key, by)
            self.count(key, by, appended=True)
        for key, by in plain:
            self.count(key, by, appended=True)

    @rule(many=many_deltas, key=keys, by=deltas, rolls=st.booleans())
    def undone(self, many: dict[str, int], key: str, by: int, rolls: bool) -> None:
        """What a savepoint takes back was never counted, and its token is free again."""
        token = mint(clock.utc())
        with self.settings(), transaction.atomic():
            with pytest.raises(Undone), transaction.atomic():
                Counter.objects.increment_many(many)
                CounterDelta.objects.append_many([*many.items(), (key, by, token)])
                if rolls:
                    rollup()
                raise Undone
            assert CounterDelta.objects.append(key, by + 10, token=token).replayed is False
        self.count(key, by + 10, appended=True)
        self.used[token] = Use(key, by + 10)

    @rule(page=st.sampled_from([None, 1, 3]))
    def roll_up(self, page: int | None) -> None:
        report = rollup(page=page) if page else rollup()
        assert (report.orphans, report.stuck) == (0, [])
        if not report.left and not report.waiting:
            stored = dict(Counter.objects.values_list("key", "value"))
            assert stored == {key: self.values[key] for key in stored}

    @rule()
    def rebase(self) -> None:
        rebase()
        assert rebase() == 0

    @rule(key=keys)
    def ask(self, key: str) -> None:
        found = Counter.objects.explain(key)
        assert found.value == found.total + found.shards + found.tail == self.values[key]
        reading = Counter.objects.read(key)
        assert (reading.total, reading.pending) == (found.total, found.shards + found.tail)
        now = clock.utc()
        since, until = now - timedelta(days=3), now + timedelta(minutes=1)
        with self.settings():
            if self.strategy(key) != "ledger" and not CounterDelta.objects.filter(key=key).exists():
                # What was rolled up and dropped may be known yet, or not.
                with suppress(UnsupportedHistory):
                    assert Counter.objects.value_at(key, now) == self.values[key]
                return
            days = series.history(key, "day", since=since, until=until, tz=UTC)
            before = Counter.objects.value_at(key, now - timedelta(hours=48))
        assert sum(day.change for day in days) == self.entries[key]
        assert before == self.values[key] - self.entries[key]

    @invariant()
    def agree(self) -> None:
        with self.settings():
            assert Counter.objects.values_of(KEYS) == self.values

    @rule()
    def nothing_drifts(self) -> None:
        assert verify().drifts == []

    def teardown(self) -> None:
        self.nothing_drifts()
        assert not CounterIncident.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_ledger_agrees_with_a_dictionary(request: pytest.FixtureRequest) -> None:
    machines.run(Model, request, steps=40, examples=10, slow=25)
