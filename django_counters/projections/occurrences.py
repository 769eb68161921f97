"""Declares by which periods it is counted how often a counter was changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_counters.calendar import PERIODS
from django_counters.options import Option
from django_counters.projections.base import Projection, finest_first, period_problems


def _parts(occurrences: object, **_: object) -> dict[str, Any]:
    """The amounts of these periods are stored, too: each mean needs both."""
    periods = finest_first(occurrences)
    return {"per": periods, "occurrences": periods}


def _problems(occurrences: object, **_: object) -> Iterator[str]:
    yield from period_problems("occurrences", occurrences)


OCCURRENCES = Projection(
    name="occurrences",
    options=(
        Option(
            "occurrences",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "By which periods it is counted [how often](../series.md#how-often-and-"
            "the-mean) a counter was changed, beside by how much. These are stored, too, where "
            "`per` does not name them.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E027",
    in_fields="E028",
    spread="occurrences of other databases aren't read yet",
)
