"""The tables of ``docs/explanation/scaling.md``: what a unit costs, and that many times as much.

Plain multiplication of what ``results.json`` holds. Units: seconds of a processor, bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.page import NONE, ruled
from benchmarks.results import Document, write

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "scaling.md"
UTILISATION = 0.6  # of a core, at the peak
# What a cost is made of: its name, the head of its column, the scale and the digits shown there.
PARTS = (
    ("client", "client CPU, µs", 1e6, 1),
    ("database", "PostgreSQL CPU, µs", 1e6, 1),
    ("redis", "Redis CPU, µs", 1e6, 1),
    ("wal", "WAL, bytes", 1, 0),
    ("log", "append-only file, bytes", 1, 0),
    ("seconds", "wall clock, µs", 1e6, 1),
)

Span = Mapping[str, float]
Cost = Mapping[str, Any]


class Load(NamedTuple):
    """Increments a second at the peak, and counters a second that flushes land meanwhile."""

    peak: float
    landed: float


class Strategy(NamedTuple):
    """A way to count: the cost of an increment, and of what folds it into the totals."""

    words: str
    counting: str
    upkeep: str = ""

    @property
    def cached(self) -> bool:
        """Whether it asks Redis and not PostgreSQL."""
        return self.upkeep == "flush"


SMALL, LARGE = Load(10_000, 2_500), Load(10_000_000, 1_000_000 / 60)
STRATEGIES = (
    Strategy("exact", "exact"),
    Strategy("sharded", "sharded"),
    Strategy("ledger", "ledger", "rollup"),
    Strategy("ledger, batches of 1,000", "ledger-many", "rollup"),
    Strategy("cached", "cached", "flush"),
    Strategy("cached, batches of 100", "cached-many", "flush"),
)


class Sparse(NamedTuple):
    """A load of many counters of which most are counted seldom.

    Attributes:
        peak: increments a second.
        counters: how many there are. That of rank i is counted in proportion to 1 / i.
        minute: seconds between two flushes, for which Redis also knows a total.
        processes: among how many the increments are divided.
    """

    peak: float
    counters: int
    minute: float = 60.0
    processes: int = 100

    @property
    def changed(self) -> float:
        """How many different counters are counted between two flushes."""
        return self._different(self.peak * self.minute)

    @property
    def merged(self) -> float:
        """How many sums a second leave the buffers of all processes, each landed once a second."""
        return self.processes * self._different(self.peak / self.processes)

    def _different(self, increments: float) -> float:
        """How many counters so many increments are of."""
        whole = math.log(self.counters) + 0.5772
        return sum(
            width * -math.expm1(-increments / (rank * whole))
            for rank, width in _ranks(self.counters)
        )


def _ranks(last: int) -> Iterator[tuple[float, float]]:
    """Ranks, each with how many neighbours it stands for: alone to 1,000, then ever more."""
    rank = 1.0
    while rank <= last:
        width = max(1.0, min(rank / 1000, last + 1 - rank))
        yield rank + (width - 1) / 2, width
        rank += width


SPARSE = Sparse(1_000_000, 10_000_000)
# The ways to count: the cost of an increment, and of one whose counter is new since the last flush.
SEEKING = (
    ("cached", "cached", "cached-first"),
    ("cached, returns nothing", "nothing", "nothing-first"),
    ("cached, returns nothing, batches of 100", "nothing-many", "nothing-many"),
)
# Processes of one machine, each of which counts so often a second, and among how many counters.
MACHINES = tuple(
    (processes, 1_000.0, counters) for counters in (100, 10_000, 1_000_000) for processes in (8, 32)
)
# How much of a table is changed by a flush, in percent, and what a counter of it costs.
DENSITIES = ((2, "flush-2"), (10, "flush-10"), (40, "flush-40"))


def render(document: Document, page: Path = PAGE) -> None:
    """Write the tables between their marks."""
    if document["capacity"]:
        write(page, rendered(document["capacity"], page.read_text(encoding="utf-8")))


def rendered(capacity: Mapping[str, Any], text: str) -> str:
    """The page with the tables that these costs give."""
    costs = {cost["name"]: cost for cost in capacity["costs"]}
    tables = {
        "costs": [*_costs(capacity), *_sizes(capacity), _measured_on(capacity)],
        "cores": _cores(costs),
        "plan-small": _plan(costs, SMALL),
        "plan-large": _plan(costs, LARGE),
        "plan-sparse": _sparse(costs, SPARSE),
        "machines": _machines(),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(lines).rstrip() + "\n" + end + after
    return text


def _costs(capacity: Mapping[str, Any]) -> list[str]:
    rows = [["one", *(words for _, words, *_ in PARTS)]]
    for cost in capacity["costs"]:
        spans = [_shown(cost[name], scale, digits) for name, _, scale, digits in PARTS]
        rows.append([cost["words"], *spans])
    return ruled(rows)


def _shown(span: Span | None, scale: float, digits: int) -> str:
    """The median, and in brackets the least and the greatest."""
    if span is None:
        return NONE
    median, least, greatest = (
        f"{span[name] * scale:,.{digits}f}" for name in ("median", "min", "max")
    )
    return f"{median} ({least} to {greatest})"


def _sizes(capacity: Mapping[str, Any]) -> list[str]:
    rows = [[one["words"], _shown(one, 1, 0)] for one in capacity["sizes"]]
    return ruled([["what is kept", "bytes"], *rows])


def _measured_on(capacity: Mapping[str, Any]) -> str:
    told = ". ".join(machine.lines(capacity["measured"]))
    return f"{told}. Append-only file: {capacity['log']}. {capacity['rounds']} rounds."


def _cores(costs: Mapping[str, Cost]) -> list[str]:
    """What one core takes, of each of the three programs; no upkeep is in it."""
    rows = [["counting alone", "client core", "PostgreSQL core", "Redis core"]]
    for one in STRATEGIES:
        cost = costs[one.counting]
        servers = (None, cost["redis"]) if one.cached else (cost["database"], None)
        rows.append([one.words, *map(_rate, (cost["client"], *servers))])
    return ruled(rows)


def _rate(span: Span | None) -> str:
    """Increments a second, as precisely as such a figure is: two digits."""
    if span is None:
        return NONE
    digits = f"{1 / span['median']:.2g}"
    return f"{float(digits):,.0f}"


def _plan(costs: Mapping[str, Cost], load: Load) -> list[str]:
    rows = [["at the peak", *(one.words for one in STRATEGIES)]]
    columns = [_needed(costs, one, load) for one in STRATEGIES]
    rows += [[words, *(column[words] for column in columns)] for words in columns[0]]
    return ruled(rows)


def _needed(costs: Mapping[str, Cost], one: Strategy, load: Load) -> dict[str, str]:
    """What a load needs; a server that a strategy does not ask is left out."""

    def spent(part: str, counted: bool = True) -> float | None:
        rates = {one.counting: load.peak} if counted else {}
        if one.upkeep:
            rates[one.upkeep] = load.landed if one.cached else load.peak
        return _spent(costs, part, rates)

    client = costs[one.counting]["client"]["median"] * load.peak
    database, wal = spent("database", not one.cached), spent("wal", not one.cached)
    return {
        "client cores, for counting alone": _whole(client),
        "PostgreSQL cores": _whole(database),
        "Redis cores": _whole(spent("redis")) if one.cached else NONE,
        "WAL, MB/s": _megabytes(wal),
        "append-only files, MB/s": _megabytes(spent("log")) if one.cached else NONE,
    }


def _sparse(costs: Mapping[str, Cost], load: Sparse) -> list[str]:
    """What a load of many counters needs, if a flush changes as many as are counted meanwhile."""
    if "nothing" not in costs:
        return []
    changed, percent = load.changed, 100 * load.changed / load.counters
    # The density that is nearest to it, of those that were measured.
    _, flush = min(DENSITIES, key=lambda one: abs(math.log(percent / one[0])))
    fresh = changed / load.minute
    columns = {
        name: _seeking(costs, {flush: fresh}, _counted(load.peak, fresh, each, first))
        for name, each, first in SEEKING
    }
    words = f"{changed / 1e6:.1f} million counters change in each minute"
    rows = [[words, *columns]]
    heads = next(iter(columns.values()))
    rows += [[head, *(column[head] for column in columns.values())] for head in heads]
    return ruled(rows)


def _counted(peak: float, fresh: float, each: str, first: str) -> dict[str, float]:
    """How many are counted in a second, and how many of them are a counter's first of a minute."""
    rates = {each: peak - fresh}
    return {**rates, first: rates.get(first, 0) + fresh}


def _machines() -> list[str]:
    """How many sums leave a machine per second, by the interval of its buffers."""
    head = "processes, counters", "every second", "every 10 seconds"
    rows = [list(head)]
    for processes, each, counters in MACHINES:
        one = Sparse(each * processes, counters, processes=processes)
        seldom = one._replace(peak=one.peak * 10).merged / 10
        sums = one.merged, seldom
        rows.append([f"{processes}, {counters:,}", *(f"{number:,.0f}" for number in sums)])
    return ruled(rows)


def _seeking(
    costs: Mapping[str, Cost], flushing: Mapping[str, float], counting: Mapping[str, float]
) -> dict[str, str]:
    """What one way needs to flush and to count so many a second."""
    landing = {**counting, **flushing}
    return {
        "client cores, for counting alone": _whole(_spent(costs, "client", counting)),
        "PostgreSQL cores": _whole(_spent(costs, "database", landing)),
        "Redis cores": _whole(_spent(costs, "redis", landing)),
        "WAL, MB/s": _megabytes(_spent(costs, "wal", landing)),
        "append-only files, MB/s": _megabytes(_spent(costs, "log", landing)),
        "flushes at the same time": _whole(_spent(costs, "seconds", flushing)),
    }


def _spent(costs: Mapping[str, Cost], part: str, rates: Mapping[str, float]) -> float | None:
    """What so many of each take in a second; None where it is not known of one."""
    spans = [(costs[name][part], rate) for name, rate in rates.items()]
    known = [span["median"] * rate for span, rate in spans if span is not None]
    return sum(known) if len(known) == len(spans) else None


def _whole(used: float | None) -> str:
    """Whole cores, of which so much is used."""
    return NONE if used is None else f"{math.ceil(used / UTILISATION):,}"


def _megabytes(size: float | None) -> str:
    if size is None:
        return NONE
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:,.2g}"
