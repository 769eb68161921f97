"""The tables of ``docs/explanation/scaling.md``: what a unit costs, and that many times as much.

Plain multiplication of what ``results.json`` holds. Units: seconds of a processor, bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
        upkeep = load.landed if one.cached else load.peak
        parts = [(costs[one.counting][part], load.peak)] if counted else []
        parts += [(costs[one.upkeep][part], upkeep)] if one.upkeep else []
        known = [span["median"] * rate for span, rate in parts if span is not None]
        return sum(known) if len(known) == len(parts) else None

    client = costs[one.counting]["client"]["median"] * load.peak
    database, wal = spent("database", not one.cached), spent("wal", not one.cached)
    return {
        "client cores, for counting alone": _whole(client),
        "PostgreSQL cores": _whole(database),
        "Redis cores": _whole(spent("redis")) if one.cached else NONE,
        "WAL, MB/s": _megabytes(wal),
        "append-only files, MB/s": _megabytes(spent("log")) if one.cached else NONE,
    }


def _whole(used: float | None) -> str:
    """Whole cores, of which so much is used."""
    return NONE if used is None else f"{math.ceil(used / UTILISATION):,}"


def _megabytes(size: float | None) -> str:
    if size is None:
        return NONE
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:,.2g}"
