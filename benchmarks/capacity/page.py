"""The tables of ``docs/explanation/scaling.md``, from costs that were measured and stored."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmarks import hot_keys
from benchmarks.capacity.cluster import Settled, settled
from benchmarks.capacity.costs import NONE, Capacity, Cost, ruled
from benchmarks.capacity.model import REMEMBERED, STRATEGIES, Load, Plan, Strategy, plan
from django_counters.conf import MOST_SHARDS

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "benchmarks" / "results.json"
PAGE = DOCS / "explanation" / "scaling.md"
PICTURE = DOCS / "images" / "hot-keys.svg"
SKEW = 1.0
CHANGED = (100_000, 1_000_000, 10_000_000, 100_000_000)

Tables = dict[str, list[str]]


class NoMarks(Exception):
    """The page has no place for a table."""


def _load(sustained: float, peak: float, interval: float, counters: int, days: float) -> Load:
    """Traffic as skewed as that of the simulation."""
    return Load(
        sustained=sustained,
        peak=peak,
        changed=hot_keys.changed(SKEW, sustained * interval, counters),
        changed_peak=hot_keys.changed(SKEW, peak * interval, counters),
        interval=interval,
        hottest=hot_keys.shares(SKEW, counters)[0],
        counters=counters,
        retention=days,
    )


@cache
def small() -> Load:
    """What a site of some size has."""
    return _load(1_000, 10_000, interval=10, counters=100_000, days=90)


@cache
def large() -> Load:
    """What very few have."""
    return _load(1_000_000, 10_000_000, interval=60, counters=1_000_000, days=30)


def stored() -> Capacity:
    """The costs that were published with all other figures."""
    told = json.loads(RESULTS.read_text(encoding="utf-8"))["capacity"]
    return Capacity.parsed(told["fields"])


def publish() -> None:
    """Write the page and its picture from the stored costs."""
    _write(PAGE, rendered(stored()))
    _write(PICTURE, hot_keys.picture())


def publish_hot_keys() -> None:
    """Write the tables of the simulation, and its picture."""
    _write(PAGE, filled(PAGE.read_text(encoding="utf-8"), _hot()))
    _write(PICTURE, hot_keys.picture())


def rendered(costs: Capacity) -> str:
    """What the page is to be."""
    return filled(PAGE.read_text(encoding="utf-8"), {**_tables(costs), **_hot()})


def shown(costs: Capacity) -> str:
    """All tables of the costs for a terminal."""
    parts = ([f"## {name}", "", *lines, ""] for name, lines in _tables(costs).items())
    return "\n".join(line for lines in parts for line in lines)


def filled(text: str, tables: Mapping[str, Sequence[str]]) -> str:
    """A text with tables between their marks, instead of what was there.

    Raises:
        NoMarks: the marks of a table are not there, or not once.
    """
    for name, lines in tables.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise NoMarks(f"the marks of {name} have to be on the page, once")
        before, _, rest = text.partition(begin)
        text = "\n".join([f"{before}{begin}", *lines, end + rest.partition(end)[2]])
    return text


def _write(path: Path, text: str) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def _hot() -> Tables:
    return {
        "hot-shares": ruled(hot_keys.hottest()),
        "hot-nodes": ruled(hot_keys.evenness()),
        "hot-remedies": ruled(hot_keys.remedies(SKEW)),
    }


def _tables(costs: Capacity) -> Tables:
    return {
        "costs": costs.markdown(),
        "cores": ruled(_cores(costs)),
        "choices": ruled(_choices(costs)),
        "plan-small": [*_assumed(small()), "", *ruled(_plans(small(), costs))],
        "plan-large": [*_assumed(large()), "", *ruled(_plans(large(), costs))],
        "flushes": ruled(_flushes(costs)),
    }


def _cores(costs: Capacity) -> list[list[str]]:
    """What one core takes, of each of the three programs; no upkeep is in it."""
    rows = [["counting alone", "client core", "PostgreSQL core", "Redis core"]]
    for strategy in STRATEGIES:
        rows.append(_core(strategy.words, costs.cost(strategy.counting), strategy))
        if strategy.in_cluster:
            words = f"{strategy.words}, in a cluster"
            rows.append(_core(words, costs.cost(strategy.in_cluster), strategy))
    return rows


def _core(words: str, cost: Cost, strategy: Strategy) -> list[str]:
    """Of a server that a strategy does not ask there is nothing to tell."""
    cached = strategy.upkeep == "flush"
    spans = [cost.client, None if cached else cost.database, cost.redis if cached else None]
    return [words, *(NONE if span is None else _rate(1 / span.median) for span in spans)]


def _assumed(load: Load) -> list[str]:
    """The numbers that a plan is made for, in words."""
    return [
        f"{load.sustained:,.0f} increments a second sustained, {load.peak:,.0f} at the peak, of "
        f"{load.counters:,.0f} counters with a skew of {SKEW:g}:",
        f"the hottest has {load.hottest:.1%}, and {load.changed_peak:,.0f} change in the "
        f"{load.interval:g} seconds between two flushes at the peak. Entries of a",
        f"ledger are kept for {load.retention:g} days. At the peak {load.utilisation:.0%} of a "
        "core are used, and of the busiest Redis node.",
    ]


QUANTITIES: Sequence[tuple[str, Callable[[Plan], str]]] = (
    ("client cores, for counting alone", lambda p: f"{p.client_cores:,}"),
    ("PostgreSQL cores, of one server", lambda p: f"{p.database_cores:,}"),
    ("Redis nodes of one core", lambda p: f"{p.redis_nodes:,}"),
    ("caches, at least", lambda p: f"{p.caches:,}"),
    ("totals asked of PostgreSQL, a second, at most", lambda p: f"{p.asked:,.0f}"),
    ("flush workers at a time", lambda p: f"{p.workers:,}"),
    ("WAL at the peak, MB/s", lambda p: _size(p.wal, 1e6)),
    ("WAL of a day, GB", lambda p: _size(p.wal_day, 1e9)),
    ("append-only files at the peak, MB/s", lambda p: _size(p.log, 1e6)),
    ("Redis memory for what waits, GB", lambda p: _size(p.memory, 1e9)),
    ("Redis memory for known totals, GB, at most", lambda p: _size(p.totals, 1e9)),
    ("entries in the partition of a day", lambda p: f"{p.entries_day:,.0f}"),
    ("size of the partition of a day, GB", lambda p: _size(p.partition, 1e9)),
    ("disk for counters and entries, GB", lambda p: _size(p.disk, 1e9)),
    (
        "one counter takes, a second, at most",
        lambda p: NONE if p.one_counter is None else _rate(p.one_counter),
    ),
    ("parts of the hottest counter", lambda p: f"{p.parts:,}"),
)
SKEWED: Sequence[tuple[str, Callable[[Settled], str]]] = (
    ("counters to divide by hand", lambda s: f"{s.divided:,}"),
    (
        "busiest Redis node, times the mean, as planned",
        lambda s: f"{s.spread:.2f}" if s.plan.redis_nodes else NONE,
    ),
)


def _plans(load: Load, costs: Capacity) -> list[list[str]]:
    found = [settled(load, strategy, costs, SKEW) for strategy in STRATEGIES]
    head = ["what it takes", *(strategy.words for strategy in STRATEGIES)]
    rows = ([words, *(told(one.plan) for one in found)] for words, told in QUANTITIES)
    return [head, *rows, *([words, *map(told, found)] for words, told in SKEWED)]


def _flushes(costs: Capacity) -> list[list[str]]:
    """What landing takes, by the number of counters that change in a minute."""
    (cached,) = (one for one in STRATEGIES if one.counting == "cached-many")
    landed = replace(cached, first=None)  # nobody asks for a value
    totals = f"caches of {REMEMBERED:,} counters"
    rows = [
        ["counters that change in a minute", "workers", "PostgreSQL cores", "WAL, MB/s", totals]
    ]
    for number in CHANGED:
        load = replace(large(), counters=number, changed=number, changed_peak=number)
        took = plan(load, landed, costs)
        cores, wal = f"{took.database_cores:,}", _size(took.wal, 1e6)
        caches = f"{math.ceil(number / REMEMBERED):,}"
        rows.append([f"{number:,}", f"{took.workers:,}", cores, wal, caches])
    return rows


def _choices(costs: Capacity) -> list[list[str]]:
    """Strategy, rate, accuracy, durability, and what to take it for."""

    def took(name: str) -> str:
        return _rate(costs.figure(name))

    def core(name: str) -> str:
        return f"{_rate(1 / costs.cost(name).redis.median)} for each Redis core"

    return [
        [
            "strategy",
            "one counter, a second",
            "accuracy",
            "lost in a crash",
            "you pay with",
            "take it for",
        ],
        [
            "exact",
            f"{took('rate-exact')}; {took('rate-held')} where transactions go on for 2 ms",
            "exact, with bounds; returns the value",
            "nothing that was committed",
            "waiting for one row",
            "stock, quotas, money; whatever has a floor. **Begin here.**",
        ],
        [
            "sharded, slotted",
            f"{took('rate-sharded')}, then the cores are used up; never more than "
            f"{MOST_SHARDS} times an exact row",
            "exact; no bounds",
            "nothing that was committed",
            "PostgreSQL cores, WAL",
            "hot counters that join a transaction",
        ],
        [
            "ledger",
            f"{took('rate-ledger')}, then the cores are used up",
            "exact, once for each token, with a history; returns no value",
            "nothing that was committed",
            "disk and WAL for each increment",
            "what is retried, audited, or asked for by the hour",
        ],
        [
            "cached",
            core("cached"),
            "exact, outside of the transaction",
            "[what Redis loses](cached-counters.md#what-redis-can-lose) before the next flush",
            "client and Redis cores",
            "likes and views: from where PostgreSQL's cores or the row are not enough",
        ],
        [
            "cached, batches of 100",
            core("cached-many"),
            "the same; as late as the batch",
            "the same, and the batch of a process that dies",
            "a moment of delay",
            "consumers of streams, log readers, workers: whoever has many at once",
        ],
    ]


def _rate(number: float) -> str:
    """Increments a second, as precisely as such a figure is: two digits."""
    if number <= 0:
        return "0"
    digits = max(0, len(f"{number:.0f}") - 2)
    return f"{round(number, -digits):,.0f}"


def _size(number: float | None, unit: float) -> str:
    if number is None:
        return NONE
    scaled = number / unit
    return f"{scaled:,.0f}" if scaled >= 10 or scaled == 0 else f"{scaled:,.2g}"
