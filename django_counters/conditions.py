"""Conditions: rows that make a change count, as the row of a person who counts once.

A condition is a row that a change inserts or deletes. The row and the change are one step. A
refused change leaves the row alone. If the row to insert exists already, or the row to delete is
missing, the counter keeps its value.

An option of an app declares one: its `options.Projection` makes ``{"condition":
Conditional}`` for the counters that have it. A counter has one at most, and checks refuse two. Such
a counter changes only by itself: batch calls and `landing` refuse it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class RowColumn(NamedTuple):
    """A column of a table with conditions: its letter in statements, its name, and its type."""

    letter: str
    name: str
    type: str


@dataclass(frozen=True, eq=False, slots=True)
class ConditionKind:
    """A table with the rows of conditions.

    All columns but the last are its primary key. The last one has the moment when a row was made.

    With `claim` and `unclaim`, PostgreSQL changes a counter and makes its row in one statement.
    Else, and in other databases, these are two statements in one transaction or savepoint. The
    functions are those of `Feature.functions`.

    Attributes:
        name: one word, unlike that of any other kind.
        table: the name of the table.
        columns: its columns.
        claim: the name of a function with these columns and an integer. It makes the row, or
            deletes it if the integer is negative, and returns when the row was made; NULL if the
            change doesn't count.
        unclaim: the name of a function with the same arguments. It undoes that, and returns NULL as
            a bigint.
        whole: the prefix of four functions that also change a named counter; empty if there are
            none. ``{whole}(columns, by, limit)`` returns the new value, or the present one:
            ``(v, p)``. ``{whole}_shard(columns, by, cap, number)`` returns ``(v, n, p)``. Those
            with the suffix ``_text`` return the new value as a text, or "=" and the present one.
    """

    name: str
    table: str
    columns: Sequence[RowColumn]
    claim: str = ""
    unclaim: str = ""
    whole: str = ""


class Condition(NamedTuple):
    """A row that a change inserts or deletes; without that, it does not count.

    Attributes:
        kind: its table.
        row: the values of its columns, the moment last.
        takes_back: the change deletes the row; else it inserts it.
        older_than: a row made up to this moment is ignored, and its moment is set anew. None: no
            row is ignored because of its age.
    """

    kind: ConditionKind
    row: tuple[Any, ...]
    takes_back: bool = False
    older_than: datetime | None = None


class ConditionResult(NamedTuple):
    """The result of a change on a condition: whether it counted, and the value."""

    counted: bool
    value: int


class Conditional(Protocol):
    """The declaration of a condition, a part of a `Measure`. Equal declarations are equal."""

    @property
    def option(self) -> str:
        """The option that declares it, in small letters."""

    @property
    def reason(self) -> str:
        """Why other changes are refused, as in "it counts once for each actor"."""

    @property
    def counts_rows(self) -> bool:
        """Whether a counter's value is its number of rows.

        Then nothing but a change on the condition may change it.
        """

    def condition(self, change: Any) -> Condition:
        """Return the condition of a `write.changes.Change`. Called for each change.

        Raises:
            CounterError: the change can't be made, or lacks what names the row.
        """

    def refusal(self, key: str) -> Exception:
        """Return the error for a change that can't have the condition."""

    def forget(self, owner: str, keys: Sequence[str], using: str) -> int:
        """Delete the rows of counters; return their number.

        Called by ``forget()`` before it takes their values away, in the same transaction, with the
        arguments of `Feature.forget`. Deleting records calls that alone.
        """
