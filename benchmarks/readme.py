"""The table of strategies in the README, with what was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from benchmarks.report import ruled

README = Path(__file__).resolve().parent.parent / "README.md"
_MARKED = re.compile(r"(<!-- ratios:begin -->\n).*?(<!-- ratios:end -->)", re.DOTALL)


@dataclass(frozen=True)
class Strategy:
    """One row.

    Attributes:
        name: what settings call it.
        use: what it is for.
        promise: what it promises, in short.
        waits: whether its writers wait for each other.
        returns: what ``increment`` returns.
        measured: ratios in words, with the names of cases in braces.
    """

    name: str
    use: str
    promise: str
    waits: str
    returns: str
    measured: str

    def row(self, ratios: Mapping[str, str]) -> tuple[str, ...]:
        """The cells, without the figures as long as not all of them were measured."""
        known = all(name in ratios for _, name, _, _ in Formatter().parse(self.measured) if name)
        told = self.measured.format_map(ratios) if known else "not measured yet"
        return (self.name, self.use, self.promise, self.waits, self.returns, told)


HEAD = ("Strategy", "For", "Promise", "Writers wait", "`increment` returns", "Measured")
STRATEGIES = (
    Strategy(
        "`exact`",
        "stock, quotas, billing",
        "linearizable, in your transaction; floors and ceilings hold at every commit",
        "yes",
        "the new value",
        "{update} times `F()` update by one caller, {update-durable} where its commit waits for "
        "the disk; 12 processes on one row: {writers-update} times `F()` update, {writers} times "
        "get, lock and save",
    ),
    Strategy(
        "`sharded`, `slotted` (fields)",
        "what everybody hits",
        "exact, in your transaction; sizes itself",
        "as a rule no",
        "the value of its snapshot",
        "{hot} and {slots} times one row, 16 clients in transactions of 2 ms (16 would be the "
        "most); {fixed100-commit} times 100 fixed rows in autocommit, which return no value",
    ),
    Strategy(
        "`ledger`",
        "retries, history, audit",
        "every committed entry is in every later read once",
        "no",
        "no number; ask `value`",
        "{append-first} times an upsert of one row, the same clients (16 would be the most)",
    ),
    Strategy(
        "`cached`",
        "views and likes, with a Redis",
        "lands in the database exactly once, whoever is killed; what Redis itself loses is found",
        "no",
        "the new value; in a transaction none, it is sent on commit",
        "{cached} times a bare `INCRBY`, {cached-cache} times `cache.incr`; its flush {flush-loop} "
        "times a loop that commits each key",
    ),
)


def render(rows: Sequence[Mapping[str, Any]], readme: Path = README) -> None:
    """Write the table between its marks."""
    readme.write_text(rendered(rows, readme.read_text(encoding="utf-8")), encoding="utf-8")


def rendered(rows: Sequence[Mapping[str, Any]], text: str) -> str:
    """The README with the table that these rows give."""
    ratios = {row["case"]: _figure(row["ratio"]) for row in rows}
    table = ruled([HEAD, *(strategy.row(ratios) for strategy in STRATEGIES)])
    lines = "\n".join(table)
    return _MARKED.sub(lambda found: f"{found[1]}{lines}{found[2]}", text)


def _figure(ratio: float) -> str:
    """Two digits that count: more would promise what no other machine keeps."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
