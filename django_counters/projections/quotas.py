"""Declares ceilings: that of a value, or quotas, which are ceilings of a period."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django_counters.calendar import PERIODS
from django_counters.measure import SUM, Measure
from django_counters.options import Option, is_integer
from django_counters.projections.base import Projection, finest_first
from django_counters.stores.sql.measures import SqlMeasures
from django_counters.types import INT8, Effect, Quota

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities


def value_ceiling(ceiling: Any) -> Any:
    """The ceiling of the value; None where there is none, or one for periods."""
    return None if isinstance(ceiling, Mapping) else ceiling


def _parts(ceiling: object, **_: object) -> dict[str, Any]:
    """Periods with a quota are stored."""
    declared = ceiling if isinstance(ceiling, Mapping) else {}
    periods = finest_first(declared)
    return {"per": periods, "quotas": tuple((period, declared[period]) for period in periods)}


def _problems(ceiling: object, **_: object) -> Iterator[str]:
    if not isinstance(ceiling, Mapping):
        return
    if not ceiling:
        yield "a ceiling of periods names some, as in {'month': 10_000}."
    for period, most in ceiling.items():
        if period not in PERIODS:
            yield f"{period!r} is no period. Known are: {', '.join(PERIODS)}."
        if not is_integer(most, 1, INT8[1]):
            yield f"the ceiling of a {period} is an integer from 1 on, not {most!r}."


def _against(ceiling: object, strategy: str, can: Capabilities, **_: object) -> Iterator[str]:
    if not isinstance(ceiling, Mapping):
        return
    if not can.ceilings:
        yield f"{strategy} cannot hold a ceiling of a period, exact can."


QUOTAS = Projection(
    name="quotas",
    options=(
        Option(
            "ceiling",
            None,
            "None, an integer of 64 bits, or a dictionary of periods and integers",
            "Counting never takes a counter above it: `CeilingExceeded` is raised instead. For "
            "periods it is a [quota](../series.md#quotas): how much may be counted in "
            "each; `QuotaExceeded` is raised instead.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E036",
    in_fields="E037",
    against=_against,
    spread="no database can keep it for the others",
    irreversible="it has a quota, and the quantity could come back in another period",
)


def quotas_of(
    measure: Measure | None, effects: Iterable[Effect], known: SqlMeasures
) -> tuple[Quota, ...]:
    """The quotas of the periods that a change counts in, longer periods last.

    Args:
        measure: the declaration.
        effects: those of the change.
        known: the measures that the database has.
    """
    if measure is None or not measure.quotas:
        return ()
    declared, zone = dict(measure.quotas), known.ensure(measure).zone
    return tuple(
        Quota(cell._replace(tags=""), declared[PERIODS[cell.period - 1]], zone)
        for cell, _ in effects
        if cell.kind is SUM and PERIODS[cell.period - 1] in declared
    )
