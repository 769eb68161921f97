"""Totals, and the generations that are in them, are read as of one moment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.kinds.tables import NAMED, records
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.stores.base import Batched
from django_counters.stores.sql.totals import SqlReads
from django_counters.types import Amounts
from tests.stores.test_batches import BATCHES, batched, beside, generations, land
from tests.testapp.models import Country, Device, Post, Song

pytestmark = pytest.mark.django_db(transaction=True)


def reads_of(model: Any, name: str) -> SqlReads:
    return SqlReads(model._meta.get_field(name).table, "default")


def check(reads: SqlReads, keys: Sequence[Hashable], expected: dict[Any, Amounts]) -> None:
    """One statement says what ``read`` says, and which generations are landed."""
    landed, other, unknown = generations(3)
    with BATCHES.landing():
        BATCHES.claim(batched(landed, other))
    assert reads.read(keys) == expected
    assert reads.read_landed(keys, ()) == (expected, frozenset())
    reads.read_landed(keys, [landed])  # the content type is remembered
    with CaptureQueriesContext(connection) as queries:
        found = reads.read_landed(keys, [unknown, landed])
    assert found == (expected, frozenset([landed]))
    assert len(queries) == 1
    assert reads.read_landed([], [landed]) == ({}, frozenset([landed]))


def test_named_counters() -> None:
    Counter.objects.create(key="a", value=7)
    CounterShard.objects.create(key="a", shard=0, value=2)
    CounterShard.objects.create(key="b", shard=1, value=3)
    CounterDelta.objects.append("c", 4)
    expected = {"a": Amounts(7, 2), "b": Amounts(None, 3), "c": Amounts(0, 4)}
    check(SqlReads(NAMED, "default"), ["a", "b", "c", "none"], expected)


def slots(record: Any, name: str, **counts: int) -> None:
    kind = ContentType.objects.get_for_model(type(record))
    key = str(record._meta.pk.get_db_prep_value(record.pk, connection))
    for slot, count in counts.items():
        number = -1 if slot == "total" else int(slot[1:])
        SlottedCounter.objects.create(
            record_type=kind, record_id=key, name=name, slot=number, count=count
        )


def test_columns_of_records() -> None:
    post, other = Post.objects.create(views=5), Post.objects.create()
    slots(post, "views", s0=2, s1=1)
    expected = {post.pk: Amounts(5, 3), other.pk: Amounts(0, 0)}
    check(reads_of(Post, "views"), [post.pk, other.pk, 999_999], expected)


def test_columns_of_records_with_other_keys() -> None:
    country, device = Country.objects.create(code="a", visits=1), Device.objects.create(events=2)
    slots(country, "visits", s0=2)
    check(reads_of(Country, "visits"), ["a", "b"], {"a": Amounts(1, 2)})
    key = device._meta.pk.get_db_prep_value(device.pk, connection)
    check(reads_of(Device, "events"), [key], {key: Amounts(2, 0)})


def test_records_without_a_column() -> None:
    song = Song.objects.create()
    slots(song, "downloads", total=4, s0=2)
    reads = SqlReads(records(Song, "downloads"), "default")
    check(reads, [str(song.pk), "999"], {str(song.pk): Amounts(4, 2)})


def test_what_is_landed_between_two_reads() -> None:
    (generation,) = generations(1)
    reads = SqlReads(NAMED, "default")
    assert reads.read_landed(["a"], [generation]) == ({}, frozenset())
    land(generation, 5)
    expected = {"a": Amounts(5, 0)}
    assert reads.read_landed(["a"], [generation]) == (expected, frozenset([generation]))


@pytest.mark.postgres
@pytest.mark.parametrize("column", [False, True])
def test_what_is_landed_meanwhile_is_neither_missing_nor_double(column: bool) -> None:
    """A reader adds what it was told of generations that are not landed: always the same sum."""
    post = Post.objects.create()
    field: Any = Post._meta.get_field("views")
    key: Hashable = post.pk if column else "a"
    reads = reads_of(Post, "views") if column else SqlReads(NAMED, "default")
    amounts = {generation: 10**number for number, generation in enumerate(generations(15), 1)}

    def land_all() -> None:
        for generation, by in amounts.items():
            with BATCHES.landing():
                assert BATCHES.claim([Batched(generation, 0, "redis", 1, by)])
                if column:
                    BATCHES.land_records(field.table, Post._meta.pk, {str(post.pk): by})
                else:
                    BATCHES.land_named({"a": by})

    seen: set[str] = set()
    with beside() as call:
        future = call(land_all)
        while len(seen) < len(amounts) and not (future.done() and future.exception()):
            found, landed = reads.read_landed([key], list(amounts))
            value = found[key].value if key in found else 0
            waits = sum(by for generation, by in amounts.items() if generation not in landed)
            assert value + waits == sum(amounts.values())
            seen = set(landed)
        future.result(30)
