"""Cached counters against a dictionary: whatever happens, they agree."""

from __future__ import annotations

import os
from collections import Counter as Tally
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import models, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.contrib.series.models import CounterCell
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterIncident,
    CounterShard,
)
from django_counters.redis.keys import SLOTS
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup
from tests import machines
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.conftest import forget_pending
from tests.series.cells import cells
from tests.testapp.models import Article, City

pytestmark = pytest.mark.rare

KEYS = ["views:a", "views:b", "views:größe", "views:%s{}*", "likes:a"]
PER: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": {"country": 9}}
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **PER}
AWAY: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0", **PER}
OTHERS: list[dict[str, Any]] = [PER, {"STRATEGY": "sharded", **PER}, {"STRATEGY": "ledger", **PER}]
LIKES = [CACHED, *OTHERS]
YEAR = 365 * 86_400.0
FIELDS = {"article": ("reads", "claps"), "city": ("trips",)}

keys = st.sampled_from(KEYS)
views = st.sampled_from(KEYS[:4])
deltas = st.integers(-9, 9).filter(bool) | st.sampled_from([-(2**55) - 1, 2**55 + 1])
many = st.dictionaries(keys, deltas, max_size=4)
countries = st.sampled_from(["DE", "FR", None])
columns = st.sampled_from([(name, field) for name, fields in FIELDS.items() for field in fields])


class Undone(Exception):
    """Takes a transaction or a savepoint back."""


class Model(RuleBasedStateMachine):
    """What the counters should be."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix = str(django_settings.CACHES["default"]["KEY_PREFIX"])
        for model in (
            Counter,
            CounterCell,
            CounterDelta,
            CounterShard,
            CounterIncident,
            Article,
            City,
        ):
            model._base_manager.all()._raw_delete("default")
        forget_pending("default", self.prefix)
        flush()
        CounterIncident._base_manager.all()._raw_delete("default")
        self.values = dict.fromkeys(KEYS, 0)
        self.by_country: Tally[tuple[str, str | None]] = Tally()
        self.records: dict[str, models.Model] = {
            "article": Article.objects.create(),
            "city": City.objects.create(pk="%s 'ß'\n{x}"),
        }
        self.counts = {(name, field): 0 for name, fields in FIELDS.items() for field in fields}
        self.tokens: list[tuple[Any, str, int, str | None]] = []
        self.likes = CACHED

    @initialize(likes=st.sampled_from(LIKES))
    def declare(self, likes: dict[str, Any]) -> None:
        self.likes = likes

    @property
    def declared(self) -> override_counters:
        return override_counters(views=CACHED, likes=self.likes)

    @rule(to=st.sampled_from(LIKES))
    def change_strategy(self, to: dict[str, Any]) -> None:
        """Flushed before, as it has to be. What was known of totals may be old from now on."""
        flush()
        self.forget_known_totals()
        self.likes = to

    @rule(key=views, by=deltas, country=countries)
    def increment(self, key: str, by: int, country: str | None) -> None:
        self._count({key: by}, country)
        with self.declared:
            told = Counter.objects.increment(key, by, tags={"country": country})
        assert told == self.values[key]

    @rule(by=deltas, country=countries)
    def increment_the_one_that_changes(self, by: int, country: str | None) -> None:
        self._count({"likes:a": by}, country)
        with self.declared:
            Counter.objects.increment("likes:a", by, tags={"country": country})

    @rule(batch=many, country=countries)
    def increment_many(self, batch: dict[str, int], country: str | None) -> None:
        self._count(batch, country)
        with self.declared:
            Counter.objects.increment_many(batch, tags={"country": country})

    def _count(self, batch: dict[str, int], country: str | None = None) -> None:
        for key, by in batch.items():
            self.values[key] += by
            self.by_country[key, country] += by

    @rule(key=views, by=deltas, country=countries)
    def increment_with_a_token(self, key: str, by: int, country: str | None) -> None:
        token = mint(clock.utc())
        self.tokens.append((token, key, by, country))
        self._count({key: by}, country)
        with self.declared:
            told: Any = Counter.objects.increment(key, by, token=token, tags={"country": country})
        assert (told, told.replayed) == (self.values[key], False)

    @rule(data=st.data())
    def repeat_a_token(self, data: st.DataObject) -> None:
        if self.tokens:
            token, key, by, country = data.draw(st.sampled_from(self.tokens))
            tags = {"country": country}
            with self.declared:
                told: Any = Counter.objects.increment(key, by, token=token, tags=tags)
            assert told.replayed

    @rule(column=columns, by=deltas)
    def increment_a_field(self, column: tuple[str, str], by: int) -> None:
        self.counts[column] += by
        value = getattr(self.records[column[0]], column[1]).increment(by)
        assert value == self.counts[column]

    @rule(batch=many, inner=many, undo_inner=st.booleans(), undo=st.booleans())
    def in_a_transaction(
        self, batch: dict[str, int], inner: dict[str, int], undo_inner: bool, undo: bool
    ) -> None:
        with self.declared:
            try:
                with transaction.atomic():
                    Counter.objects.increment_many(batch, tags={"country": "FR"})
                    self._in_a_savepoint(inner, undo_inner)
                    if undo:
                        raise Undone
            except Undone:
                return
        self._count(batch, "FR")
        if not undo_inner:
            self._count(inner, "DE")

    def _in_a_savepoint(self, batch: dict[str, int], undo: bool) -> None:
        try:
            with transaction.atomic():
                for key, by in batch.items():
                    Counter.objects.increment(key, by, tags={"country": "DE"})
                if undo:
                    raise Undone
        except Undone:
            pass

    @rule(batch=many)
    def collect(self, batch: dict[str, int]) -> None:
        with self.declared, Counter.objects.collect():
            for key, by in batch.items():
                Counter.objects.increment(key, by)
                Counter.objects.increment(key, by, tags={"country": "FR"})
        self._count(batch)
        self._count(batch, "FR")

    @rule(key=views, by=deltas)
    def without_redis(self, key: str, by: int) -> None:
        """What is known of totals is without it for a minute; an exact value has it."""
        self._count({key: by}, "DE")
        with override_counters(views=AWAY):
            Counter.objects.increment(key, by, tags={"country": "DE"})
        self.forget_known_totals()

    @rule()
    def flush(self) -> None:
        report = flush()
        assert (report.incidents, report.quarantined) == ([], {})
        assert (report.away, report.busy) == ({}, [])

    @rule(step=st.sampled_from(STEPS), time=st.integers(1, 3), largest=st.integers(1, 4))
    def flush_that_dies(self, step: str, time: int, largest: int) -> None:
        try:
            report = flush(step=kill_at(step, time), largest=largest)
        except Killed:
            return
        assert report.incidents == []

    @rule()
    def roll_up(self) -> None:
        rollup()

    @rule()
    def forget_known_totals(self) -> None:
        """Redis may evict what has a TTL."""
        slots = slots_of("default", self.prefix)
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.delete(*(slots.keys(slot)[1] for slot in range(SLOTS)))

    @rule()
    def save_the_records(self) -> None:
        for record in self.records.values():
            record.save()

    @invariant()
    def agree(self) -> None:
        with self.declared:
            assert Counter.objects.values_of(KEYS) == self.values
            found = Counter.objects.values_of(KEYS, consistency="cached", max_age=YEAR)
            assert found == self.values

    # It costs more than all other steps together, so it is a step, too.
    @rule()
    def look_at_pages(self) -> None:
        for name, fields in FIELDS.items():
            rows: Any = type(self.records[name])._default_manager
            for options in ({}, {"consistency": "cached", "max_age": YEAR}):
                row = rows.with_counts(**options).get()
                found = {field: getattr(row, field) for field in fields}
                assert found == {field: self.counts[name, field] for field in fields}

    def teardown(self) -> None:
        self.look_at_pages()
        flush()
        incidents = CounterIncident._base_manager.values_list("kind", "subject", "detail")
        assert list(incidents) == []
        for (name, field), expected in self.counts.items():
            column = type(self.records[name])._base_manager.values_list(field, flat=True).get()
            assert column == expected
        for period in ("hour", "day"):
            assert self._cells(period) == {w: by for w, by in self.by_country.items() if by}

    def _cells(self, period: str) -> dict[tuple[str, str | None], int]:
        """What is in the cells of a period, by key and country."""
        found: Tally[tuple[str, str | None]] = Tally()
        for key in KEYS:
            for (_, tags), value in cells(key, period).items():
                found[key, tags or None] += value
        return {where: by for where, by in found.items() if by}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("cached")
@pytest.mark.needs("ledger")
def test_cached_counters_agree_with_a_dictionary(request: pytest.FixtureRequest) -> None:
    machines.run(Model, request, steps=40, examples=8, slow=20)
