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
        together: amounts, and the generations that are there, of one moment. The statement of
            ``Reads.many`` stands where the braces are. Parameters: those of it, generations.
            Rows: key, total, pending, NULL, or NULL three times and a generation.
        settled: whether a statement of this transaction sees what is committed by now, and nothing
            else. Empty where that cannot be told.
        make: hold the totals of named counters in the order of their keys, and make those that
            are missing. Parameters: keys.
        hold: hold the rows of records in the order of their keys. Parameters: keys. Rows: key,
            total.
        credit: add to the totals of records that are held. Parameters: columns of key, sum. A
            row for each.
        columns: the parameters of rows.
        identity: None where the name of a database says which one it is.
    """

    begin: str
    settings: str
    together: str
    settled: str
    make: str
    hold: Callable[[Table, str], str]
    credit: Callable[[Table, str], str]
    columns: Callable[[Sequence[Sequence[Any]]], tuple[Any, ...]]
    identity: Identity | None


def together(among: str) -> str:
    """Amounts, and the generations that are there: one statement reads both."""
    return (
        "SELECT r.*, NULL FROM ({}) r UNION ALL "
        f"SELECT NULL, NULL, NULL, generation FROM {BATCHES} WHERE generation {among}"
    )
