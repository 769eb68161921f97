"""The rows that are derived from cells: their sums over the columns that a kind doesn't have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django_counters.calendar import PERIODS
from django_counters.effects import kinds
from django_counters.measure import SUM, Kind, Measure
from django_counters.types import Cell, Sums

_Periods = Mapping[Kind, frozenset[int]]


def derived_of(measure: Measure, cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield what is derived from cells of a measure."""
    periods = _periods(measure)
    for cell in cells if periods else ():
        yield from _derived(cell, periods)


def with_derived(sums: Sums[str], measures: Mapping[int, Measure]) -> Sums[str]:
    """Return sums of cells, and of what is derived from them.

    Args:
        sums: by key and cell.
        measures: the declarations, by their numbers.
    """
    by_measure = {number: found for number, one in measures.items() if (found := _periods(one))}
    if not by_measure:
        return sums
    result = dict(sums)
    for (key, cell), by in sums.items():
        if cell is not None and cell.measure in by_measure:
            for one in _derived(cell, by_measure[cell.measure]):
                result[key, one] = result.get((key, one), 0) + by
    return result


def _periods(measure: Measure) -> _Periods:
    """Return the numbers of the periods of each derived kind."""
    declared = {kind: measure.by(kind) for kind in kinds() if kind.derived}
    return {
        kind: frozenset(PERIODS.index(period) + 1 for period in periods)
        for kind, periods in declared.items()
        if periods
    }


def _derived(cell: Cell, by_kind: _Periods) -> Iterator[Cell]:
    if cell.kind is SUM:
        for kind, periods in by_kind.items():
            if cell.period in periods:
                yield cell._replace(tags=cell.tags if "t" in kind.columns else "", kind=kind)
