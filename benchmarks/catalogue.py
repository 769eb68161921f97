"""All that can be measured, by theme; Django is set up.

It comes in two groups, each on a server of its own: first what is about the time of a call, where
no commit waits for the disk; then what is about waiting, where each does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.curves import Growth
from benchmarks.harness import Case

CAPACITY = "capacity"


@dataclass(frozen=True)
class Group:
    """What is measured on the same server.

    Attributes:
        durable: whether its commits wait for the disk.
        cases: each is a row.
        growths: each is a plot.
        capacity: whether the costs of units are measured.
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


@dataclass(frozen=True)
class Theme:
    """Rows that stand in one table: those that are fast, and those whose commits wait."""

    title: str
    fast: Sequence[Case] = ()
    durable: Sequence[Case] = ()


def themes() -> list[Theme]:
    """All cases, in the order of the page."""
    from benchmarks.cases import (
        adjusting,
        cached,
        entries,
        exact,
        flush,
        ledger,
        peers_cache,
        peers_database,
        peers_visits,
        rest,
        rollup,
        spread,
        statements,
    )

    return [
        Theme("One row: exact", exact.CASES),
        Theme(
            "Many writers: sharded, slotted, collected, combined",
            durable=[*statements.CASES, *spread.CASES, *rollup.CASES],
        ),
        Theme("Entries: ledger", durable=[*ledger.CASES, *entries.CASES]),
        Theme("Waiting in Redis: cached", cached.CASES, [*cached.COMMITS, *flush.CASES]),
        Theme("Over HTTP", rest.CASES),
        Theme("Adjustments", adjusting.CASES),
        Theme(
            "Beside peers",
            [*peers_database.CASES, *peers_visits.CASES, *peers_cache.CASES],
            peers_database.COMMITS,
        ),
    ]


def all_groups() -> list[Group]:
    """All cases."""
    found = themes()
    return [
        Group(False, [case for theme in found for case in theme.fast]),
        Group(True, [case for theme in found for case in theme.durable]),
    ]


def everything() -> list[Group]:
    """All cases, all growths, and the costs of units."""
    from benchmarks.growth import GROWTHS

    groups = [
        replace(group, growths=[one for one in GROWTHS if one.durable is group.durable])
        for group in all_groups()
    ]
    return [replace(group, capacity=group.durable) for group in groups]
