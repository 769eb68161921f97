"""What a namespace or a field counts beside its totals, and in which rows. Keeps no state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from django_counters.conditions import Conditional

OTHER = "~"
# Between the values of tags in a cell.
SEPARATOR = "|"
TAG_LENGTH = 60
# Of all values of one change together, encoded.
TAGS_LENGTH = 200
MOST_TAGS = 8


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """One kind of rows that a change adds to beside its total.

    A new kind is a value in this file, an attribute of `Measure` that has its periods, a table and
    a projection. Stores write it, wait with it, land it and forget it by what stands here.

    Attributes:
        name: what effects of the kind are called.
        periods: the attribute of a `Measure` that says by which periods there are such rows.
        table: where the rows stand.
        columns: a letter for each column, in the order of the primary key: the measure, its key,
            period, start, tags, shard (``n``) and member (``w``). Then ``d``, where a row has a
            number that is added to; else a row that is there stays as it is.
        each: whether a change adds one, whatever its amount is.
        derived: whether rows follow from those of another kind, and are made where these land.
        mark: what tells the kind in Redis and in parcels, if it waits there and has no members.
    """

    name: str
    periods: str
    table: str
    columns: str
    each: bool = False
    derived: bool = False
    mark: str = ""

    @property
    def keys(self) -> str:
        """The letters of the columns that name a row."""
        return self.columns.removesuffix("d")

    @property
    def adds(self) -> bool:
        """Whether a row has a number that is added to."""
        return self.columns.endswith("d")

    def known_as(self, period: str) -> str:
        """The name under which the row of a measure says since when a period is known."""
        return period if self.periods == "per" else f"{self.periods} {period}"


SUM = Kind("sum", "per", "django_counters_countercell", "mkpstnd")
MEMBER = Kind("member", "unique", "django_counters_countermember", "mkpstw", each=True)
# The sums over tags and shards, where these are ranked.
RANK = Kind("rank", "top", "django_counters_counterrank", "mpskd", derived=True)
OCCURRENCE = Kind(
    "occurrence",
    "occurrences",
    "django_counters_counteroccurrence",
    "mkpstnd",
    each=True,
    mark="o",
)
# By their names. In this order a change writes them, and so do all others.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: kind for kind in (SUM, MEMBER, RANK, OCCURRENCE)}
)


class Measure(NamedTuple):
    """The counting beside a total.

    Attributes:
        name: the namespace, or ``app.Model.field``.
        per: the periods that are stored, the finest first.
        tags: how many values of each tag are kept apart; later ones are counted as ``~``.
        keep: for how many days a period is kept; for ever where it is not named.
        unique: by which periods distinct actors are counted.
        condition: what has to be so that a change counts; None if each counts.
        top: the periods whose sums are ranked; they are among those that are stored.
        quotas: by how much a counter may be increased in each of some periods; these are stored.
        occurrences: by which periods changes are counted; these are stored.
    """

    name: str
    per: tuple[str, ...]
    tags: tuple[tuple[str, int], ...] = ()
    keep: tuple[tuple[str, int], ...] = ()
    unique: tuple[str, ...] = ()
    condition: Conditional | None = None
    top: tuple[str, ...] = ()
    quotas: tuple[tuple[str, int], ...] = ()
    occurrences: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        """The names under which its row says since when each of its periods is known."""
        return tuple(kind.known_as(p) for kind in KINDS.values() for p in self.by(kind))

    def by(self, kind: Kind) -> tuple[str, ...]:
        """By which periods there are rows of a kind, the finest first."""
        periods: tuple[str, ...] = getattr(self, kind.periods)
        return periods

    @property
    def counts_rows(self) -> bool:
        """Return whether its value is the number of rows of its condition."""
        return self.condition is not None and self.condition.counts_rows
