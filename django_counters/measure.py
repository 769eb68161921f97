"""The measure of a counter: its kinds of rows, and the condition that makes a change count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from django_counters.projector import Guarding, Projector

# -- Conditions: rows that make a change count, as the row of a person who counts once.
# A condition is a row that a change inserts or deletes. The row and the change are one step. A
# refused change leaves the row alone. If the row to insert exists already, or the row to delete is
# missing, the counter keeps its value.
# An option of an app declares one: its `options.Projection` makes ``{"condition": Conditional}``
# for the counters that have it. A counter has one at most, and checks refuse two. Such a counter
# changes only by itself: batch calls and `landing` refuse it.


class RowColumn(NamedTuple):
    """A column of a `ConditionKind` or a `Kind`: its letter in statements, its name and type."""

    letter: str
    name: str
    type: str

    def plain(self, value: Any) -> Any:
        """Return a value as a number or a text: a moment as its seconds."""
        return int(value.timestamp()) if self.type == "timestamptz" else value

    def parsed(self, plain: Any) -> Any:
        """Return the value of a number or a text.

        Raises:
            ValueError, OverflowError, OSError: it is none.
        """
        value = plain if self.type == "text" else int(plain)
        return datetime.fromtimestamp(value, UTC) if self.type == "timestamptz" else value


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


# -- What a namespace or a field counts beside its totals, and in which rows. Keeps no state.

# A member is a number from 1 to 2**52 - 1: 0 is none.
MEMBER_BITS = 52
PLACE_BITS = 14
# If a set has too many members to name them, it is registers: a place for each value of 14 bits.
REGISTERS = 1 << PLACE_BITS
# The highest rank in a register: that of a member whose other bits are zeros.
HIGHEST = MEMBER_BITS - PLACE_BITS + 1


#: The columns that stores fill in: the key of the counter, the shard, and the number.
KEY = RowColumn("k", "key", "text")
SHARD = RowColumn("n", "shard", "smallint")
NUMBER = RowColumn("d", "value", "bigint")


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Kind:
    """One kind of rows that a change adds to beside its total.

    An app declares it in `Feature.kinds`, with a table, a model and an option. Stores write it,
    keep it pending, flush it and forget it by these attributes.

    Attributes:
        name: the name of such rows.
        option: the option that declares such rows; see `Measure.declared`.
        table: the table of its rows.
        columns: the columns of the primary key, in order; then `NUMBER`, if a row has a number to
            add to. Without it, an existing row stays as it is. Stores fill in `KEY` and `SHARD`.
            The others are in `types.Cell.values`: ``smallint``, ``int``, ``bigint``,
            ``timestamptz`` in whole seconds, and at most one ``text`` without white space. Each
            needs a letter of its own, none of ``c``, ``d``, ``k``, ``n`` and ``v``.
        each: whether a change adds one, whatever its amount is.
        derived: whether rows are sums of cells over the columns that they don't have. They are made
            when these cells are written.
        has_members: whether each row is of one actor, for changes that say ``who``. The last column
            is then a number that stands for the actor.
        varied: the letters of all columns in which the rows of one change can differ. Then
            PostgreSQL gets a function that adds them: it has few parameters and keeps its plan.
        mark: a letter that stands for the kind in Redis, if its rows have numbers and are pending
            there. The sums of `django_counters.contrib.series` have none.
        lands: the dotted path of a function that keeps the members that land, if rows have some:
            ``lands(session, members, more)`` takes ``(key, cell)`` for each member, and
            ``(key, cell, value)`` for other pending data.
        order: its place among all kinds. Each change writes them in this order, which is a lock
            order: two servers with different ones can deadlock. So it never changes, and doesn't
            depend on ``INSTALLED_APPS``. Apps outside of this package start at 1000.
        letters: the letters of all columns.
        own: the columns whose values are those of a cell.
        keys: the columns of the primary key.
        adds: whether a row has a number that is added to.
        called: whether PostgreSQL has a function that adds to its rows.
        pick: picks the columns of a row from the values of a cell, key, shard and number.
    """

    name: str
    option: str
    table: str
    columns: tuple[RowColumn, ...]
    each: bool = False
    derived: bool = False
    has_members: bool = False
    varied: str = ""
    mark: str = ""
    lands: str = ""
    order: int = field(kw_only=True)
    letters: str = field(init=False)
    own: tuple[RowColumn, ...] = field(init=False)
    keys: tuple[RowColumn, ...] = field(init=False)
    adds: bool = field(init=False)
    called: bool = field(init=False)
    pick: Callable[[Sequence[Any]], tuple[Any, ...]] = field(init=False)

    def __post_init__(self) -> None:
        filled = KEY, SHARD, NUMBER
        own = tuple(column for column in self.columns if column not in filled)
        order = (*own, *filled)
        parts = {
            "letters": "".join(column.letter for column in self.columns),
            "own": own,
            "keys": tuple(column for column in self.columns if column != NUMBER),
            "adds": NUMBER in self.columns,
            "called": NUMBER in self.columns and bool(self.varied),
            "pick": itemgetter(*map(order.index, self.columns)),
        }
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return repr(self.name)


class Measure(NamedTuple):
    """The counting beside a total.

    Attributes:
        name: the namespace, or ``app.Model.field``.
        condition: what has to be so that a change counts; None if each counts.
        projector: what makes the effects of its changes; None if no app does.
        guard: what refuses a change after its effects, as quotas do; None if nothing does.
        options: the declared values of the options of apps, by their names.
    """

    name: str
    condition: Conditional | None = None
    guard: Guarding | None = None
    projector: Projector | None = None
    options: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def declared(self, option: str) -> Any:
        """What an option of a projection has come to; empty if it isn't declared."""
        return dict(self.options).get(option, ())

    def replaced(self, **options: tuple[Any, ...]) -> Measure:
        """The same measure with other values of options."""
        return self._replace(options=tuple({**dict(self.options), **options}.items()))

    @property
    def counts_rows(self) -> bool:
        """Return whether its value is the number of rows of its condition."""
        return self.condition is not None and self.condition.counts_rows


def member_of(text: str, key: bytes) -> int:
    """Return the member that stands for a text. It can't be made without the key."""
    return member_in(blake2b(text.encode(), key=key, digest_size=8).digest())


def member_in(digest: bytes) -> int:
    """Return the first 52 of 64 bits; 1 if they are all zeros."""
    return int.from_bytes(digest, "big") >> 64 - MEMBER_BITS or 1
