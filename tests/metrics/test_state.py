"""What a scrape asks of databases and Redis."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, router
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from prometheus_client import CollectorRegistry

from django_counters import clock
from django_counters.cached import feature as cached_counters
from django_counters.cached.flush import flush
from django_counters.features import Gauge
from django_counters.ledger import operations as ledger
from django_counters.metrics import facts, prometheus, samples
from django_counters.metrics.facts import Facts
from django_counters.metrics.prometheus import CountersCollector
from django_counters.metrics.samples import Gathering, Sample, Scrape, samples_of, scraping
from django_counters.models import Counter, CounterIncident
from django_counters.stores.sql.incidents import record
from django_counters.tables.schema import CounterHorizon
from django_counters.testing import override_counters
from tests.redis.counting import eventually
from tests.settling import roll_up
from tests.testapp.models import Song

pytestmark = pytest.mark.django_db
commits = pytest.mark.django_db(transaction=True)
DJANGO = "django.core.cache.backends.redis.RedisCache"
ALL: dict[str, Mapping[str, object]] = {
    "likes": {"STRATEGY": "sharded"},
    "orders": {"STRATEGY": "ledger"},
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
}
Values = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def _namespaces(cached: str) -> Iterator[None]:
    with override_counters(**ALL):
        yield


def now(using: str = "default") -> dict[str, Values]:
    """The samples of one database, by metric and labels; without the database."""
    *_, scrape = scraping(using)
    return by_name(samples_of(scrape))


def ask_instead(
    monkeypatch: pytest.MonkeyPatch, part: str, answer: Callable[[str], object]
) -> None:
    """Let a part of the facts be answered by somebody else."""
    label, _ = facts.PARTS[part]
    monkeypatch.setattr(facts, "PARTS", {**facts.PARTS, part: (label, answer)})


def by_name(found: Iterator[Sample]) -> dict[str, Values]:
    values: dict[str, Values] = {}
    for metric, labels, value in found:
        assert len(labels) == len(metric.labels)
        known = values.setdefault(metric.name, {})
        assert labels[1:] not in known, f"{metric.name} {labels} twice"
        known[labels[1:]] = value
    return values


def count_everywhere(number: int = 1) -> None:
    for at in range(number):
        for namespace in ("pages", "likes", "orders", "views"):
            Counter.objects.increment(f"{namespace}:{at}")
        Song.objects.create().plays.increment()


@commits
def test_what_waits_is_told_where_it_waits() -> None:
    count_everywhere(3)
    found = now()
    assert found[samples.ROWS.name] == {("sharded",): 3, ("slotted",): 3, ("ledger",): 3}
    assert found[samples.PENDING.name] == {
        ("sharded", ""): 3,
        ("slotted", ""): 3,
        ("ledger", ""): 3,
        ("cached", "default"): 3,
    }
    assert 0 < found[cached_counters.FLUSH_LAG.name][("default",)] < 60
    assert 1 <= found[cached_counters.PENDING_GENERATIONS.name][("default",)] <= 3
    assert set(found[samples.UP.name].values()) == {1}
    assert found[cached_counters.REDIS_UP.name] == {("default",): 1}
    assert found[ledger.FENCED.name] == {(): 0}


@commits
def test_shards_left_by_another_strategy_count_for_the_present_one() -> None:
    with override_counters(orders={"STRATEGY": "sharded"}):
        Counter.objects.increment("orders:a")
    Counter.objects.increment("orders:b")
    found = now()
    assert found[samples.ROWS.name] == {("sharded",): 0, ("slotted",): 0, ("ledger",): 2}
    assert found[samples.PENDING.name][("ledger", "")] == 2


def is_young() -> bool:
    """Whether the totals are of now. Tests beside this one keep a rollup from knowing it."""
    roll_up()
    return 0 <= now().get(ledger.ROLLUP_LAG.name, {}).get((), -1) < 60


@commits
def test_after_upkeep_nothing_waits() -> None:
    count_everywhere()
    flush()
    assert eventually(is_young, 60)
    found = now()
    assert set(found[samples.ROWS.name].values()) == {0}
    assert set(found[samples.PENDING.name].values()) == {0}
    assert found[cached_counters.FLUSH_LAG.name] == {("default",): 0}
    assert found[samples.GATHER_SECONDS.name][()] > 0
    # A rollup makes the totals young, also where nothing waits.
    CounterHorizon._base_manager.update(as_of=clock.now() - timedelta(hours=1))
    assert now()[ledger.ROLLUP_LAG.name][()] == pytest.approx(3600, abs=60)
    assert eventually(is_young, 60)


def test_all_kinds_of_incidents_are_told() -> None:
    record(CounterIncident.Kind.LOST, "default", {"amounts": {"views:a": 3}}, "default")
    found = now()
    expected = {(kind,): float(kind == "lost") for kind in CounterIncident.Kind.values}
    assert found[samples.INCIDENTS.name] == expected
    assert found[samples.FINDINGS.name][()] >= 1


@commits
def test_neither_statements_nor_samples_depend_on_the_number_of_counters() -> None:
    told = []
    for more in (2, 40):
        count_everywhere(more)
        found = {name: set(values) for name, values in now().items()}
        with CaptureQueriesContext(connection) as captured:
            list(scraping("default"))
        told.append((len(captured), found))
    assert told[0] == told[1]
    assert told[0][0] > 5


def test_a_redis_that_is_away_is_told() -> None:
    away = {"default": {"BACKEND": DJANGO, "LOCATION": "unix:///nonexistent/metrics-away"}}
    with override_settings(CACHES=away):
        found = now()
    up = found[samples.UP.name]
    assert {part for (part,), value in up.items() if not value} == {"redis"}
    assert found[cached_counters.REDIS_UP.name] == {("default",): 0}
    assert cached_counters.FLUSH_LAG.name not in found
    assert sum(found[cached_counters.BREAKER.name].values()) == 1


@pytest.mark.parametrize("error", [OperationalError, ZeroDivisionError])
def test_a_part_that_is_away_hides_no_other(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(using: str) -> Any:
        raise error("the ledger is away")

    monkeypatch.setattr(ledger.LedgerState, "read", lambda _, using: fail(using))
    found = now()
    assert {part for (part,), value in found[samples.UP.name].items() if not value} == {
        "ledger",
        "findings",
    }
    assert ledger.ROLLUP_LAG.name not in found
    assert samples.INCIDENTS.name in found
    # Fewer than there are would look as if somebody had done something.
    assert samples.FINDINGS.name not in found
    assert "the ledger is away" in caplog.text


def up_of(collector: CountersCollector) -> dict[tuple[str, str], float]:
    (family,) = (one for one in collector.collect() if one.name == samples.UP.name)
    return {(s.labels["database"], s.labels["part"]): s.value for s in family.samples}


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
class TestTheCollector:
    def test_it_asks_all_databases_that_have_the_tables(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        collector = CountersCollector(max_age=0, patience=60)
        assert {using for using, _ in up_of(collector)} == {"default", "other"}
        tables = {"default": frozenset({Counter._meta.db_table}), "other": frozenset()}
        ask_instead(monkeypatch, "tables", tables.__getitem__)
        assert {using for using, _ in up_of(collector)} == {"default"}

    def test_a_database_that_was_asked_for_is_told_to_be_down(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Counter._meta, "db_table", "no_such_table")
        told = up_of(CountersCollector("other", patience=60))
        assert told == {("other", part): 0 for part in samples.up(Scrape(Facts("other")))}

    def test_a_router_that_fails_and_a_thread_that_is_not_there_raise_nothing(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("there is none")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            told = up_of(CountersCollector("default"))
        assert told
        assert set(told.values()) == {0}
        with monkeypatch.context() as patch:
            patch.setattr(router, "allow_migrate_model", fail)
            assert up_of(CountersCollector()) == {}
        assert "not known" in caplog.text

    def test_when_it_answers_its_connection_is_closed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed: list[bool] = []
        run = Gathering("default", max_age=0, patience=60)
        monkeypatch.setattr(connections, "close_all", lambda: closed.append(True))
        monkeypatch.setattr(samples, "scraping", lambda using: ())
        run.answer(run.begin())
        assert closed == [True]

    def test_to_register_it_nothing_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Gathering, "begin", lambda self: pytest.fail("it was asked"))
        CollectorRegistry().register(CountersCollector())
        described = {family.name for family in CountersCollector().describe()}
        assert described == {metric.name for metric in samples.state()}

    def test_whatever_is_declared_may_be_told(self) -> None:
        found = [*vars(samples).values()]
        declared = {one for one in found if isinstance(one, samples.Declared)}
        declared |= {samples.declared_for(one) for one in found if isinstance(one, Gauge)}
        assert declared == {*samples.HAPPENED, *samples.STATE}


class Slow:
    """A database that answers when it is told to, and counts who asked."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.asked = 0

    def __call__(self, using: str) -> Iterator[Scrape]:
        self.asked += 1
        self.begun.set()
        found = Facts(using, tables=frozenset({Counter._meta.db_table}))
        yield Scrape(found)
        assert self.go_on.wait(60)
        yield Scrape(replace(found, requests=5))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    database = Slow()
    monkeypatch.setattr(samples, "scraping", database)
    yield database
    database.go_on.set()


class TestScrapesAtTheSameTime:
    @pytest.mark.rare
    def test_they_share_one_answer(self, slow: Slow) -> None:
        collector = CountersCollector("default", patience=60)
        answers: list[dict[tuple[str, str], float]] = []
        threads = [
            threading.Thread(target=lambda: answers.append(up_of(collector))) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        slow.go_on.set()
        for thread in threads:
            thread.join(60)
        assert [answer[("default", "requests")] for answer in answers] == [1] * 5
        assert slow.asked == 1

    def test_an_answer_is_used_again_until_it_is_too_old(self, slow: Slow) -> None:
        slow.go_on.set()
        for max_age, asked in ((60, 1), (0, 3)):
            slow.asked = 0
            collector = CountersCollector("default", max_age=max_age, patience=60)
            for _ in range(3):
                up_of(collector)
            assert slow.asked == asked

    def test_memory_does_not_grow_with_the_number_of_tenants(
        self, slow: Slow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        collector = CountersCollector("default", max_age=60, patience=0)
        monkeypatch.setattr(prometheus, "tenant", lambda: "first")
        up_of(collector)
        assert slow.begun.wait(60)
        monkeypatch.setattr(samples, "scraping", lambda using: ())
        for number in range(300):
            monkeypatch.setattr(prometheus, "tenant", lambda number=number: f"tenant {number}")
            collector._gathering("default").begin().done.wait(60)
        assert len(collector._gatherings) <= 101
        # The one that still asks is asked for no second time.
        assert ("default", "first") in collector._gatherings

    def test_what_takes_too_long_is_told_in_part_and_begun_once(self, slow: Slow) -> None:
        collector = CountersCollector("default", max_age=0, patience=0)
        for _ in range(3):
            assert up_of(collector)[("default", "requests")] == 0
        assert slow.begun.wait(60)
        assert slow.asked == 1

    def test_what_hung_for_long_counts_for_nothing(self, slow: Slow) -> None:
        one = Gathering("default", max_age=1, patience=1)
        run = one.begin()
        run.began -= 3
        assert one.answer(run) == Scrape(Facts("default"))
        assert one.begin() is run

    def test_a_child_process_does_not_wait_for_the_thread_of_its_parent(
        self, slow: Slow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = Gathering("default", max_age=60, patience=60)
        run = one.begin()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert one.begin() is not run
