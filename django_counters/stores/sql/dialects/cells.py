"""The statements that add to cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

CELLS = "django_counters_countercell"
COLUMNS = ("measure_id", "key", "period", "start", "tags", "shard", "value")
_KEY = ", ".join(COLUMNS[:-1])


@dataclass(frozen=True)
class Cells:
    """The statements that add to cells.

    Attributes:
        beside: makes one statement of a change and its cells: the cells are added where the change
            has counted, and its rows are returned. Given the text of the change, and the names of
            its columns: ``k`` is a key, where there are several; ``v`` the new value, NULL where
            nothing was counted; ``n`` the row that was taken, which is the shard of its cells.
            Parameters: those of the change, then the cells. None where two statements do it.
        after: does the same for a change of one counter whose cells are alike. Parameters: those of
            the change, then what ``alike`` makes.
        alike: makes the parameters of cells of one counter that differ by their periods alone from
            rows of `COLUMNS`; None of others.
        add: add to cells. Parameters: the cells.
        apart: add to cells of a shard that no other transaction uses. Parameters: the cells.
        arrange: makes the parameters of cells from rows of `COLUMNS`.
        forget: delete some of those that begin before a moment. Parameters: measure, period,
            moment, how many. A row for each.
    """

    beside: Callable[[str, Sequence[str]], str] | None
    after: Callable[[str, Sequence[str]], str] | None
    alike: Callable[[Sequence[Sequence[Any]]], tuple[Any, ...] | None]
    add: str
    apart: str
    arrange: Callable[[Sequence[Sequence[Any]]], tuple[Any, ...]]
    forget: str


def upsert(source: str, added: str = "t.value + EXCLUDED.value") -> str:
    """Add rows of a SELECT to cells."""
    return (
        f"INSERT INTO {CELLS} AS t ({', '.join(COLUMNS)}) {source} "
        f"ON CONFLICT ({_KEY}) DO UPDATE SET value = {added}"
    )


def forget(condition: str, name: str) -> str:
    """Delete cells by the ``name`` of their rows; the ``condition`` chooses a page of them."""
    page = (
        f"SELECT {name} FROM {CELLS} WHERE measure_id = %s AND period = %s AND start < %s LIMIT %s"
    )
    return f"DELETE FROM {CELLS} WHERE {condition.format(page)} RETURNING 1"
