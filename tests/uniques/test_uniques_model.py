"""``unique`` and ``uniques`` beside plain sets: who came when, rolled up and landed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.contrib import series, uniques
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from django_counters.tokens import mint
from django_counters.upkeep import rollup

pytestmark = [pytest.mark.rare, pytest.mark.django_db(transaction=True)]
NOW = clock.utc().replace(second=0, microsecond=0)
KEYS = ("a", "b")
COUNTRIES = (None, "DE", "I|T")
PEOPLE: tuple[str | int | UUID, ...] = (*range(4), "3", "ä", UUID(int=7), str(UUID(int=7)))
LONG = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
WAYS = ("one", "now and later", "collected", "token")


class Visit(NamedTuple):
    """Who came."""

    key: str
    who: str | int | UUID
    at: datetime
    country: str | None
    way: str


visits = st.builds(
    Visit,
    st.sampled_from(KEYS),
    st.sampled_from(PEOPLE),
    st.integers(0, 9 * 24).map(lambda hours: NOW - timedelta(hours=hours)),
    st.sampled_from(COUNTRIES),
    st.sampled_from(WAYS),
)
steps = st.one_of(visits, visits, visits, st.sampled_from(["rollup", "flush"]))


class Question(NamedTuple):
    """What is asked."""

    per: str
    number: int
    keys: tuple[str, ...]
    where: tuple[str | None, ...]


questions = st.builds(
    Question,
    st.sampled_from(list(LONG)),
    st.integers(1, 9),
    st.sampled_from([("a",), ("b",), KEYS]),
    st.sampled_from([(), (None,), ("DE",), ("DE", "I|T")]),
)


def begin(moment: datetime, per: str) -> datetime:
    """When its period begins, in UTC."""
    if per == "hour":
        return moment.replace(minute=0)
    day = moment.replace(hour=0, minute=0)
    return day - timedelta(days=day.weekday()) if per == "week" else day


def count(visit: Visit) -> None:
    """Let somebody come, in one of the ways."""
    key, tags = f"model:{visit.key}", {"country": visit.country}
    told: dict[str, Any] = {"at": visit.at, "who": visit.who, "tags": tags}
    if visit.way == "collected":
        with Counter.objects.collect():
            Counter.objects.increment(key, **told)
    elif visit.way == "token":
        token = mint(NOW)
        for _ in range(2):
            Counter.objects.increment(key, token=token, **told)
    else:
        for _ in range(WAYS.index(visit.way) + 1):
            Counter.objects.increment_many({key: 2}, **told)


def expected(question: Question, given: Sequence[Visit]) -> list[set[str]]:
    """Who came in each period."""
    last = begin(NOW, question.per)
    starts = [last - LONG[question.per] * n for n in range(question.number - 1, -1, -1)]
    return [
        {
            str(visit.who)
            for visit in given
            if visit.key in question.keys
            and begin(visit.at, question.per) == start
            and (not question.where or visit.country in question.where)
        }
        for start in starts
    ]


def check(question: Question, given: Sequence[Visit]) -> None:
    """Compare one answer, as a whole, by period, and by tag."""
    keys = [f"model:{key}" for key in question.keys]
    counts: Any = series.of(keys if len(keys) > 1 else keys[0])
    counts = counts.per(question.per).last(question.number)
    if question.where:
        counts = counts.where(country=list(question.where))
    sets = expected(question, given)
    assert [point.value for point in uniques.points(counts)] == list(map(len, sets))
    assert uniques.count(counts) == len(set().union(*sets))
    assert uniques.count(counts).is_exact
    by = {
        country: len(set().union(*found))
        for country in COUNTRIES
        for found in [expected(question._replace(where=(country,)), given)]
        if not question.where or country in question.where
    }
    assert uniques.count_by(counts.by("country")) == {
        one: number for one, number in by.items() if number
    }


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("strategy", ["exact", "sharded", "ledger", "cached"])
def test_they_tell_who_came(
    strategy: str, monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]
) -> None:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    options: dict[str, Any] = {"STRATEGY": strategy, "UNIQUE": ["hour", "day", "week"]}
    if strategy == "cached":
        options["OPTIONS"] = {"timeout": 10}
    override_counters(model={**options, "TAGS": {"country": 10}})
    registry.forget_strategies()
    CounterMeasure.objects.filter(name="model").delete()

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(steps, max_size=14), st.lists(questions, min_size=4, max_size=8))
    def agree(done: list[Visit | str], asked: list[Question]) -> None:
        given = []
        try:
            for step in done:
                if isinstance(step, Visit):
                    count(step)
                    given.append(step)
                elif step == "rollup":
                    rollup()
                else:
                    flush()
            flush()
            for question in asked:
                check(question, given)
        finally:
            flush()
            CounterMember.objects.all().delete()
            CounterUnique.objects.all().delete()

    with override_settings(TIME_ZONE="UTC"):
        agree()
    registry.forget_strategies()
