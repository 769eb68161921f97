"""What a dialect has to say, and the statements that all of them spell the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_counters.types import INT8, Delta


class Table(NamedTuple):
    """Where totals stand: the names of a table and of its columns, not yet quoted.

    Attributes:
        name: the table.
        key: the column that finds a row.
        value: the column that holds the total.
        touched: the column that holds the time of the last change, if there is one.
        capacity: the least and the greatest number that the column can hold.
        inserts: whether a key that has no row yet gets one.
        label: what people call the column, where the key alone does not say it.
    """

    name: str
    key: str
    value: str
    touched: str | None = None
    capacity: tuple[int, int] = INT8
    inserts: bool = False
    label: str = ""

    def quoted(self, quote: Callable[[str], str]) -> Table:
        """The same table with its names quoted for use in SQL text."""
        return self._replace(
            name=quote(self.name),
            key=quote(self.key),
            value=quote(self.value),
            touched=None if self.touched is None else quote(self.touched),
        )


@dataclass(frozen=True)
class Statements:
    """The statements on one table.

    A change comes in two forms, because only the bound that it moves towards is asked: ``rising``
    ends in "no more than", ``falling`` in "no less than". ``unit`` is the most common change, by
    one and without bounds: its numbers stand in the text, which spares the driver two parameters.
    """

    unit: str
    rising_upsert: str
    falling_upsert: str
    rising_update: str
    falling_update: str
    add_many: str
    read: str
    read_one: str


@dataclass(frozen=True)
class Dialect:
    """One kind of database: its statements, the form of its parameters, and its errors."""

    statements: Callable[[Table], Statements]
    batch: Callable[[Sequence[Delta]], Sequence[Any]]
    keys: Callable[[Sequence[object]], Any]
    overflowed: Callable[[Exception], bool]
    read_only: Callable[[Exception], bool]
    lost: Callable[[Exception], bool]


def upsert(table: Table, now: str, comparison: str, by: str = "%s", limit: str = "%s") -> str:
    """Insert or add, where the present value allows it. Parameters: key, by, limit."""
    return (
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"VALUES (%s, {by}, {now}) ON CONFLICT ({table.key}) DO UPDATE "
        f"SET {table.value} = t.{table.value} + EXCLUDED.{table.value}, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"WHERE t.{table.value} {comparison} {limit} RETURNING {table.value}"
    )


def update(table: Table, now: str, comparison: str, by: str = "%s", limit: str = "%s") -> str:
    """Add, where the row exists and allows it. Parameters: by, key, limit."""
    touched = f", {table.touched} = {now}" if table.touched else ""
    return (
        f"UPDATE {table.name} SET {table.value} = {table.value} + {by}{touched} "
        f"WHERE {table.key} = %s AND {table.value} {comparison} {limit} RETURNING {table.value}"
    )


def statements(table: Table, now: str, *, add_many: str, read: str) -> Statements:
    """All statements on a table, given those that each database spells in its own way.

    Rows are stamped by the clock of their database (``now``): it is one clock for all servers.
    """
    unit = upsert if table.inserts else update
    return Statements(
        unit=unit(table, now, "<=", by="1", limit=str(table.capacity[1] - 1)),
        rising_upsert=upsert(table, now, "<=") if table.inserts else "",
        falling_upsert=upsert(table, now, ">=") if table.inserts else "",
        rising_update=update(table, now, "<="),
        falling_update=update(table, now, ">="),
        add_many=add_many if table.inserts else "",
        read=read,
        read_one=f"SELECT {table.value} FROM {table.name} WHERE {table.key} = %s",
    )
