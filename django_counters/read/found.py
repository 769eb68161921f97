"""Where a series is read: in cells, in the entries of a ledger, or in recorded totals."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from django_counters.exceptions import HistoryNotKept
from django_counters.read import cells, entries, samples
from django_counters.read.asked import SeriesAmounts, SeriesSelection
from django_counters.read.sources import COUNTED, NONE, RECORDED
from django_counters.stores.sql.session import Session


def found(asked: SeriesSelection, *, summed: bool = False, each: bool = False) -> SeriesAmounts:
    """Read what is asked for.

    Args:
        asked: the series.
        summed: one number, not one for each period.
        each: for each counter, not for all together.

    Raises:
        UnsupportedSeries: nothing is known of when the counters changed.
        InvalidPeriod, HistoryNotKept: the stored data cannot tell it.
        CounterUnavailable: the database cannot be reached.
    """
    using = asked.source.database(asked.using)
    of = {COUNTED: cells.found, RECORDED: samples.found}.get(asked.source.kind, entries.found)
    with Session(using).translated():
        strict = replace(asked, span=replace(asked.span, partial=False))
        ways = [(of, strict)]
        ways += [(entries.found, strict)] if _are_entries_asked(asked) else []
        # Partial counts answer only if no source covers the whole time.
        ways += [(of, asked)] if asked.span.partial else []
        for way, question in ways[:-1]:
            with suppress(HistoryNotKept):
                return way(question, using, summed=summed, each=each)
        way, question = ways[-1]
        return way(question, using, summed=summed, each=each)


def starts_of(asked: SeriesSelection) -> Sequence[datetime]:
    """Where the periods begin that are asked for, and where the last one ends: reads no counts.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `found`.
    """
    kind, using = asked.source.kind, asked.source.database(asked.using)
    with Session(using).translated():
        if kind == COUNTED:
            try:
                return cells.starts(asked, using)
            except HistoryNotKept:
                if not _are_entries_asked(asked):
                    raise
        if kind == RECORDED:
            return samples.starts(asked, using, summed=False)
        starts = entries.starts(asked, summed=False)
        if kind == NONE:
            entries.check(asked, starts[0], using)
        return starts


def _are_entries_asked(asked: SeriesSelection) -> bool:
    """Whether a ledger tells what its cells do not: the amount counted before it had periods."""
    is_ledger = asked.source.kind == COUNTED and asked.source.recipe.can.entries
    # Of a whole namespace there is no list of keys.
    return is_ledger and bool(asked.source.keys) and not (asked.where or asked.tags)
