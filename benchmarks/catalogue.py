"""All that can be measured, in the order of the page; Django is set up.

It comes in two groups, each on a server of its own: first what is about the time of a call, where
no commit waits for the disk; then what is about waiting, where each does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.cases import (
    adjusting,
    buffers,
    cached,
    cells,
    entries,
    exact,
    flush,
    holds,
    ledger,
    likes,
    limits,
    mysql,
    quotas,
    regions,
    rest,
    rollup,
    spread,
    statements,
    streams,
    top,
    topics,
    unasked,
    uniques,
)
from benchmarks.growth import GROWTHS
from benchmarks.growth.measuring import Growth
from benchmarks.harness import Case, at_least, at_most

CAPACITY = "capacity"
# A row for each case, below the title of its theme: its name, the words of both sides, its target.
ROWS = Path(__file__).with_name("rows.txt")
MYSQL_ROWS = Path(__file__).with_name("rows_mysql.txt")
FAST = {
    **exact.CASES,
    **cached.CASES,
    **unasked.CASES,
    **buffers.CASES,
    **cells.CASES,
    **holds.CASES,
    **quotas.CASES,
    **likes.CASES,
    **top.CASES,
    **uniques.CASES,
    **limits.CASES,
    **streams.CASES,
    **topics.CASES,
    **rest.CASES,
    **adjusting.CASES,
    **regions.CASES,
}
DURABLE = {
    **statements.CASES,
    **spread.CASES,
    **rollup.CASES,
    **ledger.CASES,
    **entries.CASES,
    **cached.COMMITS,
    **flush.CASES,
    **cells.LANDINGS,
    **regions.CONVERGENCE,
    **exact.COMMITS,
}
TARGETS = {"≥": at_least, "≤": at_most}


@cache
def themes(rows: Path = ROWS) -> dict[str, list[Case]]:
    """The rows that stand in one table, by its title."""
    every = {**FAST, **DURABLE, **mysql.CASES}
    found: dict[str, list[Case]] = {}
    for line in filter(None, rows.read_text(encoding="utf-8").splitlines()):
        if line.startswith("# "):
            cases = found[line.removeprefix("# ")] = []
        else:
            name, subject, reference, target = line.split(" | ")
            sign, _, number = target.partition(" ")
            judged = TARGETS[sign](float(number)) if number else None
            cases.append(Case(name, subject, reference, judged, every[name]))
    return found


@dataclass(frozen=True)
class Group:
    """Rows and plots that are measured on the same server, and whether the costs of units are.

    ``durable``: whether its commits wait for the disk.
    """

    durable: bool
    cases: Sequence[Case]
    growths: Sequence[Growth] = ()
    capacity: bool = False

    def names(self) -> list[str]:
        """What ``--case`` may ask for."""
        cases = [case.name for case in self.cases]
        growths = [growth.name for growth in self.growths]
        return [*cases, *growths, *([CAPACITY] if self.capacity else [])]

    def only(self, names: Sequence[str]) -> Group:
        """What has one of these names."""
        return Group(
            self.durable,
            [case for case in self.cases if case.name in names],
            [growth for growth in self.growths if growth.name in names],
            self.capacity and CAPACITY in names,
        )


def titles() -> dict[str, str]:
    """The theme of each case, in the order of the page."""
    return {case.name: title for title, cases in themes().items() for case in cases}


def groups(vendor: str = "postgresql") -> list[Group]:
    """All there is, for one kind of database."""
    if vendor == "mysql":
        return [Group(True, [case for cases in themes(MYSQL_ROWS).values() for case in cases])]
    every = [case for cases in themes().values() for case in cases]
    fast, durable = ([case for case in every if case.name in some] for some in (FAST, DURABLE))
    quick, slow = ([one for one in GROWTHS if one.durable is waits] for waits in (False, True))
    return [Group(False, fast, quick), Group(True, durable, slow, capacity=True)]
