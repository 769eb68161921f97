"""One write feeds all: total, periods, tags, distinct actors and ranks, or none of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.contrib import series, uniques
from django_counters.contrib.series import Series
from django_counters.contrib.top import CounterRank
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.concurrency.victims import victims
from tests.series.cells import land
from tests.testapp.models import Talk

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "hits:page"
ALL: dict[str, Any] = {
    **{"PER": ["hour", "day"], "TAGS": {"country": 3}},
    **{"UNIQUE": ["day"], "TOP": ["day"]},
}
STATEMENTS = 30


@pytest.fixture(params=["exact", "cached"])
def strategy(request: pytest.FixtureRequest, cached: str) -> Iterator[str]:
    options = {"OPTIONS": {"timeout": 10}} if request.param == "cached" else {}
    with override_counters(hits={"STRATEGY": request.param, **ALL, **options}):
        yield str(request.param)


def told(counts: Series | None = None, key: str = KEY) -> tuple[int, ...]:
    """What each of them says: all the same, where each actor comes once."""
    counts = counts or series.of(key)
    day, hours = counts.per("day").last(2), counts.per("hour").last(30)
    ranks = CounterRank.objects.filter(key=key).values_list("value", flat=True)
    countries = day.by("country").total()
    return day.total(), hours.total(), sum(countries.values()), uniques.count(day), sum(ranks)


def count(who: int, **more: Any) -> None:
    Counter.objects.increment(KEY, who=who, tags={"country": "DE"}, **more)


def test_once_with_a_token(strategy: str) -> None:
    token = mint(clock.utc())
    for number in (2, 3):
        count(1, token=token)
        count(2)
        land()
        assert Counter.objects.value(KEY) == number
        assert told() == (number, number, number, 2, number)


def play(pk: int, who: int, token: str | None = None) -> None:
    Talk.plays.of(pk).increment(who=who, tags={"country": "DE"}, token=token)


@pytest.mark.many_writers
@pytest.mark.parametrize("token", [None, "told"])
def test_killed_after_any_statement_all_is_counted_or_nothing(token: str | None) -> None:
    talk = Talk.objects.create()
    play(talk.pk, 1)
    with victims(partial(play, talk.pk, 2, token)) as kill:
        for statement in range(1, STATEMENTS):
            sql = kill(statement)
            counted = Talk.plays.of(talk.pk).value()
            assert told(series.of(talk.plays), str(talk.pk)) == (counted,) * 5
            # Whoever dies after COMMIT has counted; without a token one statement is all of it.
            if sql is None or counted == 2:
                break
    assert counted == 2
    play(talk.pk, 2, token or "told")
    assert Talk.plays.of(talk.pk).value() == (3 if token is None else 2)


@pytest.mark.parametrize("step", STEPS)
def test_a_flush_that_dies_lands_all_of_it_or_nothing(step: str, cached: str) -> None:
    options = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **ALL}
    with override_counters(hits=options):
        for who in range(1, 4):
            count(who)
            with pytest.raises(Killed):
                flush(step=kill_at(step))
            assert len(set(told())) == 1
            flush()
            assert told() == (who,) * 5
        rollup()
        assert (Counter.objects.value(KEY), *told()) == (3,) * 6


def test_what_is_refused_is_in_none(strategy: str) -> None:
    moment = datetime(2020, 1, 1, tzinfo=clock.utc().tzinfo)
    with (
        override_counters(hits={**ALL, "KEEP": {"hour": 1, "day": 1}, "STRATEGY": strategy}),
        pytest.raises(ValueError, match="kept for so long"),
    ):
        count(1, at=moment)
    assert (Counter.objects.value(KEY), *told()) == (0,) * 6
