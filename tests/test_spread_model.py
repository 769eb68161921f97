"""Slots, fields and rollups against a dictionary: they always agree."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import models, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_counters.metrics.doctor import examine
from django_counters.models import SlottedCounter
from django_counters.upkeep import rollup
from tests import machines
from tests.testapp.models import Country, Gadget, Post, Song

pytestmark = pytest.mark.rare

RECORDS = {"song": Song, "post": Post, "gadget": Gadget, "country": Country}
FIELDS = {"song": ("plays", "stars"), "post": ("likes", "views"), "gadget": ("beeps",)}
NAMES = [
    *((record, name) for record, names in FIELDS.items() for name in names),
    ("country", "visits"),
    *((record, "downloads") for record in RECORDS),
]
counters = st.sampled_from(NAMES)
deltas = st.integers(-9, 9).filter(bool) | st.sampled_from([-(2**40), 2**40])


class Undone(Exception):
    """Takes a savepoint back."""


class Model(RuleBasedStateMachine):
    """What the counters should be."""

    def __init__(self) -> None:
        super().__init__()
        for model in (SlottedCounter, *RECORDS.values()):
            model._base_manager.all()._raw_delete("default")
        self.records: dict[str, models.Model] = {
            name: model._base_manager.create(**({"code": "%s'ß"} if model is Country else {}))
            for name, model in RECORDS.items()
        }
        self.counts = dict.fromkeys(NAMES, 0)

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

    @rule(counter=counters, by=deltas)
    def undone(self, counter: tuple[str, str], by: int) -> None:
        """What a savepoint takes back was never counted, a rollup within it included."""
        record, name = counter
        with transaction.atomic(), pytest.raises(Undone), transaction.atomic():
            SlottedCounter.objects.increment(self.records[record], name, by)
            if name != "downloads":
                getattr(self.records[record], name).increment(by)
            rollup()
            raise Undone
        for one in self.records.values():
            one.refresh_from_db()

    @rule(page=st.integers(1, 4))
    def roll_up(self, page: int) -> None:
        report = rollup(page=page)
        assert (report.left, report.orphans, report.stuck) == (0, 0, [])
        assert examine() == []

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
    def look_at_slots(self) -> None:
        for (record, name), count in self.counts.items():
            assert SlottedCounter.objects.value(self.records[record], name) == count

    # It costs more than all other steps together, so it is a step, too.
    @rule()
    def look_at_pages(self) -> None:
        for record, names in FIELDS.items():
            queryset: Any = RECORDS[record]._default_manager
            row = queryset.with_counts().get()
            assert [getattr(row, name) for name in names] == [
                self.counts[record, name] for name in names
            ]

    def teardown(self) -> None:
        self.look_at_pages()


@pytest.mark.django_db(transaction=True)
def test_slots_agree_with_a_dictionary(request: pytest.FixtureRequest) -> None:
    machines.run(Model, request, steps=40, examples=3, slow=20)
