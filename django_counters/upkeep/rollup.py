"""The rollup: folds what waits in shards, slots and the ledger into the totals, once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from django.db import DEFAULT_DB_ALIAS

from django_counters.errors import CounterOverflow
from django_counters.features import features
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.ledger.upkeep import fold_entries
from django_counters.signals import upkeep_done
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.folding import Folded
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.core import COUNTERS
from django_counters.upkeep.places import Foldable, places, renamed

PAGE = 500


@dataclass
class RollupReport:
    """The result of a rollup, or of a dry run.

    Attributes:
        rows: how many rows of shards and slots were folded and are gone.
        counters: how often a total was changed: at most twice for each counter.
        orphans: how many rows waited for records that are no more, and were dropped.
        left: how many rows are there now: locked, or new.
        stuck: counters whose total would not fit, and slots whose record id cannot be one of their
            model; their increments stay pending.
        entries: how many entries of the ledger were folded.
        waiting: how many entries wait now: of transactions that have not ended, or new.
        others: rows of other apps that were folded, or wait for that in a dry run, by their name.
    """

    rows: int = 0
    counters: int = 0
    orphans: int = 0
    left: int = 0
    stuck: list[str] = field(default_factory=list)
    entries: int = 0
    waiting: int = 0
    others: dict[str, int] = field(default_factory=dict)


def rollup(
    using: str = DEFAULT_DB_ALIAS,
    *,
    dry_run: bool = False,
    page: int = PAGE,
) -> RollupReport:
    """Fold all shards and slots that are not locked, and all finished entries, into the totals.

    Each page of counters is one transaction for one half of their rows, so that writers always
    find a row that is free. Any number of rollups can run at once; a row is folded by one of them,
    exactly once, also when a process dies. Counters without increments end with no row but their
    total. The entries of the ledger are folded in one transaction, by one rollup at a time.
    Transactions are READ COMMITTED, also on connections that declare another level. Within a
    caller's transaction all of it is held until that ends.

    Args:
        using: the database.
        dry_run: count what waits, change nothing.
        page: how many counters a transaction folds.

    Raises:
        LedgerFenced: the ledger came from another server; shards and slots are folded.
    """
    report, began = RollupReport(), time.monotonic()
    for place in places(using):
        if not dry_run:
            _fold(place, page, report)
        report.left += place.folding.left().rows
    if COUNTERS.stands_in(using) and "ledger" not in dialect_of(using).lacks:
        if not dry_run:
            folded = fold_entries(using)
            report.entries += folded.entries
            report.counters += folded.counters
            report.stuck.extend(folded.stuck)
        report.waiting = SqlInquiry(NAMED, using).waiting()[0]
    for feature in features():
        report.others |= feature.rollup(using, dry_run=dry_run)
    if not dry_run:
        seconds = time.monotonic() - began
        upkeep_done.tell(RollupReport, work="rollup", using=using, seconds=seconds, report=report)
    return report


def fold_renamed(using: str) -> None:
    """Fold what was counted in slots before fields got other names, so that values have it."""
    for place in renamed(using):
        _fold(place, PAGE, RollupReport())


def _fold(place: Foldable, page: int, report: RollupReport) -> None:
    for found in place.folding.pages(page):
        strange = place.folding.strange(found)
        report.stuck.extend(f"{place.label}:{key}" for key in strange)
        keys = [key for key in found if key not in strange]
        for remainder in (0, 1):
            rows, counters = _page(place, keys, remainder, report.stuck)
            report.rows += rows
            report.counters += counters
        report.orphans += place.folding.orphans(keys)


def _page(place: Foldable, keys: list[str], remainder: int, stuck: list[str]) -> Folded:
    """Fold a page; where one counter of it does not fit, each of them alone."""
    try:
        return place.folding.fold(keys, remainder)
    except CounterOverflow as error:
        if len(keys) == 1:
            label = error.key if place.strategy == "" else f"{place.label}:{error.key}"
            if label not in stuck:
                stuck.append(label)
            return Folded(0, 0)
    parts = [_page(place, [key], remainder, stuck) for key in keys]
    return Folded(sum(part.rows for part in parts), sum(part.counters for part in parts))
