"""The options of series, and the kinds of rows that they count in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from django_counters.calendar import PERIODS
from django_counters.measure import Kind
from django_counters.options import Option, is_integer
from django_counters.projections.base import Projection, finest_first, period_problems
from django_counters.types import INT8

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

_FOLDER = __name__.rpartition(".")[0]

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


def _quota_parts(ceiling: object, **_: object) -> dict[str, Any]:
    """Return the part of a `Measure`. Periods with a quota are stored."""
    periods = finest_first(ceiling) if isinstance(ceiling, Mapping) else ()
    if not periods:
        return {}
    declared: Any = ceiling
    # By its name: it imports this module.
    limits = import_string(f"{_FOLDER}.guards.QuotaLimits")
    return {"per": periods, "guard": limits(tuple((one, declared[one]) for one in periods))}


def _quota_problems(ceiling: object, **_: object) -> Iterator[str]:
    if not isinstance(ceiling, Mapping):
        return
    if not ceiling:
        yield "a ceiling of periods names some, as in {'month': 10_000}."
    for period, most in ceiling.items():
        if period not in PERIODS:
            yield f"{period!r} is no period. Known are: {', '.join(PERIODS)}."
        if not is_integer(most, 1, INT8[1]):
            yield f"the ceiling of a {period} is an integer from 1 on, not {most!r}."


def _quota_against(ceiling: object, strategy: str, can: Capabilities, **_: object) -> Iterator[str]:
    if not isinstance(ceiling, Mapping):
        return
    if not can.ceilings:
        yield f"{strategy} cannot hold a ceiling of a period, exact can."


#: Ceilings of periods. The option is the core's.
QUOTAS = Projection(
    name="quotas",
    options=(),
    takes=("ceiling",),
    problems=_quota_problems,
    make=_quota_parts,
    in_namespaces="E036",
    in_fields="E037",
    against=_quota_against,
    irreversible="it has a quota, and the quantity could come back in another period",
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
