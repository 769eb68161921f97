"""Distinct actors: each of them once in a period, whichever way they come."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ObjectDoesNotExist
from django.db import connections, transaction
from django.utils.functional import SimpleLazyObject

from django_counters import clock
from django_counters.contrib import series, uniques
from django_counters.contrib.series import Series
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.contrib.uniques.sketches import Sketch
from django_counters.errors import CounterError, HistoryNotKept, InvalidActor, UnsupportedSeries
from django_counters.event import actor_of
from django_counters.models import Counter, CounterDelta
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import forget_actor, rollup
from tests.series.cells import STRATEGIES, land
from tests.testapp.models import Talk

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "hits:page"


@pytest.fixture(params=STRATEGIES)
def counted(request: pytest.FixtureRequest, cached: str) -> Iterator[str]:
    options: dict[str, Any] = {"STRATEGY": request.param, "UNIQUE": ["hour", "day"]}
    options |= {"PER": ["day"], "TAGS": {"country": 2}}
    if request.param == "cached":
        options["OPTIONS"] = {"timeout": 10}
    with override_counters(hits=options):
        yield KEY


def days(number: int = 1) -> Series:
    return series.of(KEY).per("day").last(number)


def test_nobody_is_counted_twice(counted: str) -> None:
    for who in (1, 2, "2", 3, 1):
        Counter.objects.increment(counted, who=who)
    Counter.objects.increment(counted, 5)
    land()
    unique = uniques.count(days())
    assert (unique, unique.is_exact, unique.error) == (3, True, 0.0)
    assert Counter.objects.value(counted) == 10
    assert days().total() == 10


def test_a_union_is_no_sum(counted: str) -> None:
    # Not a moment of when this was imported: a run may go on beyond midnight.
    now = clock.utc()
    for at, people in ((now - timedelta(days=1), (1, 2)), (now, (2, 3, 4))):
        for who in people:
            Counter.objects.increment(counted, who=who, at=at)
    Counter.objects.increment_many({"hits:other": 1, counted: 1}, who=5)
    land()
    assert [point.value for point in uniques.points(days(2))] == [2, 4]
    assert uniques.count(days(2)) == 5
    both = series.of([counted, "hits:other"]).per("day").last(2)
    assert uniques.count(both) == 5
    assert uniques.each(both) == async_to_sync(uniques.aeach)(both) == {counted: 5, "hits:other": 1}
    assert async_to_sync(uniques.acount)(both) == 5
    assert [point.value for point in async_to_sync(uniques.apoints)(both)] == [2, 4]


def test_by_tag_and_with_what_is_not_counted_apart(counted: str) -> None:
    for who, country in enumerate(("DE", "FR", "DE", "IT", "ES", None)):
        Counter.objects.increment(counted, who=who, tags={"country": country})
    Counter.objects.increment(counted, who=0, tags={"country": "FR"})
    land()
    assert uniques.count_by(days().by("country")) == {"DE": 2, "FR": 2, "~": 2, None: 1}
    assert uniques.count(days().where(country="FR")) == 2
    assert uniques.count(days()) == 6


def test_a_rollup_changes_nothing_but_where_they_are(counted: str) -> None:
    def count(people: Iterable[int]) -> None:
        for one in people:
            Counter.objects.increment(counted, who=one)
        land()

    count(range(5))
    for people in (range(3, 8), range(8)):
        rollup()
        assert not CounterMember.objects.exists()
        count(people)
        assert uniques.count(days()) == 8
    rollup()
    assert uniques.count(days()) == 8


def test_beyond_512_it_is_an_estimate_that_says_so(counted: str) -> None:
    Counter.objects.increment(counted, who="first")
    with Counter.objects.collect():
        for who in range(512):
            Counter.objects.increment(counted, who=who)
    land()
    rollup()
    unique = uniques.count(days())
    assert not unique.is_exact
    assert unique.error == 0.0081
    assert abs(unique - 513) < 3 * 0.0081 * 513
    assert set(CounterUnique.objects.values_list("kind", flat=True)) == {"r"}
    Counter.objects.increment(counted, who="first")
    land()
    assert uniques.count(days()) == unique


def test_a_token_counts_its_actor_once(counted: str) -> None:
    token = mint(clock.utc())
    for _ in range(2):
        Counter.objects.increment(counted, 3, who=1, token=token)
    land()
    assert (Counter.objects.value(counted), uniques.count(days())) == (3, 1)


def test_what_is_rolled_back_was_nobody(counted: str) -> None:
    with pytest.raises(ObjectDoesNotExist), transaction.atomic():
        Counter.objects.increment(counted, who=1)
        raise ObjectDoesNotExist
    with transaction.atomic():
        Counter.objects.increment(counted, who=2)
    land()
    assert uniques.count(days()) == 1


def test_from_async_code(counted: str) -> None:
    async_to_sync(Counter.objects.aincrement)(counted, who=1)
    async_to_sync(Counter.objects.aincrement_many)({counted: 1}, who=2)
    land()
    assert uniques.count(days()) == 2


@pytest.mark.usefixtures("cached")
def test_fields() -> None:
    talk, other = Talk.objects.create(), Talk.objects.create()
    for field in ("seats", "claps", "views"):
        for who in (1, 1, 2):
            getattr(talk, field).increment(who=who)
        getattr(other, field).increment(who=3)
    Talk.objects.increment(seats=1, who=4)
    land()
    assert uniques.count(series.of(talk.seats).per("day").last(1)) == 3
    assert uniques.each(series.of(Talk.seats).per("day").last(1)) == {talk.pk: 3, other.pk: 2}
    assert uniques.count(series.of(Talk.seats).per("day").last(1)) == 4
    for column in (Talk.claps, Talk.views):
        assert uniques.count(series.of(column).per("day").last(1)) == 3
        assert uniques.count(series.of(column, talk).per("day").last(1)) == 2
    talk.delete()
    assert uniques.count(series.of(Talk.views).per("day").last(1)) == 1
    assert uniques.count(series.of(Talk.claps).per("day").last(1)) == 1
    rollup()
    other.delete()
    assert not CounterUnique.objects.exists()
    assert not CounterMember.objects.exists()


def test_one_name_is_one_actor() -> None:
    user = User.objects.create(username="x")
    lazy: Any = SimpleLazyObject(lambda: user)
    assert actor_of(user) == actor_of(lazy) == actor_of(user.pk) == str(user.pk)
    one = uuid4()
    assert actor_of(one) == actor_of(str(one))
    assert actor_of("\u0061\u0308") == actor_of("ä")


WRONG: list[object] = [
    *("", " ", "x" * 65, "a\0b", True, 1.5, b"x", [1], User(), AnonymousUser()),
]


@pytest.mark.parametrize("who", WRONG, ids=map(str, range(len(WRONG))))
def test_bad_input_counts_nothing(counted: str, who: Any) -> None:
    with pytest.raises(InvalidActor):
        Counter.objects.increment(counted, who=who)
    assert Counter.objects.value(counted) == 0


REFUSED: dict[str, tuple[type[CounterError], Callable[[], object]]] = {
    "a decrement": (InvalidActor, lambda: Counter.objects.decrement(KEY, who=1)),
    "a correcting entry": (InvalidActor, lambda: CounterDelta.objects.append(KEY, -1, who=1)),
    "without unique": (UnsupportedSeries, lambda: Counter.objects.increment("other:a", who=1)),
    "no unique": (UnsupportedSeries, lambda: uniques.count(series.of("other:a").last("1d"))),
    "uniques of no unique": (UnsupportedSeries, lambda: uniques.points(_per_day("other:a"))),
}


def _per_day(key: str) -> Series:
    return series.of(key).per("day").last(1)


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    error, call = REFUSED[why]
    with override_counters(hits={"UNIQUE": ["day"]}, other={"PER": ["day"]}):
        with pytest.raises(error):
            call()
        assert Counter.objects.value(KEY) == Counter.objects.value("other:a") == 0


def test_periods_that_are_in_no_other_list() -> None:
    with override_counters(hits={"UNIQUE": ["day"], "KEEP": {"day": 3}}):
        Counter.objects.increment(KEY, who=UUID(int=1))
        assert uniques.count(days()) == 1
        with pytest.raises(UnsupportedSeries):
            days().list()


@pytest.mark.parametrize("rolled_up", [False, True])
def test_somebody_is_forgotten(rolled_up: bool) -> None:
    with override_counters(hits={"UNIQUE": ["day"]}, other={"UNIQUE": ["day"]}):
        for key, who in ((KEY, "ann"), (KEY, "bob"), ("hits:b", "ann"), ("other:a", "ann")):
            Counter.objects.increment(key, who=who)
        if rolled_up:
            rollup()
        pages = series.of([KEY, "hits:b"]).per("day").last(1)
        assert forget_actor("ann", dry_run=True)["sets"] == 3
        assert forget_actor("ann", keep_counts=True)["sets"] == 3
        assert (uniques.count(pages), uniques.count(days())) == (2, 2)
        # Nobody can tell any more whether she was there.
        Counter.objects.increment(KEY, who="ann")
        assert uniques.count(days()) == 3
        assert forget_actor("ann")["sets"] == 1
        assert (uniques.count(days()), forget_actor("ann")["sets"]) == (2, 0)


@pytest.mark.parametrize("rolled_up", [False, True])
def test_somebody_is_forgotten_where_nothing_is_declared_any_more(rolled_up: bool) -> None:
    with override_counters(hits={"UNIQUE": ["day"]}):
        Counter.objects.increment(KEY, who="ann")
        if rolled_up:
            rollup()
    assert forget_actor("ann", dry_run=True)["sets"] == 1
    assert forget_actor("ann")["sets"] == 1
    assert forget_actor("ann")["sets"] == 0


def test_forgetting_takes_no_cursor_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler may give each statement to another server process."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a named cursor")

    monkeypatch.setattr("django_counters.contrib.uniques.sql._SETS", 2)
    with override_counters(hits={"UNIQUE": ["day"]}):
        for number in range(5):
            Counter.objects.increment(f"hits:{number}", who="ann")
        rollup()
        for alias in ("default", "other"):
            monkeypatch.setattr(connections[alias], "chunked_cursor", refuse)
        assert forget_actor("ann")["sets"] == 5


def test_a_rollup_says_who_waits() -> None:
    with override_counters(hits={"UNIQUE": ["day"]}):
        for who in range(3):
            Counter.objects.increment(KEY, who=who)
        for dry_run in (True, True, False):
            assert rollup(dry_run=dry_run).others == {"members": 3}
        assert rollup(dry_run=True).others == {"members": 0}


def test_nobody_is_told_of_the_time_before_they_were_declared() -> None:
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment(KEY, at=clock.utc() - timedelta(days=6))
    registry.forget_strategies()
    with override_counters(hits={"PER": ["day"], "UNIQUE": ["day"]}):
        Counter.objects.increment(KEY, who=1)
        assert days(9).total() == 2
        with pytest.raises(HistoryNotKept):
            uniques.count(days(9))


@pytest.mark.parametrize("path", ["whole", "each", "points", "tags"])
def test_sets_are_read_by_pages(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Reading 600 sets of 16 KiB keeps a page of them in memory, and its unions."""
    options = {"UNIQUE": ["hour", "day"], "PER": ["day"], "TAGS": {"country": 2}}
    with override_counters(hits=options):
        for key, country in (("hits:a", "DE"), ("hits:a", "FR"), ("hits:b", "DE")):
            Counter.objects.increment(key, who="ann", tags={"country": country})
        rollup()
        crowds = [Sketch.of(range(number, 9000 * number, number)) for number in range(1, 9)]
        rows = [(row.measure_id, row.period, row.start) for row in CounterUnique.objects.all()]
        CounterUnique.objects.bulk_create(
            CounterUnique(
                measure_id=measure,
                period=period,
                start=start,
                key=f"hits:{number:03}",
                tags="",
                kind=crowds[number // 25].kind,
                body=crowds[number // 25].body,
            )
            for measure, period, start in {rows[0], *rows}
            for number in range(200)
        )
        everything = series.of(namespace="hits").per("day").last(1)
        reads: dict[str, Callable[[], Any]] = {
            "whole": lambda: uniques.count(everything),
            "each": lambda: uniques.each(everything),
            "points": lambda: uniques.points(everything),
            "tags": lambda: uniques.count_by(everything.by("country")),
        }
        at_once = reads[path]()
        monkeypatch.setattr("django_counters.contrib.uniques.reading.PAGE", 8)
        tracemalloc.start()
        try:
            by_pages, (_, peak) = reads[path](), tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert by_pages == at_once
    assert at_once
    assert peak < 100 * len(crowds[0].body), "200 sets were in memory"
