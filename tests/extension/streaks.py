"""The kinds of the app: how often a counter was changed, and sums by tag without shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_counters.contrib.series.options import finest_first, period_columns, period_problems
from django_counters.measure import Kind
from django_counters.options import Option, Projection

#: A change of a sharded counter adds to a shard of its own.
STREAK = Kind(
    "streak",
    "streaks",
    "moods_streak",
    period_columns("mkpstnd"),
    each=True,
    varied="ps",
    mark="z",
    order=2000,
)
#: The order of the columns is that of the primary key: the tags come before the key.
TAGGED = Kind(
    "tagged",
    "tagged",
    "moods_tagged",
    period_columns("mpstkd"),
    derived=True,
    varied="ps",
    order=2001,
)


def _projection(kind: Kind) -> Projection:
    name = kind.option

    def problems(**options: object) -> Iterator[str]:
        yield from period_problems(name, options[name])

    def make(**options: object) -> dict[str, Any]:
        periods = finest_first(options[name])
        return {"per": periods, name: periods}

    help_text = "Its periods."
    option = Option(name, None, "list of periods or None", help_text)
    return Projection(name, (option,), problems, make, in_namespaces="E100", in_fields="E101")


STREAKS = _projection(STREAK), _projection(TAGGED)
