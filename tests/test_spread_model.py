"""Shards, slots, rollups and changes of strategy against a dictionary: they always agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import models, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from django_counters.exceptions import CeilingExceeded, InsufficientCount
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.upkeep.doctor import examine
from django_counters.upkeep.rollup import rollup
from tests.testapp.models import Country, Gadget, Post, Song

STRATEGIES: list[dict[str, Any]] = [
    {"STRATEGY": "exact"},
    {"STRATEGY": "exact", "OPTIONS": {"combine": True}},
    {"STRATEGY": "sharded"},
    {"STRATEGY": "sharded", "OPTIONS": {"shards": 1}},
    {"STRATEGY": "sharded", "OPTIONS": {"shards": 3}},
]
KEYS = ["a:1", "a:2", "b:1", "b:größe", "plain"]
RECORDS = {"song": Song, "post": Post, "gadget": Gadget, "country": Country}
FIELDS = {"song": ("plays", "stars"), "post": ("likes", "views"), "gadget": ("beeps",)}
NAMES = [
    *((record, name) for record, names in FIELDS.items() for name in names),
    ("country", "visits"),
    *((record, "downloads") for record in RECORDS),
]
keys = st.sampled_from(KEYS)
counters = st.sampled_from(NAMES)
deltas = st.integers(-9, 9).filter(bool) | st.sampled_from([-(2**40), 2**40])
routes = st.none() | st.integers(0, 70)


class Undone(Exception):
    """Takes a savepoint back."""


class Model(RuleBasedStateMachine):
    """What the counters should be."""

    def __init__(self) -> None:
        super().__init__()
        for model in (CounterShard, SlottedCounter, Counter, *RECORDS.values()):
            model._base_manager.all().delete()
        self.records: dict[str, models.Model] = {
            name: model._base_manager.create(**({"code": "%s'ß"} if model is Country else {}))
            for name, model in RECORDS.items()
        }
        self.values = dict.fromkeys(KEYS, 0)
        self.counts = dict.fromkeys(NAMES, 0)
        self.declared: dict[str, dict[str, Any]] = {}

    @initialize(a=st.sampled_from(STRATEGIES), b=st.sampled_from(STRATEGIES))
    def declare(self, a: dict[str, Any], b: dict[str, Any]) -> None:
        self.declared = {"a": a, "b": b}

    @rule(namespace=st.sampled_from(["a", "b", "default"]), to=st.sampled_from(STRATEGIES))
    def change_strategy(self, namespace: str, to: dict[str, Any]) -> None:
        self.declared = {**self.declared, namespace: to}

    @contextmanager
    def settings(self) -> Iterator[None]:
        with override_counters(**self.declared):
            yield

    def _is_exact(self, key: str) -> bool:
        declared = self.declared.get(key.partition(":")[0] if ":" in key else "default", {})
        return bool(declared.get("STRATEGY", "exact") == "exact")

    @rule(key=keys, by=deltas, route=routes)
    def increment(self, key: str, by: int, route: int | None) -> None:
        self.values[key] += by
        with self.settings():
            assert Counter.objects.increment(key, by, shard_key=route) == self.values[key]

    @rule(key=keys, by=deltas)
    def decrement(self, key: str, by: int) -> None:
        self.values[key] -= by
        with self.settings():
            assert Counter.objects.decrement(key, by) == self.values[key]

    @rule(key=keys, by=deltas, route=routes)
    def increment_shard(self, key: str, by: int, route: int | None) -> None:
        self.values[key] += by
        with self.settings():
            assert CounterShard.objects.increment(key, by, shard_key=route) == self.values[key]

    @rule(key=keys, by=st.integers(1, 9), bound=st.integers(-20, 20))
    def within_bounds(self, key: str, by: int, bound: int) -> None:
        """Only exact counters take bounds, and they ask them of total and pending."""
        if not self._is_exact(key):
            return
        with self.settings():
            if self.values[key] - by < bound:
                with pytest.raises(InsufficientCount):
                    Counter.objects.decrement(key, by, floor=bound)
            else:
                self.values[key] -= by
                assert Counter.objects.decrement(key, by, floor=bound) == self.values[key]
            if self.values[key] + by > bound:
                with pytest.raises(CeilingExceeded):
                    Counter.objects.increment(key, by, ceiling=bound)
            else:
                self.values[key] += by
                assert Counter.objects.increment(key, by, ceiling=bound) == self.values[key]

    @rule(many=st.dictionaries(keys, deltas))
    def increment_many(self, many: dict[str, int]) -> None:
        for key, by in many.items():
            self.values[key] += by
        with self.settings():
            new = Counter.objects.increment_many(many)
        assert new == {key: self.values[key] for key in many}

    @rule(counter=counters, by=deltas)
    def increment_slot(self, counter: tuple[str, str], by: int) -> None:
        record, name = counter
        self.counts[counter] += by
        new = SlottedCounter.objects.increment(self.records[record], name, by)
        assert new == self.counts[counter]

    @rule(counter=counters, by=deltas)
    def increment_field(self, counter: tuple[str, str], by: int) -> None:
        record, name = counter
        if name in FIELDS.get(record, ("visits",)):
            self.counts[counter] += by
            value = getattr(self.records[record], name).increment(by)
            assert value == self.counts[counter]

    @rule(many=st.dictionaries(keys, deltas), counter=counters, by=deltas)
    def undone(self, many: dict[str, int], counter: tuple[str, str], by: int) -> None:
        """What a savepoint takes back was never counted, a rollup within it included."""
        record, name = counter
        with (
            self.settings(),
            transaction.atomic(),
            pytest.raises(Undone),
            transaction.atomic(),
        ):
            Counter.objects.increment_many(many)
            SlottedCounter.objects.increment(self.records[record], name, by)
            rollup()
            raise Undone
        for one in self.records.values():
            one.refresh_from_db()

    @rule(page=st.integers(1, 4))
    def roll_up(self, page: int) -> None:
        report = rollup(page=page)
        assert (report.left, report.orphans, report.stuck) == (0, 0, [])
        assert examine() == []
        stored = dict(Counter.objects.values_list("key", "value"))
        assert stored == {key: self.values[key] for key in stored}

    @rule()
    def save_the_records(self) -> None:
        for record in self.records.values():
            record.save()

    @rule(name=st.sampled_from(["song", "gadget"]))
    def begin_anew(self, name: str) -> None:
        """A record is deleted, and another one gets its key."""
        old = self.records[name]
        key = old.pk
        for record, counter in NAMES:
            # What has no column stays with the key.
            if record == name and counter in FIELDS[name]:
                self.counts[record, counter] = 0
        old.delete()
        self.records[name] = RECORDS[name]._base_manager.create(pk=key)

    @invariant()
    def agree(self) -> None:
        with self.settings():
            assert Counter.objects.values_of(KEYS) == self.values
        for (record, name), count in self.counts.items():
            assert SlottedCounter.objects.value(self.records[record], name) == count

    @invariant()
    def agree_in_pages(self) -> None:
        for record, names in FIELDS.items():
            queryset: Any = RECORDS[record]._default_manager
            row = queryset.with_counts().get()
            assert [getattr(row, name) for name in names] == [
                self.counts[record, name] for name in names
            ]


@pytest.mark.django_db(transaction=True)
def test_shards_and_slots_agree_with_a_dictionary(request: pytest.FixtureRequest) -> None:
    slow: Any = request.config.getoption("--slow")
    examples = settings(
        max_examples=200 if slow else 8,
        stateful_step_count=40,
        # To explain a failure line by line takes minutes.
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Model, settings=examples)
