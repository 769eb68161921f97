"""The question to a series, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django_counters.read.sources import CellSource
from django_counters.read.spans import Span

#: The values of the tags that are asked for, in that order; None for one that was not given.
Combination = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """All that a series was asked for.

    Attributes:
        source: whose counts.
        span: of which time.
        where: tags, and which values of them count; None among these for one that was not given.
        tags: by which tags.
        using: the database.
    """

    source: CellSource
    span: Span = field(default_factory=Span)
    where: tuple[tuple[str, frozenset[str | None]], ...] = ()
    tags: tuple[str, ...] = ()
    using: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesAmounts:
    """The amount counted.

    Attributes:
        starts: where the periods begin, and where the last one ends.
        amounts: one for each period, or one for all, by the key of the counter (empty where all
            counters are one) and the values of tags.
        names: what people call the counters, by their keys.
        entries: how many entries of a ledger there are in each; None where none are kept.
    """

    starts: Sequence[datetime]
    amounts: Mapping[tuple[str, Combination], list[int]]
    names: Mapping[str, Any] = field(default_factory=dict)
    entries: Sequence[int] | None = None
