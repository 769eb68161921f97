"""A parcel of any source is landed once, whoever repeats it, and whatever of it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest

from django_counters import clock
from django_counters.errors import CounterUnavailable
from django_counters.landing import Landed, land
from django_counters.models import Counter, CounterBatch, CounterDelta, CounterIncident
from django_counters.registry import registry
from django_counters.stores.base import Parcel, Tokened
from django_counters.stores.sql.batches import SqlBatches
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint, token_of
from django_counters.types import INT8
from tests.concurrency.victims import victims
from tests.stores.test_failures import beside, wait_for_lock
from tests.testapp.models import Song

pytestmark = pytest.mark.django_db(transaction=True)
STATEMENTS = 60


class Page(NamedTuple):
    """What a source of this test hands out: the pages of a list, which are read again and again."""

    number: int
    sums: Mapping[str, int]


class Pages:
    """The whole of a source: it gives parcels, and lets go of what has landed."""

    def __init__(self, *pages: Mapping[str, int]) -> None:
        self.began = clock.utc()
        self.unread = [Page(number, sums) for number, sums in enumerate(pages)]

    def parcels(self) -> Iterator[tuple[Page, Parcel]]:
        for page in list(self.unread):
            token = token_of(f"pages {page.number}", self.began)
            yield page, Parcel(token.hex, "pages", page.sums)

    def intake(self, *, acknowledges: bool = True) -> list[Landed]:
        done = []
        for page, parcel in self.parcels():
            done.append(land(parcel))
            if acknowledges:
                self.unread.remove(page)
        return done


def parcel_of(sums: Mapping[str, int], **more: Any) -> Parcel:
    return Parcel(mint(clock.utc()).hex, "elsewhere", sums, **more)


def test_a_source_of_its_own_is_counted_once() -> None:
    source = Pages({"a": 3, "b": 1}, {"a": 4})
    assert [one.parcels for one in source.intake(acknowledges=False)] == [1, 1]
    assert [one.parcels for one in source.intake()] == [0, 0]
    assert source.unread == []
    assert_counts({"a": 7, "b": 1})
    rows = CounterBatch._base_manager.values_list("source", "counters", "total")
    kept = sorted((where, counters, int(total)) for where, counters, total in rows)
    assert kept == [("pages", 1, 4), ("pages", 2, 4)]
    assert not CounterIncident.objects.exists()


@pytest.mark.many_writers
@pytest.mark.parametrize("commits", [True, False])
def test_two_who_land_it_at_once(commits: bool) -> None:
    parcel = parcel_of({"a": 5})
    with beside() as call:
        try:
            with registry.kept(SqlBatches, "default").landing():
                assert registry.kept(SqlBatches, "default").claim([parcel]) == {parcel.id}
                registry.kept(SqlBatches, "default").land_named(parcel.sums)
                second = call(partial(land, parcel))
                wait_for_lock()
                if not commits:
                    raise CounterUnavailable(using="default", reason="it is gone")
        except CounterUnavailable:
            assert not commits
        assert second.result(30).parcels == (0 if commits else 1)
    assert_counts({"a": 5})


@pytest.mark.many_writers
def test_killed_after_any_statement_all_of_it_is_counted_or_nothing() -> None:
    song = Song.objects.create()
    parcel = parcel_of({"a": 5, f"testapp.Song.plays {song.pk}": 2})
    seen = []
    with victims(partial(land, parcel)) as kill:
        for statement in range(1, STATEMENTS):
            sql = kill(statement)
            if sql is None:
                break
            seen.append(sql)
            assert (Counter.objects.value("a"), song.plays.read().value) == (0, 0)
            assert not CounterBatch.objects.exists()
    assert sql is None, "a landing has more statements than were tried"
    claimed = [
        at for at, sql in enumerate(seen) if "INSERT INTO django_counters_counterbatch" in sql
    ]
    assert len(claimed) == 1
    # Both totals are changed after the claim, and each statement was the last of somebody.
    assert len(seen) - claimed[0] > 2
    assert land(parcel).parcels == 0
    assert_counts({"a": 5})
    assert song.plays.read().value == 2


def test_what_is_refused_is_told_and_the_rest_lands() -> None:
    Counter.objects.increment("full", INT8[1])
    sums = {"a": 2, "full": 1, "no key": 3, "shop.Gone.visits 1": 4}
    parcel = parcel_of(sums, strange={"?": "no number"})
    landed = land(parcel)
    assert (landed.parcels, landed.counters) == (1, 1)
    refused = {"full": 1, "no key": 3, "shop.Gone.visits 1": 4}
    assert landed.quarantined == refused
    assert_counts({"a": 2, "full": INT8[1]})
    details = [incident.detail for incident in CounterIncident.objects.all()]
    assert {d["reason"] for d in details} == {"overflow", "unknown", "strange"}
    assert all(d["generations"] == [parcel.id] for d in details)
    amounts = [d["amounts"] for d in details if "amounts" in d]
    assert {key: by for each in amounts for key, by in each.items()} == refused
    assert land(parcel).quarantined == {}
    assert CounterIncident.objects.count() == len(details)


def test_increments_with_tokens_count_once_across_parcels() -> None:
    token = mint(clock.utc())
    with override_counters(orders={"STRATEGY": "ledger"}):
        for _ in range(2):
            tokens = {str(token): Tokened("orders:a", 2)}
            assert land(parcel_of({"orders:a": 2, "b": 1}, tokens=tokens)).parcels == 1
        assert_counts({"orders:a": 2, "b": 2})
    assert CounterDelta.objects.count() == 1


@pytest.mark.many_writers
@pytest.mark.parametrize("used", range(5))
def test_of_many_with_tokens_those_that_are_new_are_counted(used: int) -> None:
    tokens = sorted(mint(clock.utc()) for _ in range(5))
    CounterDelta.objects.append("k2", 7, token=tokens[used])
    CounterDelta.objects.append("other", 1, token=tokens[used - 1])
    tokened = {str(token): Tokened("k2", 7) for token in tokens}
    landed = land(parcel := parcel_of({"k2": 35}, tokens=tokened))
    assert landed.forget == {parcel.id: ["k2"]}
    assert landed.conflicts == {str(tokens[used - 1]): {"k2": 7}}
    assert_counts({"k2": 35, "other": 1})


@pytest.mark.parametrize("spelled", [str, lambda token: token.hex.upper(), lambda token: "f" * 32])
def test_an_id_has_one_spelling(spelled: Any) -> None:
    with pytest.raises(ValueError, match="hex of a UUIDv7"):
        land(Parcel(spelled(mint(clock.utc())), "elsewhere", {"a": 5}))
    assert_counts({"a": 0})


def test_one_of_another_day_is_refused() -> None:
    parcel = Parcel(mint(clock.utc() + timedelta(days=3)).hex, "elsewhere", {"a": 5})
    with pytest.raises(ValueError, match="more than 2 days ahead"):
        land(parcel)
    assert_counts({"a": 0})


def test_an_old_one_is_not_counted() -> None:
    parcel = Parcel(mint(clock.utc() - timedelta(days=29)).hex, "elsewhere", {"a": 5})
    assert land(parcel).quarantined == {"a": 5}
    # Its claim is forgotten before it could be told from one that has landed.
    CounterBatch.objects.update(applied_at=clock.now() - timedelta(days=31))
    registry.kept(SqlBatches, "default").prune()
    assert land(parcel).quarantined == {"a": 5}
    assert_counts({"a": 0})
