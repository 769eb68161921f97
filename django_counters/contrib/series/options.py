"""The options of series, and the kinds of rows that they count in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from django_counters.calendar import PERIODS
from django_counters.measure import Kind
from django_counters.options import Option, is_integer
from django_counters.projections.base import Projection, finest_first, period_problems

#: How many changes there were, beside each cell of the same periods.
OCCURRENCE = Kind(
    "occurrence",
    "occurrences",
    "django_counters_counteroccurrence",
    "mkpstnd",
    each=True,
    mark="o",
    order=40,
)


def _occurrence_parts(occurrences: object, **_: object) -> dict[str, Any]:
    """Return the part of a `Measure`. The amounts are stored, too: each mean needs both."""
    periods = finest_first(occurrences)
    return {"per": periods, "occurrences": periods}


def _occurrence_problems(occurrences: object, **_: object) -> Iterator[str]:
    yield from period_problems("occurrences", occurrences)


OCCURRENCES = Projection(
    name="occurrences",
    options=(
        Option(
            "occurrences",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "The periods by which it is counted [how often](../series.md#how-often-and-the-mean) a "
            "counter was changed, beside by how much. They are stored even if `per` doesn't name "
            "them.",
        ),
    ),
    problems=_occurrence_problems,
    make=_occurrence_parts,
    in_namespaces="E027",
    in_fields="E028",
    spread="occurrences of other databases aren't read yet",
)

#: The recorded period of each value of ``HISTORY``.
HISTORIES: Mapping[str, str] = MappingProxyType({"1h": "hour", "1d": "day"})
#: The default of ``HISTORY_DAYS``.
DAYS = 90
_MOST_DAYS = 36_500

OPTIONS = (
    Option(
        "HISTORY",
        None,
        f"None or one of {', '.join(map(repr, HISTORIES))}",
        "How often [totals are recorded](../series.md#recorded-totals), for a chart. None: never. "
        "Not with `'ledger'`.",
        lambda value: value is None or value in tuple(HISTORIES),
        code="E025",
    ),
    Option(
        "HISTORY_DAYS",
        DAYS,
        f"an integer from 1 to {_MOST_DAYS}",
        "The number of days for which recorded totals are kept.",
        lambda value: is_integer(value, 1, _MOST_DAYS),
        code="E025",
    ),
)
HINTS: Mapping[str, str] = MappingProxyType(
    {
        "E025": 'HISTORY is "1h", "1d" or None, HISTORY_DAYS a number of days. Remove them from a '
        "ledger, which has a history already.",
        "E045": 'Declare per=["day"] on the field, or remove the Sparkline from list_display.',
    }
)


def recorded_period(options: Mapping[str, Any]) -> str:
    """Return the recorded period of a namespace with these options; empty if there is none."""
    return HISTORIES.get(options.get("history") or "", "")


def history_problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    """Yield what is wrong with ``HISTORY`` beside the strategy of a namespace."""
    from django_counters.conf import namespace_strategy

    strategy = namespace_strategy(declared.get("STRATEGY", "exact"))
    if strategy is not None and strategy.can.entries and declared.get("HISTORY") is not None:
        yield f"HISTORY is not for {strategy.name}: entries are a history already."
