"""The statements of a landing: what they are for, their parameters and their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_counters.stores.sql.dialects.tables import Table

BATCHES = "django_counters_counterbatch"
SOURCES = "django_counters_countersource"


class Identity(NamedTuple):
    """The statements that say which database this is.

    ``may_ask``: whether the caller may execute ``whole``; else ``part`` says what it can. Each has
    one row of one column.
    """

    may_ask: str
    whole: str
    part: str


@dataclass(frozen=True)
class Landing:
    """The statements that bring generations of increments into the totals.

    Attributes:
        begin: the first statement of the transaction.
        settings: what holds for this transaction alone. Parameters: for how many milliseconds a
            statement waits for a lock, and how many it may take, as texts. Empty where there are
            no such settings.
        claim: insert what is not there yet, in the order of the generations. Parameters: columns
            of generation, slot, source, counters, sum as text. Rows: the generations inserted.
        known: parameters: generations. Rows: those that are there.
        together: amounts, and the generations that are there, of one moment. The statement of
            ``Reads.many`` stands where the braces are. Parameters: those of it, generations.
            Rows: key, total, pending, NULL, or NULL three times and a generation.
        settled: whether a statement of this transaction sees what is committed by now, and nothing
            else. Empty where that cannot be told.
        oldest: when the first of them was applied. Rows: a moment or NULL.
        prune: delete some of those applied before a moment. Parameters: the moment, how many at
            most. A row for each.
        sources: the names of all sources.
        hold_source: hold what was seen in the slots of a source. Parameters: source. Rows: as
            those of ``seen``.
        seen: parameters: source. Rows: slot, generation, timeline.
        remember: insert or change, in the order of the slots. Parameters: columns of source,
            slot, generation, timeline.
        make: hold the totals of named counters in the order of their keys, and make those that
            are missing. Parameters: keys.
        hold: hold the rows of records in the order of their keys. Parameters: keys. Rows: key,
            total.
        credit: add to the totals of records that are held. Parameters: columns of key, sum. A
            row for each.
        columns: the parameters of rows.
        moment: the parameter of a moment.
        identity: None where the name of a database says which one it is.
    """

    begin: str
    settings: str
    claim: str
    known: str
    together: str
    settled: str
    oldest: str
    prune: str
    sources: str
    seen: str
    hold_source: str
    remember: str
    make: str
    hold: Callable[[Table, str], str]
    credit: Callable[[Table, str], str]
    columns: Callable[[Sequence[Sequence[Any]]], tuple[Any, ...]]
    moment: Callable[[Any], Any]
    identity: Identity | None


def known(among: str) -> str:
    """The generations that are there."""
    return f"SELECT generation FROM {BATCHES} WHERE generation {among}"


def together(among: str) -> str:
    """Amounts, and the generations that are there: one statement reads both."""
    return (
        "SELECT r.*, NULL FROM ({}) r UNION ALL "
        f"SELECT NULL, NULL, NULL, generation FROM {BATCHES} WHERE generation {among}"
    )


def claim(columns: str) -> str:
    """Insert what is not there yet."""
    return (
        f"INSERT INTO {BATCHES} (generation, slot, source, applied_at, counters, total) "
        f"{columns} ON CONFLICT DO NOTHING RETURNING generation"
    )


def remember(columns: str) -> str:
    """Insert, or change what was seen last."""
    return (
        f"INSERT INTO {SOURCES} (source, slot, seen, timeline, seen_at) {columns} "
        "ON CONFLICT (source, slot) DO UPDATE SET seen = EXCLUDED.seen, "
        "timeline = EXCLUDED.timeline, seen_at = EXCLUDED.seen_at RETURNING 1"
    )


OLDEST = f"SELECT MIN(applied_at) FROM {BATCHES}"
NAMES = f"SELECT DISTINCT source FROM {SOURCES} ORDER BY source"
SEEN = f"SELECT slot, seen, timeline FROM {SOURCES} WHERE source = %s ORDER BY slot"
