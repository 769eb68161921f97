"""Where totals stand and where increments wait: the names of tables and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db import models

from django_counters.types import INT8

COUNTER = "django_counters_counter"
SHARDS = "django_counters_countershard"
SLOTS = "django_counters_slottedcounter"
DELTAS = "django_counters_counterdelta"
HORIZON = "django_counters_counterhorizon"
TOKENS = "django_counters_countertoken"
PARTITIONS = "django_counters_counterpartition"
ARCHIVE = "django_counters_counterarchive"
# On MySQL and MariaDB: a table of one row, which whoever adjusts holds.
CHAIN = "django_counters_counterchain"
# The number of rows of a table.
ROWS = "SELECT COUNT(*) FROM {}"

# The number of the row that is a total, where totals have no column.
TOTAL = -1


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """Where increments wait for their rollup: the names of a table and of its columns.

    Attributes:
        name: the table.
        owner: the columns that together name one counter.
        number: the column that tells the rows of one counter apart.
        value: the column that holds what waits.
        record: the model and the name of a counter that belongs to its records; None where
            counters have keys of their own.
    """

    name: str
    owner: tuple[str, ...]
    number: str
    value: str
    record: tuple[type[models.Model], str] | None = None

    @property
    def owned(self) -> str:
        """The condition that a row belongs to one counter. Parameters: address."""
        return " AND ".join(f"{column} = %s" for column in self.owner)


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Where totals stand: the names of a table and of its columns, not yet quoted.

    Attributes:
        name: the table.
        key: the column that finds a row.
        value: the column that holds the total.
        pending: where increments of these totals may wait.
        touched: the column that holds the time of the last change, if there is one.
        capacity: the least and the greatest number that the column can hold.
        inserts: whether a key that has no row yet gets one.
        label: what people call the column, where the key alone does not say it.
        outside: the column that holds what did not come through the ledger, where there may be
            entries of these totals.

    A table without a column for totals (``value`` is empty) is that of `Pending`: there the total
    of a counter is its row with the number `TOTAL`.
    """

    name: str
    key: str
    value: str
    pending: Pending
    touched: str | None = None
    capacity: tuple[int, int] = INT8
    inserts: bool = False
    label: str = ""
    outside: str = ""

    def quoted(self, quote: Callable[[str], str]) -> Table:
        """The same table with its names quoted for use in SQL text."""
        return replace(
            self,
            name=self.name and quote(self.name),
            key=self.key and quote(self.key),
            value=self.value and quote(self.value),
            touched=None if self.touched is None else quote(self.touched),
            outside=self.outside and quote(self.outside),
            pending=replace(
                self.pending,
                name=quote(self.pending.name),
                owner=tuple(quote(column) for column in self.pending.owner),
                number=quote(self.pending.number),
                value=quote(self.pending.value),
            ),
        )
