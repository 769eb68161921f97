"""The kind of rows of distinct actors, and the option that declares them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.options import finest_first, period_columns, period_problems
from django_counters.measure import Kind
from django_counters.options import Option, Projection

_FOLDER = __name__.rpartition(".")[0]
SETS_TABLE = "django_counters_counterunique"

#: An actor of a period who isn't in the period's set yet.
MEMBER = Kind(
    "member",
    "unique",
    "django_counters_countermember",
    period_columns("mkpstw"),
    each=True,
    has_members=True,
    lands=f"{_FOLDER}.sql.land_members",
    order=20,
)


def _parts(unique: object, **_: object) -> dict[str, Any]:
    return {"unique": finest_first(unique)}


def _problems(unique: object, **_: object) -> Iterator[str]:
    yield from period_problems("unique", unique)


UNIQUE = Projection(
    name="uniques",
    options=(
        Option(
            "unique",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "The periods by which [distinct actors](../uniques.md) are counted, for increments "
            "with `who`. None: by none.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E029",
    in_fields="E030",
    spread="sets of other databases aren't read yet",
)
