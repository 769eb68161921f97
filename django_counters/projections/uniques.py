"""Declares by which periods distinct actors are counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_counters.calendar import PERIODS
from django_counters.options import Option
from django_counters.projections.base import Projection, finest_first, period_problems


def _parts(unique: object, **_: object) -> dict[str, Any]:
    return {"unique": finest_first(unique)}


def _problems(unique: object, **_: object) -> Iterator[str]:
    yield from period_problems("unique", unique)


UNIQUES = Projection(
    name="uniques",
    options=(
        Option(
            "unique",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "By which periods [distinct actors](../how-to/count-unique-visitors.md) are counted, "
            "of increments that say `who`. None: by none.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E029",
    in_fields="E030",
    spread="sets of other databases aren't read yet",
)
