"""The options of series, and the kinds of rows that they count in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from django.utils.module_loading import import_string

from django_counters.contrib.series.calendar import PERIODS
from django_counters.event import MOST_TAGS, TAG_LENGTH
from django_counters.measure import KEY, NUMBER, SHARD, Kind, RowColumn
from django_counters.options import Option, Projection, is_integer
from django_counters.types import INT8, Cell

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

_FOLDER = __name__.rpartition(".")[0]

# The value that stands for those that are not counted apart.
OTHER = "~"
# Between the values of tags in a cell.
SEPARATOR = "|"
# The length of the encoded values of one change, together.
TAGS_LENGTH = 200
_MOST_VALUES = 10_000
TAGS_TABLE = "django_counters_countertag"
_MOST_DAYS = 36_500
PERIOD = RowColumn("p", "period", "smallint")
TAGS = RowColumn("t", "tags", "text")
_COLUMNS = {
    column.letter: column
    for column in (
        RowColumn("m", "measure_id", "int"),
        KEY,
        PERIOD,
        RowColumn("s", "start", "timestamptz"),
        TAGS,
        RowColumn("w", "member", "bigint"),
        SHARD,
        NUMBER,
    )
}


def period_columns(letters: str) -> tuple[RowColumn, ...]:
    """Return the columns of a kind whose rows are of periods.

    They are the measure (``m``), the key (``k``), the number of the period (``p``) and its start
    (``s``), the tags (``t``), the shard (``n``), an actor (``w``) and a number (``d``).
    """
    return tuple(_COLUMNS[letter] for letter in letters)


def period_cell(kind: Kind, measure: int, period: int, start: datetime, tags: str = "") -> Cell:
    """Return the cell of a period; without tags, if the kind has none, and of the member 0.

    Args:
        kind: its kind, with columns of `period_columns`.
        measure: the number of the measure in its database.
        period: the number of the period, from 1 for a minute.
        start: when the period begins, in UTC.
        tags: the values of the tags, encoded.
    """
    values = {"m": measure, "p": period, "s": start, "t": tags, "w": 0}
    return Cell(kind, tuple(values[column.letter] for column in kind.own))


class CellPeriod(NamedTuple):
    """The period of a cell: the number of its measure, its own number and start, and the tags."""

    measure: int
    number: int
    start: datetime
    tags: str


def period_in(cell: Cell) -> CellPeriod:
    """Return the period of a cell; without tags, if its kind has none."""
    measure, number, start, *others = cell.values
    return CellPeriod(measure, number, start, others[0] if TAGS in cell.kind.own else "")


def with_tags(cell: Cell, kind: Kind, tags: str) -> Cell:
    """Return the cell of a kind for the same period, with other tags."""
    values = dict(zip((one.letter for one in cell.kind.own), cell.values, strict=True), t=tags)
    return Cell(kind, tuple(values[column.letter] for column in kind.own))


#: How much was counted in a period, with certain tags.
SUM = Kind(
    "sum",
    "per",
    "django_counters_countercell",
    period_columns("mkpstnd"),
    varied="ps",
    order=10,
)
#: How many changes there were, beside each cell of the same periods.
OCCURRENCE = Kind(
    "occurrence",
    "occurrences",
    "django_counters_counteroccurrence",
    period_columns("mkpstnd"),
    each=True,
    varied="ps",
    mark="o",
    order=40,
)


def finest_first(periods: object) -> tuple[str, ...]:
    """The periods of a list or a dictionary in one order; none where it is neither."""
    given = periods if isinstance(periods, list | tuple | Mapping) else ()
    return tuple(sorted((one for one in given if one in PERIODS), key=PERIODS.index))


def period_problems(name: str, given: object) -> Iterator[str]:
    """Say what is wrong with a list of periods."""
    if given is None:
        return
    if not isinstance(given, list | tuple) or not given or len(set(map(str, given))) < len(given):
        yield f"{name} is a list of different periods, not {given!r}."
        return
    for period in given:
        if period not in PERIODS:
            yield f"{period!r} is no period. Known are: {', '.join(PERIODS)}."


def _series_parts(per: object, tags: object, keep: object, **_: object) -> dict[str, Any]:
    """What options without problems say of the measure."""
    return {
        "per": finest_first(per),
        "tags": tuple(tags.items()) if isinstance(tags, Mapping) else (),
        "keep": tuple(keep.items()) if isinstance(keep, Mapping) else (),
    }


def _series_problems(per: object, tags: object, keep: object, **others: object) -> Iterator[str]:
    """Yield what is wrong with the periods, tags and days of a declaration."""
    known = [period for given in (per, *others.values()) for period in finest_first(given)]
    if not known:
        for name, given in (("tags", tags), ("keep", keep)):
            if given:
                yield f"{name} need periods to count by: name some in per."
    yield from period_problems("per", per)
    if known:
        yield from _tag_problems({} if tags is None else tags)
        yield from _keep_problems({} if keep is None else keep, known)


def _tag_problems(tags: object) -> Iterator[str]:
    if not isinstance(tags, Mapping) or len(tags) > MOST_TAGS:
        yield f"tags is a dictionary of at most {MOST_TAGS} names and numbers, not {tags!r}."
        return
    for name, most in tags.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > TAG_LENGTH:
            yield f"{name!r} cannot be a tag: a name in Python can."
        if not is_integer(most, 1, _MOST_VALUES):
            yield f"the tag {name!r} may have from 1 to {_MOST_VALUES} values, not {most!r}."


def _keep_problems(keep: object, known: Collection[str]) -> Iterator[str]:
    if not isinstance(keep, Mapping):
        yield f"keep is a dictionary of periods and days, not {keep!r}."
        return
    for period, days in keep.items():
        if period not in known:
            yield f"keep names {period!r}, by which nothing is counted."
        if not is_integer(days, 1, _MOST_DAYS):
            yield f"{period!r} is kept for 1 to {_MOST_DAYS} days, not {days!r}."


SERIES = Projection(
    name="series",
    options=(
        Option(
            "per",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "By which periods increments are [counted](../series.md), beside the "
            "total. None: by none.",
        ),
        Option(
            "tags",
            None,
            "dictionary of names and numbers, or None",
            "How many values of each [tag](../series.md#split-by-tag) are counted apart. "
            "Only with periods.",
        ),
        Option(
            "keep",
            None,
            "dictionary of periods and days, or None",
            "For how many days a period is kept; one that is not named, for ever. "
            "Only with periods.",
        ),
    ),
    problems=_series_problems,
    make=_series_parts,
    in_namespaces="E027",
    in_fields="E028",
    merges=True,
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
        "E027": 'PER and OCCURRENCES are lists of periods such as ["hour", "day"], TAGS a number '
        "of values for each tag, KEEP a number of days for each period.",
        "E028": 'per and occurrences are lists of periods such as ["hour", "day"], tags a number '
        "of values for each tag, keep a number of days for each period.",
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
