"""Declares of which periods the largest counts are found at once, and makes their ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django_counters.calendar import PERIODS
from django_counters.measure import RANK, SUM, Measure
from django_counters.options import Option
from django_counters.projections.base import Projection, finest_first, period_problems
from django_counters.types import Cell, Sums

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities


def _parts(top: object, **_: object) -> dict[str, Any]:
    """Periods with ranks are stored."""
    return {"per": finest_first(top), "top": finest_first(top)}


def _problems(top: object, **_: object) -> Iterator[str]:
    yield from period_problems("top", top)


def _against(top: object, strategy: str, can: Capabilities, **_: object) -> Iterator[str]:
    if top is not None and not can.ranks:
        reason = "all who count would wait for the one row that has the sum of a period"
        yield f"{strategy} cannot have top: {reason}."


TOP = Projection(
    name="top",
    options=(
        Option(
            "top",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "Of which periods the [largest counts](../how-to/top-ten-of-the-week.md) are found at "
            "once. These are stored, too, where `per` does not name them.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E033",
    in_fields="E034",
    against=_against,
    spread="ranks of other databases aren't read yet",
)


def ranks_of(measure: Measure, cells: Iterable[Cell]) -> Iterator[Cell]:
    """The ranks that cells of a measure add to: their sums over tags and shards."""
    for cell in cells:
        if cell.kind == SUM.name and PERIODS[cell.period - 1] in measure.top:
            yield cell._replace(tags="", kind=RANK.name)


def with_ranks(sums: Sums[str], measures: Mapping[int, Measure]) -> Sums[str]:
    """Sums of cells, and of the ranks that follow from them; ``measures`` by their numbers."""
    found = dict(sums)
    for (key, cell), by in sums.items():
        if cell is not None and cell.measure in measures:
            for rank in ranks_of(measures[cell.measure], (cell,)):
                found[key, rank] = found.get((key, rank), 0) + by
    return found
