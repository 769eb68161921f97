"""What names a counter after it is forgotten, or after its record is deleted.

The tests search each column of each table of the app, and each key and field of their part of
Redis.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import models

from django_counters import clock
from django_counters.cached.sources import slots_of
from django_counters.contrib import holds, series
from django_counters.contrib.series.recording import record_history
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import token_of
from django_counters.write.changes import BELONGINGS, Fate
from tests.adjustments.adjustables import NAMED, upkeep
from tests.testapp.models import Story, Talk, Tune
from tests.together.counting import tables

pytestmark = pytest.mark.django_db(transaction=True)
MARK = "zqxjk"
KEY = f"c:{MARK}"
# The tables whose rows stay.
STAYS = {name for name, one in BELONGINGS.items() if one is Fate.KEPT}
MEASURED: dict[str, Any] = {
    "PER": ["hour", "day"],
    "TAGS": {"country": 3},
    "UNIQUE": ["day"],
    "OCCURRENCES": ["day"],
}
RANKED = {"TOP": ["day"]}
BOUNDED = {"FLOOR": 0, "HISTORY": "1h"}
DECLARED: dict[str, dict[str, Any]] = {
    "exact": MEASURED | RANKED | BOUNDED,
    "exact with a quota": MEASURED | {"CEILING": {"month": 1000}},
    "exact once": MEASURED | {"ONCE": True},
    "exact with a cool-down": MEASURED | {"ONCE": "30m"},
    "sharded": MEASURED,
    "ledger": MEASURED,
    "cached": MEASURED | RANKED,
}


def rows_that_name(mark: str) -> Iterator[models.Model]:
    for model in tables():
        for row in model._base_manager.all():
            fields = row._meta.concrete_fields
            if any(mark in shown(getattr(row, field.attname)) for field in fields):
                yield row


def shown(value: object) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)


def tables_that_name(mark: str) -> set[str]:
    return {type(row).__name__ for row in rows_that_name(mark)}


def redis_that_names(mark: str, prefix: str) -> Tally[str]:
    """How many keys and fields have a mark, by the last part of the key; tokens are left out."""
    found: Tally[str] = Tally()
    pattern = slots_of("default", prefix).keys(0)[0].replace(":0}:p", ":*")
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        for key in client.scan_iter(pattern, count=10_000):
            _, _, last = key.partition("}:")
            if client.type(key) == "hash":
                texts = [f"{name} {text}" for name, text in client.hgetall(key).items()]
            else:
                texts = [f"{key} {client.get(key)}"]
            found[last] += 0 if last.startswith("t:") else sum(mark in text for text in texts)
    return +found


def count(declared: dict[str, Any], times: str) -> None:
    """Count in each way that leaves something behind."""
    once, now = "ONCE" in declared, clock.utc()

    def add(by: int, who: str, **event: Any) -> None:
        who = f"{who} {times}"
        Counter.objects.increment(KEY, 1 if once else by, who=who, **event)

    add(50, "ann", at=now - timedelta(days=1), tags={"country": "DE"})
    add(7, "bob", tags={"country": "DE"})
    add(3, "cid", tags={"country": "FR"}, token=token_of(f"tagged {times}", now))
    if not once:
        Counter.objects.increment(KEY, 2, token=token_of(f"plain {times}", now))
    if "FLOOR" in declared:
        holds.hold(KEY, 2, token=f"cart {times}", minutes=5)
        record_history()
    Counter.objects.values_of([KEY])


@pytest.mark.parametrize("way", ["pending", "folded", "both"])
@pytest.mark.parametrize("name", DECLARED)
def test_a_forgotten_counter_is_named_nowhere(cached: str, name: str, way: str) -> None:
    kind = NAMED[name.split(" ")[0]].declared or {}
    declared = {**kind, **DECLARED[name]}
    # A hold is about a person; it is given back with nothing to count.
    keeps = STAYS | {"CounterHold"} | ({"Counter", "CounterDelta"} if name == "ledger" else set())
    # A token of a cached counter is an entry, as in a ledger.
    keeps |= {"Counter", "CounterDelta"} if name == "cached" else set()
    with override_counters(c=declared):
        count(declared, "before")
        if way != "pending":
            upkeep()
        if way == "both":
            count(declared, "since")
        assert (tables_that_name(MARK) - keeps) or name == "cached"
        Counter.objects.forget(KEY)
        upkeep()
        # What was pending has become zero where it was folded.
        left = [row for row in rows_that_name(MARK) if type(row).__name__ not in keeps]
        assert [row for row in left if getattr(row, "value", None) != 0] == []
        assert left == [] or (way != "folded" and name in ("cached", "sharded"))
        assert redis_that_names(MARK, cached) == {}
        assert Counter.objects.value(KEY) == 0
        assert [point.value for point in series.of(KEY).per("day").last(2)] == [0, 0]
        assert Counter.objects.forget(KEY) == 0
        assert tables_that_name(MARK) <= keeps
        assert redis_that_names(MARK, cached) == {}


FIELDS = [
    *((Talk, name) for name in ("seats", "claps", "views", "plays")),
    *((Story, name) for name in ("opens", "plays", "reads")),
    *((Tune, name) for name in ("hearts", "plays")),
]


@pytest.mark.parametrize(("model", "name"), FIELDS)
def test_a_deleted_record_is_named_nowhere(cached: str, model: type[Any], name: str) -> None:
    mark = 987_654_321_012_345
    record = model._base_manager.create(pk=mark)
    counter = getattr(record, name)
    measure = model._meta.get_field(name).measure
    event: dict[str, Any] = {"tags": {"country": "DE"}} if measure.declared("tags") else {}

    def count() -> None:
        for number, who in enumerate(("ann", "bob")):
            if measure.declared("unique"):
                event["who"] = who
            counter.increment(5, at=clock.utc() - timedelta(days=number), **event)
        counter.read()

    count()
    upkeep()
    count()
    assert tables_that_name(str(mark))
    record.delete()
    assert redis_that_names(str(mark), cached) == {}
    upkeep()
    assert tables_that_name(str(mark)) == set()
