"""What cells tell of a series: one statement that sums them in the database."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from django.db import models
from django.utils import timezone
from django.utils.functional import Promise

from django_counters import clock
from django_counters.calendar import PERIODS
from django_counters.exceptions import InvalidTags, UnsupportedSeries
from django_counters.measure import OTHER, SUM, Kind, Measure
from django_counters.projections.cells import decoded, encoded, text_of, why_no_value
from django_counters.read.asked import Combination, SeriesAmounts, SeriesSelection
from django_counters.read.sources import (
    COUNTED,
    LEDGER,
    NONE,
    RECORDED,
    UNDECLARED,
    Cells,
    CellSource,
)
from django_counters.read.spans import Plan, StoredSpan, plan
from django_counters.registry import registry
from django_counters.stores.sql.measures import Stored
from django_counters.tables import CounterCell

# Why a source has no measure.
_WITHOUT = {
    COUNTED: "the field names no periods: per=[...]",
    LEDGER: "entries of a ledger have no tags",
    RECORDED: "recorded totals have no tags",
    NONE: UNDECLARED,
}


def found(asked: SeriesSelection, using: str, *, summed: bool, each: bool) -> SeriesAmounts:
    """Sum the cells of each period.

    Raises:
        InvalidPeriod, HistoryNotKept: the stored data cannot tell it.
        CounterUnavailable: the database cannot be reached.
    """
    measure = measured(asked.source)
    stored, planned = planned_for(asked, measure, SUM, using, summed=summed)
    amounts: dict[tuple[str, Combination], list[int]] = {}
    periods = 1 if summed else len(planned.starts) - 1
    number = cache(lambda start: bisect_right(planned.starts, clock.meant(start)) - 1)
    for key, combination, start, amount in _rows(asked, stored, planned, summed, each, using):
        row = amounts.setdefault((key, combination), [0] * periods)
        row[0 if start is None else number(start)] += amount
    names = asked.source.names(using, {key for key, _ in amounts}) if each else {}
    return SeriesAmounts(planned.starts, amounts, names)


def starts(asked: SeriesSelection, using: str) -> Sequence[datetime]:
    """Where the periods begin that are asked for, and where the last one ends: reads no cells.

    Raises:
        InvalidPeriod, HistoryNotKept, CounterUnavailable: as `found`.
    """
    measure = measured(asked.source)
    return planned_for(asked, measure, SUM, using, summed=False)[1].starts


def planned_for(
    asked: SeriesSelection, measure: Measure, kind: Kind, using: str, *, summed: bool
) -> tuple[Stored | None, Plan]:
    """What is stored of a measure, and how it is read by the periods of a kind; see `known_of`."""
    stored, known = known_of(asked.source, measure, kind, using)
    return stored, plan(known, asked.span, summed=summed)


def known_of(
    source: CellSource, measure: Measure, kind: Kind, using: str
) -> tuple[Stored | None, StoredSpan]:
    """What is stored of a measure, and since when its periods of a kind are known."""
    stored = registry.measures(using).present(measure)
    zone = ZoneInfo(stored.zone) if stored else timezone.get_default_timezone()
    # A period that is declared later is not known from the beginning. Nor is one without a row,
    # where there are entries.
    is_late = stored or (source.recipe.can.entries and source.has_entries(using))
    late = clock.utc() if is_late else None
    known = dict(stored.since if stored else ())
    since = {period: known.get(kind.known_as(period), late) for period in measure.by(kind)}
    return stored, StoredSpan(measure._replace(per=measure.by(kind)), zone, since)


def measured(source: CellSource) -> Measure:
    """The declaration of counting by period and tag.

    Raises:
        UnsupportedSeries: nothing is. Entries of a ledger and recorded totals have no tags.
    """
    if source.measure is None or not source.measure.per:
        raise UnsupportedSeries(key=source.label, reason=_WITHOUT[source.kind])
    return source.measure


def check_tags(source: CellSource, names: Iterable[str]) -> tuple[str, ...]:
    """The names of tags, each of them once.

    Raises:
        InvalidTags: one is not declared.
    """
    # Sets of actors have tags, too, where nothing else is counted by period.
    own = source.measure
    known = [name for name, _ in (own if own and own.unique else measured(source)).tags]
    given = tuple(dict.fromkeys(names))
    for name in given:
        if name not in known:
            reason = f"{name!r} is not declared, but {', '.join(known) or 'none'}"
            raise InvalidTags(tags=given, key=source.label, reason=reason)
    return given


def check_values(source: CellSource, name: str, given: object) -> frozenset[str | None]:
    """The values of a tag that count, as texts; None for cells without one.

    Raises:
        InvalidTags: the given tags are none.
    """
    single = isinstance(given, (str, bytes, Promise, type(None))) or not isinstance(given, Iterable)
    values: Collection[Any] = [given] if single else list(given)  # type: ignore[call-overload]
    for value in values:
        reason = why_no_value(value)
        if reason:
            problem = f"the value of {name!r} {reason}"
            raise InvalidTags(tags={name: given}, key=source.label, reason=problem)
    return frozenset(None if value in (None, "") else text_of(value) for value in values)


def _rows(
    asked: SeriesSelection,
    stored: Stored | None,
    planned: Plan,
    summed: bool,
    each: bool,
    using: str,
) -> Iterator[tuple[str, Combination, datetime | None, int]]:
    """Key, values of tags, start and sum of the cells that are asked for."""
    if stored is None:
        # No increment has come yet.
        return
    cells = chosen(CounterCell, asked, stored, planned, using)
    columns = (("key",) if each else ()) + (("tags",) if asked.tags else ())
    columns += () if summed else ("start",)

    combination, place = combinations(asked, stored), int(each)
    for row in _summed(cells, columns):
        values = combination(row[place]) if asked.tags else ()
        yield row[0] if each else "", values, None if summed else row[-2], row[-1]


def combinations(asked: SeriesSelection, stored: Stored) -> Callable[[str], Combination]:
    """Reads the values of the tags that are asked for out of the tags of a cell."""

    @cache
    def combination(text: str) -> Combination:
        given = decoded(text, stored.tags)
        return tuple(given.get(name) for name in asked.tags)

    return combination


def chosen(
    table: type[models.Model], asked: SeriesSelection, stored: Stored, planned: Plan, using: str
) -> Cells:
    """The rows of a table of cells that are asked for."""
    number = PERIODS.index(planned.period) + 1
    cells = table._base_manager.using(using).filter(measure_id=stored.id, period=number)
    cells = asked.source.among(cells, using)
    if planned.starts:
        since, until = clock.shown(planned.starts[0]), clock.shown(planned.starts[-1])
        cells = cells.filter(start__gte=since, start__lt=until)
    for name, values in asked.where:
        cells = cells.filter(_has(stored, name, values))
    return cells


def _summed(cells: Cells, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    total = models.Sum("value")
    if not columns:
        return [(cells.aggregate(amount=total)["amount"] or 0,)]
    return list(cells.order_by().values_list(*columns).annotate(amount=total))


def _has(stored: Stored, name: str, values: Collection[str | None]) -> models.Q:
    """Whether a tag of a cell has one of some values.

    A cell has them in a fixed order, with a bar between; those that are missing at the end are left
    out.
    """
    if name not in stored.tags:
        # No increment has had it yet.
        return models.Q() if None in values else models.Q(key__in=())
    place = stored.tags.index(name)
    texts = [re.escape(_in_cell(value)) for value in sorted(filter(None, values))]
    patterns = [rf"^([^|]*[|]){{{place}}}({'|'.join(texts)})([|]|$)"] if texts else []
    if None in values:
        patterns.append(rf"^([^|]*[|]){{{place}}}([|]|$)")
        patterns += [rf"^[^|]*([|][^|]*){{0,{place - 1}}}$"] if place else []
    return models.Q(tags__regex="|".join(patterns)) if patterns else models.Q(key__in=())


def _in_cell(value: str) -> str:
    return value if value == OTHER else encoded(value)
