"""Unit costs are measured of the right program, and plans are what one calculates by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.capacity import costs, measure, measuring, meter, page, sizes, ways
from benchmarks.capacity.costs import Capacity, Cost, Figure, NotMeasured, Span
from benchmarks.capacity.meter import Meter, Spent
from benchmarks.capacity.model import KNOWN, STRATEGIES, Load, Plan, Strategy, plan
from benchmarks.cases.cached import client
from benchmarks.harness import Effort, WrongSum
from benchmarks.inspection import execute
from benchmarks.pgbench import PgbenchFailed, find
from benchmarks.settings import COUNTERS
from django_counters.models import Counter
from django_counters.strategies.cached import RETURNED_AGE

MICRO = 1e-6
HOUR = 3600.0
EXACT, SHARDED, LEDGER, _, CACHED, BATCHES = STRATEGIES


def span(median: float) -> Span:
    return Span(median, median / 2, median * 2)


def cost(name: str, client: int, database: int, redis: int, wal: int, log: int = 0) -> Cost:
    """Times are in microseconds; a call lasts as long as all three together."""
    return Cost(
        name,
        f"one {name}",
        client=span(client * MICRO),
        database=span(database * MICRO),
        redis=span(redis * MICRO),
        wal=span(wal),
        log=span(log),
        seconds=span((client + database + redis) * MICRO),
    )


COSTS = Capacity(
    {"date": "2001-01-01", "cores": 2},
    (
        cost("exact", 100, 200, 0, 150),
        cost("sharded", 120, 240, 0, 200),
        cost("ledger", 120, 250, 0, 400),
        cost("ledger-many", 3, 6, 0, 300),
        cost("cached", 50, 0, 20, 0, 90),
        cost("cached-many", 5, 0, 4, 0, 40),
        cost("cached-part", 10, 0, 8, 0, 50),
        cost("cached-first", 250, 300, 50, 0, 130),
        cost("cached-many-first", 25, 30, 5, 0, 60),
        cost("flush", 4, 4, 2, 200, 30),
        cost("flush-cold", 4, 4, 2, 300, 30),
        cost("rollup", 1, 2, 0, 50),
    ),
    (
        Figure("rate-exact", "one row", "a second", span(1000)),
        Figure("entry", "an entry", "bytes", span(250)),
        Figure("row", "a counter", "bytes", span(200)),
        Figure("pending", "what waits", "bytes", span(50)),
        Figure("known", "a total", "bytes", span(100)),
    ),
)
LOAD = Load(
    sustained=1_000,
    peak=10_000,
    changed=10_000,
    changed_peak=50_000,
    interval=10,
    hottest=0.1,
    counters=1_000_000,
    retention=30,
    utilisation=0.5,
    spread=1.5,
)


def test_a_plan_of_exact_counters_is_what_one_calculates() -> None:
    took = plan(LOAD, EXACT, COSTS)
    assert took.client_cores == 2  # 10,000 * 100 µs is one core, half used
    assert took.database_cores == 4  # 10,000 * 200 µs is two
    assert (took.redis_nodes, took.caches, took.workers) == (0, 0, 0)
    assert took.wal == pytest.approx(1_500_000)  # bytes a second: 10,000 * 150
    assert took.wal_day == pytest.approx(1_000 * 150 * 24 * HOUR)
    assert took.disk == pytest.approx(200_000_000)  # a million rows
    assert took.one_counter == pytest.approx(500)  # half of what one row takes
    assert took.parts == 2  # a tenth of 10,000 is 1,000


def test_a_sharded_counter_takes_no_more_than_its_rows() -> None:
    took = plan(replace(LOAD, peak=1_000_000), SHARDED, COSTS)
    assert took.one_counter == pytest.approx(32_000)  # 64 rows, half of 1,000 each
    assert took.parts == 4  # a tenth of a million is 100,000


def test_a_plan_of_a_ledger_keeps_entries_and_rolls_them_up() -> None:
    took = plan(LOAD, LEDGER, COSTS)
    assert took.database_cores == 6  # 10,000 * (250 + 2) µs are 2.52, half used: 5.04
    assert took.wal == pytest.approx(10_000 * (400 + 50))
    assert took.wal_day == pytest.approx(1_000 * (400 + 50) * 86_400)
    assert took.entries_day == 86_400_000
    assert took.partition == pytest.approx(21.6e9)
    assert took.disk == pytest.approx(30 * 21.6e9 + 200e6)
    assert (took.one_counter, took.parts) == (None, 1)


def test_a_plan_of_cached_counters_writes_what_changed() -> None:
    took = plan(LOAD, CACHED, COSTS)
    assert took.asked == pytest.approx(5_000)  # at most 300,000 counters in a minute
    assert took.client_cores == 3  # 10,000 * 50 µs and 5,000 * 200 more are 1.5, half used
    assert took.database_cores == 4  # 5,000 rows * 4 µs and 5,000 totals * 300 µs are 1.52
    assert took.redis_nodes == 2  # (10,000 * 20 + 5,000 * 30 + 5,000 * 2) µs * 1.5 / 0.5 is 1.08
    assert took.workers == 1  # 5,000 * (4 + 4 + 2) µs
    assert took.wal == pytest.approx(5_000 * 300)  # pages as a whole
    assert took.wal_day == pytest.approx(1_000 * 300 * 86_400)
    assert took.log == pytest.approx(10_000 * 90 + 5_000 * 30)
    assert took.memory == pytest.approx(2 * 50_000 * 50)
    assert took.totals == pytest.approx(1_000_000 * 100)  # all are counted within an hour
    assert took.one_counter == pytest.approx(25_000)  # half of 1 / 20 µs
    assert took.entries_day == took.partition == 0


def test_more_nodes_than_slots_need_more_caches_and_so_do_workers() -> None:
    many = replace(LOAD, peak=1_000_000, hottest=0.1)
    took = plan(many, CACHED, COSTS)
    assert took.redis_nodes == 61  # (20 + 0.01) * 1.5 / 0.5 = 60.03
    assert took.caches == 4  # of 16 slots each
    assert took.parts == 4  # 100,000 of one counter, 25,000 of a node
    wide = replace(LOAD, counters=1e7, changed_peak=1e7)
    took = plan(wide, BATCHES, COSTS)
    assert took.workers == 20  # a million rows a second * 10 µs, half used
    assert took.caches == 63  # of 160,000 counters
    took = plan(replace(wide, changed_peak=1e5, interval=0.02), BATCHES, COSTS)
    assert took.workers == took.caches == 100  # five million rows a second


def test_a_batch_costs_more_where_one_node_is_not_enough() -> None:
    enough = replace(LOAD, peak=75_000)  # (75,000 * 4 + 5,000 * (1 + 2)) µs * 1.5 / 0.5 is 0.95
    took = plan(enough, BATCHES, COSTS)
    assert (took.redis_nodes, took.client_cores, took.one_counter) == (1, 1, 125_000)
    took = plan(replace(enough, peak=100_000), BATCHES, COSTS)
    assert took.redis_nodes == 3  # (100,000 * 8 + 5,000 * 2) µs * 1.5 / 0.5 is 2.43
    assert (took.client_cores, took.one_counter) == (3, 62_500)  # 1.08, half used


def test_a_total_is_asked_for_once_while_redis_knows_it() -> None:
    assert RETURNED_AGE == KNOWN * 1000
    every_minute = replace(LOAD, interval=60)
    assert plan(every_minute, CACHED, COSTS).asked == pytest.approx(50_000 / 60)
    assert plan(replace(LOAD, counters=60_000), CACHED, COSTS).asked == pytest.approx(1_000)
    seldom = replace(LOAD, peak=1_000, counters=1e7, changed_peak=1e7)
    assert plan(seldom, CACHED, COSTS).asked == 1_000  # never counted twice
    assert plan(LOAD, EXACT, COSTS).asked == 0


def test_batches_cost_what_they_cost_and_not_what_single_ones_do() -> None:
    big = replace(LOAD, peak=1_000_000)
    assert plan(big, CACHED, COSTS).client_cores == 102
    assert plan(big, BATCHES, COSTS).client_cores == 21


SIZES = ("client_cores", "database_cores", "redis_nodes", "caches", "workers", "wal", "log")
MORE = ("wal_day", "entries_day", "partition", "disk", "memory", "totals", "parts")


def _grows(less: Plan, more: Plan) -> None:
    for name in (*SIZES, *MORE):
        assert getattr(less, name) <= getattr(more, name), name


@given(st.sampled_from(STRATEGIES), st.floats(1, 1e7), st.floats(1, 100), st.floats(1, 100))
def test_more_load_never_needs_less(
    strategy: Strategy, peak: float, factor: float, wider: float
) -> None:
    less = replace(LOAD, sustained=peak / 10, peak=peak, counters=1e9)
    more = replace(
        less,
        sustained=less.sustained * factor,
        peak=peak * factor,
        changed=less.changed * wider,
        changed_peak=less.changed_peak * wider,
    )
    _grows(plan(less, strategy, COSTS), plan(more, strategy, COSTS))


@given(st.sampled_from(STRATEGIES), st.floats(0.1, 1), st.floats(1, 4), st.floats(0.1, 1))
def test_a_core_that_is_used_less_or_a_hotter_counter_needs_more(
    strategy: Strategy, utilisation: float, spread: float, hottest: float
) -> None:
    full = replace(LOAD, utilisation=1.0, spread=1.0, hottest=0.1)
    less = replace(full, utilisation=utilisation, spread=spread, hottest=hottest)
    _grows(plan(full, strategy, COSTS), plan(less, strategy, COSTS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"peak": 999},
        {"sustained": 0},
        {"utilisation": 0},
        {"utilisation": 60},
        {"spread": 0.9},
        {"hottest": 5},
        {"changed": 60_000},
        {"changed_peak": 2_000_000},
        {"interval": 0},
        {"retention": -1},
    ],
)
def test_a_load_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"than|shares"):
        replace(LOAD, **wrong)


def test_what_could_not_be_seen_is_no_plan() -> None:
    hidden = replace(COSTS.cost("exact"), database=None)
    with pytest.raises(NotMeasured, match="'exact'"):
        plan(LOAD, EXACT, replace(COSTS, costs=(hidden,)))
    with pytest.raises(NotMeasured, match="'sharded'"):
        plan(LOAD, SHARDED, replace(COSTS, costs=()))
    silent = replace(COSTS.cost("cached"), log=None)
    others = tuple(one for one in COSTS.costs if one.name != "cached")
    assert plan(LOAD, CACHED, replace(COSTS, costs=(silent, *others))).log is None


def test_costs_are_the_same_after_json() -> None:
    hidden = replace(COSTS.cost("exact"), database=None, log=None)
    told = replace(COSTS, costs=(hidden, *COSTS.costs[1:]))
    assert Capacity.parsed(json.loads(json.dumps(told.fields()))) == told


def test_the_median_is_shown_with_the_least_and_the_greatest() -> None:
    assert Span.of([3.0, 1.0, 2.0, 9.0, 4.0]) == Span(3.0, 1.0, 9.0)
    cells = replace(COSTS.cost("exact"), database=None).cells()
    assert cells[:4] == ["one exact", "100.0 (50.0 to 200.0)", costs.NONE, "0.0 (0.0 to 0.0)"]


def test_the_page_is_what_the_stored_costs_say() -> None:
    stored = page.stored()
    assert page.PAGE.read_text(encoding="utf-8") == page.rendered(stored)


def test_a_table_without_its_place_is_an_error() -> None:
    text = "a\n<!-- one:begin -->\nold\n<!-- one:end -->\nb"
    filled = "a\n<!-- one:begin -->\n| new |\n<!-- one:end -->\nb"
    assert page.filled(text, {"one": ["| new |"]}) == filled
    for wrong in ("", text + text, text.replace("end", "begin")):
        with pytest.raises(page.NoMarks, match="one"):
            page.filled(wrong, {"one": []})


@pytest.fixture
def strategies(apart: str, override_counters: Callable[..., None]) -> Iterator[Any]:
    names = ("pages", "spread", "orders")
    override_counters(**{name: COUNTERS[name] for name in names})
    with client() as server, measuring._logged(server):
        yield server


# What other tests ask of the same servers is measured, too: CI runs this file once more by itself.
ALONE = "PYTEST_XDIST_WORKER" not in os.environ


def _calculated() -> int:
    return sum(number * number for number in range(2_000_000)) and 1


def _in_the_database() -> int:
    execute("SELECT SUM(n * n)::bigint FROM generate_series(1::numeric, 300000) n")
    return 1


def _in_redis(server: Any) -> int:
    server.eval("local n = 0 for i = 1, 10000000 do n = n + i % 7 end return n", 0)
    return 1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_each_program_pays_for_its_own_work(strategies: Any) -> None:
    one = Meter(strategies)
    if one.around(lambda: 1).database is None:
        pytest.skip("the server's processes cannot be seen here")
    here, there = one.around(_calculated), one.around(_in_the_database)
    assert there.database is not None
    assert here.database is not None
    assert here.client > 0.05
    assert there.database > 0.05 > there.client
    if ALONE:
        assert here.database < 0.05
        assert here.redis < 0.05 > there.redis
    in_redis = one.around(lambda: _in_redis(strategies))
    assert in_redis.redis > 0.05 > in_redis.client


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_server_elsewhere_is_not_looked_for_here(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "_text", lambda path: "bash\n")
    with redis.Redis.from_url(server) as without:
        told = Meter(without).around(lambda: 1)
    assert (told.database, told.log) == (None, None)


LITTLE = Effort(rounds=5, share=0.05)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_what_is_measured_is_what_was_counted(strategies: Any) -> None:
    one = Meter(strategies)
    measuring.costs_of(one, replace(LITTLE, rounds=1), lambda _: None)  # leaves nothing behind
    told = {each.name: each for each in measuring.costs_of(one, LITTLE, lambda _: None)}
    assert {one.counting for one in STRATEGIES} < told.keys()
    for name in ("exact", "sharded", "ledger", "flush", "rollup"):
        assert told[name].wal.least > 0, name
    for name in ("cached", "cached-many", "incrby"):
        assert told[name].redis.median > 0, name
        log = told[name].log
        assert log is not None
        assert log.least > 20, name
    first, known = told["cached-first"].database, told["cached"].database
    if ALONE and first is not None:
        assert known is not None
        assert first.median > 10 * known.median
    assert all(0 < one.client.least <= one.client.greatest for one in told.values())
    # A hundred share a round trip.
    assert told["cached-many"].client.median < told["cached"].client.median
    assert told["exact-many"].client.median < told["exact"].client.median


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_way_that_does_not_count_is_found_out(
    strategies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(one: Meter, share: float) -> Spent:
        Counter.objects.increment("views:twice")
        return one.around(lambda: Counter.objects.increment("views:twice") and 1)

    stored = partial(Counter.objects.value, "views:twice")
    monkeypatch.setattr(measuring, "ways", lambda: [ways.Way("twice", "", twice, stored)])
    with pytest.raises(WrongSum, match="twice"):
        measuring.costs_of(Meter(strategies), LITTLE, lambda _: None)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_sizes_are_those_of_what_was_kept(strategies: Any) -> None:
    told = {one.name: one.span for one in sizes.sizes(replace(LITTLE, rounds=2), lambda _: None)}
    # A UUID, a time, a key and two numbers; in Redis a key and a number.
    assert told["entry"].greatest > 16 + 8 + 20 + 16
    assert told["row"].greatest > 20 + 8
    assert 16 < told["pending"].median < 400
    assert told["known"].median > 20


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_rates_are_of_increments_that_were_stored(strategies: Any) -> None:
    try:
        find()
    except PgbenchFailed as error:
        pytest.skip(str(error))
    told = {one.name: one.span.median for one in measuring.rates(Effort(1), lambda _: None)}
    assert told["rate-held"] < 500  # two milliseconds each
    assert told["rate-exact"] > told["rate-held"]


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        measure(Effort(4), lambda _: None)
