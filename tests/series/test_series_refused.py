"""What a series refuses, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.contrib import series
from django_counters.contrib.series import amounts
from django_counters.contrib.series.cells import decoded as decoded_by_cells
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import (
    InvalidKey,
    InvalidPeriod,
    InvalidTags,
    UnsupportedSeries,
)
from django_counters.models import CounterMeasure
from django_counters.registry import registry
from tests.series.counting import (
    DAY,
    MIDNIGHT,
    NOON,
    NOW,
    ask,
    count,
    values,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("by_period")]


class TestRefused:
    def test_what_is_not_counted_by_period(self) -> None:
        for call in (
            lambda: ask("plain:a").total(),
            lambda: ask("plain:a").per("day").list(),
            lambda: ask("plain:a").by("country"),
        ):
            with pytest.raises(UnsupportedSeries, match="plain:a is not counted by period"):
                call()

    def test_keys(self) -> None:
        for wrong in ("", [], ["a b"], None, 5, [None]):
            with pytest.raises(InvalidKey):
                series.of(wrong)  # type: ignore[arg-type]
        with pytest.raises(UnsupportedSeries, match="several namespaces"):
            series.of(["signups:a", "days:a"])

    def test_periods_and_times(self) -> None:
        wrong: list[Callable[[], object]] = [
            lambda: ask().per("year"),
            lambda: ask().per([]),  # type: ignore[arg-type]
            *(
                lambda t=t: ask().last(t)
                for t in (0, -1, 10_001, True, "7", "0d", "7y", "", None, 1.5)
            ),
            lambda: ask().last("99999999w").per("day").list(),
            lambda: ask().last("999999999w").per("day").list(),
            lambda: ask().between(NOW, NOON),
            lambda: ask().between(NOW, NOW),
            lambda: ask().between("2024-01-01"),  # type: ignore[arg-type]
            lambda: ask().between(NOW, NOW.date()),  # type: ignore[arg-type]
            lambda: ask().tz("Europe/Nowhere"),
            lambda: ask().tz("../etc"),
            lambda: ask().tz(None),  # type: ignore[arg-type]
            lambda: ask().list(),
            lambda: ask().by("country").list(),
            lambda: ask().last(30).list(),
            lambda: ask().last(30).total(),
            lambda: ask().per("hour").last("999w").list(),
            lambda: ask().per("day").between(datetime.min.replace(tzinfo=UTC), NOW).list(),
            lambda: ask().per("month").between(NOW, datetime.max.replace(tzinfo=UTC)).list(),
            lambda: ask().between(NOON, datetime.max.replace(tzinfo=UTC)).total(),
            lambda: series.of("days:a").per("hour").last(2).list(),
            lambda: series.of("orders:a").last("99999999w").total(),
            lambda: series.of("orders:a").last(3).total(),
            lambda: series.of("orders:a").per("hour").last("999w").list(),
        ]
        for call in wrong:
            with pytest.raises(InvalidPeriod) as refused:
                call()
            assert "?" not in str(refused.value)

    def test_tags(self) -> None:
        for call in (
            lambda: ask().by("city"),
            lambda: ask().where(city="x"),
            lambda: ask("days:a").by("country"),
        ):
            with pytest.raises(InvalidTags, match=r"is not declared, but (country, plan|none)"):
                call()
        for value in (True, 1.5, ["a", 2.5], "x" * 61, "a\nb", {1: 2}.items()):
            with pytest.raises(InvalidTags):
                ask().where(country=value)  # type: ignore[arg-type]
        with pytest.raises(InvalidTags):
            ask().by()

    def test_nothing_is_asked_before_it_is_needed(self) -> None:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            asked = ask().per("day").last(7).where(country="DE").by("plan")
            repr(asked)
        assert (len(queries), asked == ask().per("day").last(7).where(country="DE").by("plan")) == (
            0,
            True,
        )


class TestCost:
    """Rows and statements, which are the same on a busy machine."""

    def test_one_statement_and_one_for_the_measure(self) -> None:
        count(NOON, 1, country="DE")
        registry.forget_strategies()
        with CaptureQueriesContext(connection) as queries:
            ask().per("day").last(30).list()
        assert len(queries) == 2
        for call in (
            lambda: ask().per("day").last(30).list(),
            lambda: ask().per("week").last(30).by("country").list(),
            lambda: ask().by("country").total(),
            lambda: ask().where(country="DE").total(),
            lambda: series.of(["signups:a", "signups:b"]).per("day").last(3).each(),
        ):
            with CaptureQueriesContext(connection) as queries:
                call()
            assert len(queries) == 1

    def test_tags_are_summed_in_the_database_and_read_once(
        self, monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]
    ) -> None:
        """90 days of 100 combinations: as many rows as there are numbers to tell, and no more."""
        override_counters(days={"PER": ["day"], "TAGS": {"country": 20, "plan": 20}})
        count(NOON, 1, key="days:a", country="c0", plan="p0")
        measure = CounterMeasure.objects.get(name="days")
        CounterCell.objects.all().delete()
        CounterCell.objects.bulk_create(
            CounterCell(
                measure=measure,
                key="days:a",
                period=3,
                start=MIDNIGHT - day * DAY,
                tags=f"c{tags % 10}|p{tags // 10}",
                value=1,
            )
            for day in range(90)
            for tags in range(100)
        )
        rows, texts = _watch(monkeypatch)
        asked = series.of("days:a")
        assert values(asked.per("day").last(90)) == [100] * 90
        assert values(asked.where(country="c3").per("day").last(90)) == [10] * 90
        assert (rows, texts) == ([90, 90], [])
        assert asked.by("country").total() == {f"c{n}": 900 for n in range(10)}
        assert (rows[2:], len(texts)) == ([100], 100)
        assert len(asked.by("plan").per("day").last(90).list()) == 10
        assert (rows[3:], len(texts)) == ([9000], 200)
        assert asked.per("day").last(90).total() == 9000
        assert rows[4:] == [1]


def _watch(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[str]]:
    """How many rows come from the database, and which texts of tags are read."""

    rows: list[int] = []
    texts: list[str] = []
    summed, decoded = amounts._summed, decoded_by_cells

    def noting(*given: Any) -> Any:
        found = summed(*given)
        rows.append(len(found))
        return found

    def reading(text: str, names: Any) -> dict[str, str]:
        texts.append(text)
        return decoded(text, names)

    monkeypatch.setattr(amounts, "_summed", noting)
    monkeypatch.setattr(amounts, "decoded", reading)
    return rows, texts
