"""The statements that add to cells, and to whatever else a change does beside its total."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any

from django_counters import types
from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import CELLS, MEMBERS, RANKS
from django_counters.types import Quota


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """One kind of effects: the table of their rows, and what becomes of one that is there.

    Attributes:
        table: where the rows stand.
        columns: the name and type of each, by the letter that it has among given rows.
        again: what follows ``ON CONFLICT``; ``{added}`` is the sum of both values.
        amount: the letter of the column that is added; the others name a row.
        function: adds to rows of one counter that differ by their periods alone, where a database
            has functions.
    """

    table: str
    columns: Mapping[str, tuple[str, str]]
    again: str
    amount: str = ""
    function: str = ""

    def insert(self, source: str, added: str = "t.value + EXCLUDED.value") -> str:
        """Add the rows of a SELECT."""
        columns = ", ".join(name for name, _ in self.columns.values())
        named = (name for letter, (name, _) in self.columns.items() if letter != self.amount)
        return (
            f"INSERT INTO {self.table} AS t ({columns}) {source} "
            f"ON CONFLICT ({', '.join(named)}) {self.again.format(added=added)}"
        )


_OF_PERIOD = {
    "m": ("measure_id", "int"),
    "k": ("key", "text"),
    "p": ("period", "smallint"),
    "s": ("start", "timestamptz"),
    "t": ("tags", "text"),
}
SUM = Kind(
    CELLS,
    {**_OF_PERIOD, "n": ("shard", "smallint"), "d": ("value", "bigint")},
    "DO UPDATE SET value = {added}",
    amount="d",
    function="django_counters_cells",
)
# A row that is there is not written again, and nobody waits for it.
MEMBER = Kind(MEMBERS, {**_OF_PERIOD, "w": ("member", "bigint")}, "DO NOTHING")
# The sums over tags and shards, where these are ranked.
RANK = Kind(
    RANKS,
    {**{letter: _OF_PERIOD[letter] for letter in "mpsk"}, "d": ("value", "bigint")},
    "DO UPDATE SET value = {added}",
    amount="d",
    function="django_counters_rank",
)
# By the kind of a cell. In this order a change writes them, and so do all others.
KINDS = {types.SUM: SUM, types.MEMBER: MEMBER, types.RANK: RANK}
# Picks the row of a kind from measure, key, period, start, tags, member, shard, and by how much.
ROWS = {name: itemgetter(*map("mkpstwnd".index, kind.columns)) for name, kind in KINDS.items()}


class Cells:
    """Adds to cells.

    Attributes:
        join: whether one statement can make a change and add to its cells.
    """

    join = False

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    def given(self, kind: Kind) -> str:
        """Rows that are given as parameters: those of `arrange`."""
        return self._in.rows(**{letter: of for letter, (_, of) in kind.columns.items()})

    def add(self, kind: Kind) -> str:
        """Add rows of a kind. Parameters: the rows."""
        added = self._in.added("t.value", "EXCLUDED.value")
        source = f"SELECT {', '.join(kind.columns)} FROM {self.given(kind)} WHERE true"
        return kind.insert(source, added)

    def apart(self, kind: Kind) -> str:
        """The same to a shard that no other transaction uses, where rows have shards."""
        return self.add(kind)

    def forget(self, table: str) -> str:
        """Delete some rows of a period. Parameters: measure, period, before when, how many."""
        return self._in.delete_some(
            table, "WHERE measure_id = %s AND period = %s AND start < %s LIMIT %s"
        )

    @cached_property
    def used(self) -> str:
        """What periods have counted, over tags and shards. Parameters: as of `RANK`, numbered.

        Rows: the number and the sum of each period that has counted something.
        """
        return (
            f"SELECT u.d, SUM(c.value) FROM {self.given(RANK)} JOIN {CELLS} c "
            "ON c.measure_id = u.m AND c.key = u.k AND c.period = u.p AND c.start = u.s "
            "GROUP BY u.d"
        )

    @cached_property
    def take_members(self) -> str:
        """Delete some members that nobody holds, and give them. Parameters: how many."""
        columns = ", ".join(name for name, _ in MEMBER.columns.values())
        return self._in.delete_some(MEMBERS, f"ORDER BY {columns} LIMIT %s", columns)

    def arrange(self, kind: Kind, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:  # noqa: ARG002
        """The parameters of rows of a kind."""
        return self._in.columns(rows)

    def alike(self, rows: Mapping[Kind, Sequence[Sequence[Any]]]) -> tuple[Any, ...] | None:  # noqa: ARG002
        """The parameters of the functions of rows of one counter, by kind.

        None where one kind has no function, or rows that differ by more than their periods.
        """
        return None

    def beside(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """One statement of a change and its effects, which are added where it has counted.

        Given the text of the change, and the names of its columns: ``k`` is a key, where there are
        several; ``v`` the new value, NULL where nothing was counted; ``n`` the row that was taken,
        which is the shard of its cells. Parameters: those of the change, then the rows of each
        kind. Rows: those of the change.
        """
        raise NotImplementedError

    def after(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """The same for one counter, and for rows that are `alike`; so are its parameters."""
        raise NotImplementedError

    def within(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """The same, and an error where a period has counted too much then.

        Its last parameters are those of `limits`.
        """
        raise NotImplementedError

    def limits(self, quotas: Sequence[Quota], shown: Callable[[datetime], Any]) -> tuple[Any, ...]:
        """The parameters of quotas of one counter, but its key. ``shown``: of the starts."""
        raise NotImplementedError
