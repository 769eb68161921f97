"""What a load needs, from the costs of one increment: plain arithmetic, nothing is measured here.

Units: seconds, bytes, increments a second. Cores are those of the machine that was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.capacity.costs import Capacity, NotMeasured
from django_counters.conf import MOST_SHARDS
from django_counters.stores.redis.keys import SLOTS

DAY = 86_400
KNOWN = 60.0  # seconds for which Redis answers with a total that it was told
KEPT = 3600.0  # seconds after which Redis drops the totals that it was told
# Of one cache, between two flushes: no generation of a slot gets so large that it costs the totals.
REMEMBERED = 10_000 * SLOTS
GENERATIONS = 2  # of a slot at the same time: one is open while the one before lands

Upkeep = Literal["flush", "rollup"]


@dataclass(frozen=True)
class Load:
    """What is counted.

    Attributes:
        sustained: increments a second over the day.
        peak: increments a second when most is counted.
        changed: different counters that change between two flushes, as sustained.
        changed_peak: the same when most is counted.
        interval: seconds between two flushes.
        hottest: the share of all increments that the hottest counter has.
        counters: how many there are.
        retention: days for which entries of a ledger are kept.
        utilisation: how much of a core is used at the peak.
        spread: how much more the busiest node has to do than the mean.
    """

    sustained: float
    peak: float
    changed: float
    changed_peak: float
    interval: float
    hottest: float
    counters: float
    retention: float
    utilisation: float = 0.6
    spread: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if not 0 < self.sustained <= self.peak:
            raise ValueError("sustained is more than nothing and not more than the peak")
        if not (0 < self.utilisation <= 1 <= self.spread and 0 < self.hottest <= 1):
            raise ValueError("utilisation and hottest are shares, spread is at least 1")
        if not 0 < self.changed <= self.changed_peak <= self.counters:
            raise ValueError("changed is more than nothing, and not more than there are counters")
        if self.interval <= 0 or self.retention < 0:
            raise ValueError("an interval is more than nothing, and a retention not less")

    @property
    def landing(self) -> float:
        """Rows a second that flushes change, as sustained."""
        return self.changed / self.interval

    @property
    def landing_peak(self) -> float:
        """The same when most is counted."""
        return self.changed_peak / self.interval


@dataclass(frozen=True)
class Strategy:
    """A way to count.

    Attributes:
        words: what it is, for people.
        counting: the cost of one increment.
        in_cluster: the same where one node is not enough, if that makes a difference.
        first: the same for a counter whose total is not known there, which has to be asked for.
        upkeep: the cost of what folds it into the totals, if anything does.
        limit: the figure that says what one row takes; None where the servers are the limit.
        rows: how many rows a counter has at the most.
        keeps: whether each increment is kept as an entry.
    """

    words: str
    counting: str
    upkeep: Upkeep | None = None
    limit: str | None = None
    rows: int = 1
    keeps: bool = False
    in_cluster: str | None = None
    first: str | None = None


STRATEGIES = (
    Strategy("exact", "exact", limit="rate-exact"),
    Strategy("sharded", "sharded", limit="rate-exact", rows=MOST_SHARDS),
    Strategy("ledger", "ledger", "rollup", keeps=True),
    Strategy("ledger, batches of 1,000", "ledger-many", "rollup", keeps=True),
    Strategy("cached", "cached", "flush", first="cached-first"),
    # A server takes a batch in one script, a cluster in one for each slot.
    Strategy(
        "cached, batches of 100",
        "cached-many",
        "flush",
        in_cluster="cached-part",
        first="cached-many-first",
    ),
)


@dataclass(frozen=True)
class Plan:
    """What it takes; cores are whole ones, as many as are used at the stated utilisation.

    Attributes:
        client_cores: of the processes that count, for nothing but counting.
        database_cores: of the one PostgreSQL, at the peak, upkeep included.
        redis_nodes: of one core each.
        caches: how many entries of CACHES the counters have to be divided among at the least.
        asked: totals a second that PostgreSQL is asked for at the most, to answer with values.
        workers: processes that flush at the same time, each in caches of its own.
        wal: bytes a second of PostgreSQL's write-ahead log, at the peak.
        wal_day: the same over a day, as sustained.
        log: bytes a second of all append-only files, at the peak; None where none was written.
        entries_day: rows of the partition of a day, as sustained.
        partition: its bytes.
        disk: bytes of counters, and of entries for as long as they are kept.
        memory: bytes of what waits in Redis.
        totals: bytes of the totals that Redis keeps, to answer with values.
        one_counter: increments a second that one counter takes at the most; None where the servers
            decide.
        parts: into how many the hottest counter has to be divided by hand.
    """

    client_cores: int
    database_cores: int
    redis_nodes: int
    caches: int
    asked: float
    workers: int
    wal: float
    wal_day: float
    log: float | None
    entries_day: float
    partition: float
    disk: float
    memory: float
    totals: float
    one_counter: float | None
    parts: int


def plan(load: Load, strategy: Strategy, costs: Capacity) -> Plan:
    """What a load needs with a strategy.

    Raises:
        NotMeasured: a cost is missing that decides.
    """
    if strategy.in_cluster and _nodes(load, strategy, costs) > 1:
        return plan(load, replace(strategy, counting=strategy.in_cluster, in_cluster=None), costs)
    nodes, workers = _nodes(load, strategy, costs), _workers(load, strategy, costs)
    entries = load.sustained * DAY if strategy.keeps else 0.0
    partition = entries * costs.figure("entry")
    limit = _one_counter(load, strategy, costs)
    return Plan(
        client_cores=_cores(load, _client(load, strategy, costs)),
        database_cores=_cores(load, _database(load, strategy, costs)),
        redis_nodes=nodes,
        caches=max(math.ceil(nodes / SLOTS), workers, _remembering(load, strategy)),
        asked=_asked(load, strategy),
        workers=workers,
        wal=_wal(strategy, costs, load.peak, load.landing_peak),
        wal_day=_wal(strategy, costs, load.sustained, load.landing) * DAY,
        log=_log(load, strategy, costs),
        entries_day=entries,
        partition=partition,
        disk=partition * load.retention + load.counters * costs.figure("row"),
        memory=_memory(load, strategy, costs),
        totals=_totals(load, strategy, costs),
        one_counter=limit,
        parts=1 if limit is None else math.ceil(load.peak * load.hottest / limit),
    )


def _cores(load: Load, used: float) -> int:
    """Whole cores, of which so much is used."""
    return math.ceil(used / load.utilisation)


def _asked(load: Load, strategy: Strategy) -> float:
    """Redis knows a total for a while; a counter is asked for once in that, if it is counted."""
    if strategy.first is None:
        return 0.0
    return min(load.peak, _counted(load, KNOWN) / KNOWN)


def _counted(load: Load, seconds: float) -> float:
    """Different counters that are counted in so many seconds, at the most."""
    return min(load.changed_peak * max(1.0, seconds / load.interval), load.counters)


def _client(load: Load, strategy: Strategy, costs: Capacity) -> float:
    each = costs.cost(strategy.counting).client.median
    more = costs.cost(strategy.first).client.median - each if strategy.first else 0.0
    return load.peak * each + _asked(load, strategy) * max(0.0, more)


def _workers(load: Load, strategy: Strategy, costs: Capacity) -> int:
    """A flush is one row after the other, and waits for both servers."""
    if strategy.upkeep != "flush":
        return 0
    return _cores(load, load.landing_peak * costs.cost("flush").seconds.median)


def _memory(load: Load, strategy: Strategy, costs: Capacity) -> float:
    if strategy.upkeep != "flush":
        return 0.0
    return GENERATIONS * load.changed_peak * costs.figure("pending")


def _totals(load: Load, strategy: Strategy, costs: Capacity) -> float:
    """Whoever is told a value leaves the total of its counter there."""
    if strategy.first is None:
        return 0.0
    return _counted(load, KEPT) * costs.figure("known")


def _remembering(load: Load, strategy: Strategy) -> int:
    """Caches that are enough not to forget totals when so many counters land."""
    return math.ceil(load.changed_peak / REMEMBERED) if strategy.upkeep == "flush" else 0


def _database(load: Load, strategy: Strategy, costs: Capacity) -> float:
    """Cores of PostgreSQL that are in use at the peak."""
    if strategy.upkeep == "flush":
        asked = _asked(load, strategy) * (
            _processor(strategy.first, costs) if strategy.first else 0
        )
        return load.landing_peak * _processor("flush", costs) + asked
    upkeep = _processor(strategy.upkeep, costs) if strategy.upkeep else 0.0
    return load.peak * (_processor(strategy.counting, costs) + upkeep)


def _wal(strategy: Strategy, costs: Capacity, rate: float, landing: float) -> float:
    """Bytes a second of PostgreSQL's log, at a rate of increments and of rows that land."""
    if strategy.upkeep == "flush":
        # It finds most of its pages untouched since the last checkpoint, and writes them in full.
        return landing * costs.cost("flush-cold").wal.median
    upkeep = costs.cost(strategy.upkeep).wal.median if strategy.upkeep else 0.0
    return rate * (costs.cost(strategy.counting).wal.median + upkeep)


def _log(load: Load, strategy: Strategy, costs: Capacity) -> float | None:
    """Bytes a second of all append-only files, at the peak."""
    if strategy.upkeep != "flush":
        return 0.0
    counted, landed = costs.cost(strategy.counting).log, costs.cost("flush").log
    if counted is None or landed is None:
        return None
    return load.peak * counted.median + load.landing_peak * landed.median


def _nodes(load: Load, strategy: Strategy, costs: Capacity) -> int:
    if strategy.upkeep != "flush":
        return 0
    each = costs.cost(strategy.counting).redis.median
    more = costs.cost(strategy.first).redis.median - each if strategy.first else 0.0
    counted = load.peak * each + _asked(load, strategy) * max(0.0, more)
    landed = load.landing_peak * costs.cost("flush").redis.median
    return _cores(load, (counted + landed) * load.spread)


def _one_counter(load: Load, strategy: Strategy, costs: Capacity) -> float | None:
    """What one counter takes: in Redis it is in one slot, on one node, which has one core.

    In PostgreSQL it is in so many rows, each of which is changed by one transaction at a time.
    """
    if strategy.upkeep == "flush":
        return load.utilisation / costs.cost(strategy.counting).redis.median
    if strategy.limit is None:
        return None
    return load.utilisation * costs.figure(strategy.limit) * strategy.rows


def _processor(name: str, costs: Capacity) -> float:
    span = costs.cost(name).database
    if span is None:
        raise NotMeasured(f"the processor time of PostgreSQL for {name!r} could not be seen")
    return span.median
