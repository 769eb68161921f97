"""Reads the amounts of a series: from cells, from a ledger's entries, or from recorded totals."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from django.db import models
from django.utils import timezone
from django.utils.functional import Promise

from django_counters import clock
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.cells import decoded, encoded, text_of, why_no_value
from django_counters.contrib.series.models import CounterCell, CounterSample
from django_counters.contrib.series.options import OTHER, SUM, recorded_period
from django_counters.contrib.series.selection import (
    Combination,
    Plan,
    SeriesAmounts,
    SeriesSelection,
    StoredSpan,
    plan,
    within_dates,
)
from django_counters.contrib.series.sources import (
    COUNTED,
    LEDGER,
    NONE,
    RECORDED,
    UNDECLARED,
    Cells,
    CellSource,
)
from django_counters.effects import names_members
from django_counters.errors import HistoryNotKept, InvalidTags, UnsupportedSeries
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.measure import Kind, Measure
from django_counters.reading import refuse_dropped
from django_counters.registry import registry
from django_counters.stores.sql.measures import Stored, known_as
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED

# Why a source has no cells.
_WITHOUT = {
    COUNTED: "the field names no periods: per=[...]",
    LEDGER: "entries of a ledger have no tags",
    RECORDED: "recorded totals have no tags",
    NONE: UNDECLARED,
}
_ALWAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


def read_amounts(
    selection: SeriesSelection, *, summed: bool = False, each: bool = False
) -> SeriesAmounts:
    """Read the amounts of a selection.

    Args:
        selection: the counters and their time.
        summed: one number for all of the time, not one for each period.
        each: apart for each counter, not for all together.

    Raises:
        UnsupportedSeries: nothing is stored about when the counters changed.
        InvalidPeriod, HistoryNotKept: the stored data can't answer.
        CounterUnavailable: the database can't be reached.
    """
    using = selection.source.database(selection.using)
    read = {COUNTED: _from_cells, RECORDED: _from_totals}.get(selection.source.kind, _from_entries)
    with Session(using).translated():
        strict = replace(selection, span=replace(selection.span, partial=False))
        ways = [(read, strict)]
        ways += [(_from_entries, strict)] if _can_use_entries(selection) else []
        # Partial counts answer only if no source covers the whole time.
        ways += [(read, selection)] if selection.span.partial else []
        for way, question in ways[:-1]:
            with suppress(HistoryNotKept):
                return way(question, using, summed=summed, each=each)
        way, question = ways[-1]
        return way(question, using, summed=summed, each=each)


def read_starts(selection: SeriesSelection) -> Sequence[datetime]:
    """Return where the periods begin, and where the last one ends. Reads no counts.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `read_amounts`.
    """
    kind, using = selection.source.kind, selection.source.database(selection.using)
    with Session(using).translated():
        if kind == COUNTED:
            try:
                measure = measured(selection.source)
                return planned_for(selection, measure, SUM, using, summed=False)[1].starts
            except HistoryNotKept:
                if not _can_use_entries(selection):
                    raise
        if kind == RECORDED:
            return _starts_of_totals(selection, using, summed=False)
        starts = _starts_of_entries(selection, summed=False)
        if kind == NONE:
            inquiry = SqlInquiry(NAMED, using)
            for key in selection.source.keys:
                _check_entries(key, starts[0], inquiry, selection)
        return starts


def _can_use_entries(selection: SeriesSelection) -> bool:
    """Whether a ledger has what its cells lack: the amount counted before it had periods."""
    source = selection.source
    is_ledger = source.kind == COUNTED and source.recipe.can.entries
    # There is no list of keys of a whole namespace.
    return is_ledger and bool(source.keys) and not (selection.where or selection.tags)


# Cells: one statement sums them in the database.


def _from_cells(
    selection: SeriesSelection, using: str, *, summed: bool, each: bool
) -> SeriesAmounts:
    measure = measured(selection.source)
    stored, planned = planned_for(selection, measure, SUM, using, summed=summed)
    amounts: dict[tuple[str, Combination], list[int]] = {}
    periods = 1 if summed else len(planned.starts) - 1
    number = cache(lambda start: bisect_right(planned.starts, clock.meant(start)) - 1)
    rows = _cell_rows(selection, stored, planned, summed, each, using)
    for key, combination, start, amount in rows:
        row = amounts.setdefault((key, combination), [0] * periods)
        row[0 if start is None else number(start)] += amount
    names = selection.source.names(using, {key for key, _ in amounts}) if each else {}
    return SeriesAmounts(planned.starts, amounts, names)


def planned_for(
    selection: SeriesSelection, measure: Measure, kind: Kind, using: str, *, summed: bool
) -> tuple[Stored | None, Plan]:
    """Return the stored periods of a measure, and the plan to read a kind by them."""
    stored, known = known_of(selection.source, measure, kind, using)
    return stored, plan(known, selection.span, summed=summed)


def known_of(
    source: CellSource, measure: Measure, kind: Kind, using: str
) -> tuple[Stored | None, StoredSpan]:
    """Return what is stored of a measure, and since when each of a kind's periods is known."""
    stored = registry.measures(using).present(measure)
    zone = ZoneInfo(stored.zone) if stored else timezone.get_default_timezone()
    # A period that is declared later isn't known from the beginning. Nor is one without a row, if
    # there are entries.
    is_late = stored or (source.recipe.can.entries and source.has_entries(using))
    late = clock.utc() if is_late else None
    known = dict(stored.since if stored else ())
    periods = measure.declared(kind.option)
    since = {period: known.get(known_as(kind, period), late) for period in periods}
    return stored, StoredSpan(measure.replaced(per=periods), zone, since)


def measured(source: CellSource) -> Measure:
    """Return the declaration of counting by period and tag.

    Raises:
        UnsupportedSeries: there is none. A ledger's entries and recorded totals have no tags.
    """
    if source.measure is None or not source.measure.declared("per"):
        raise UnsupportedSeries(key=source.label, reason=_WITHOUT[source.kind])
    return source.measure


def check_tags(source: CellSource, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of tags, each once.

    Raises:
        InvalidTags: one isn't declared.
    """
    # Sets of actors have tags even if nothing else is counted by period.
    own = source.measure
    declaring = own if own and names_members(own) else measured(source)
    known = [name for name, _ in declaring.declared("tags")]
    tags = tuple(dict.fromkeys(names))
    for name in tags:
        if name not in known:
            reason = f"{name!r} is not declared, but {', '.join(known) or 'none'}"
            raise InvalidTags(tags=tags, key=source.label, reason=reason)
    return tags


def check_values(source: CellSource, name: str, values: object) -> frozenset[str | None]:
    """Return the values of a tag as texts; None stands for cells without one.

    Raises:
        InvalidTags: one can't be a value.
    """
    is_single = isinstance(values, (str, bytes, Promise, type(None))) or not isinstance(
        values, Iterable
    )
    several: Collection[Any] = [values] if is_single else list(values)  # type: ignore[call-overload]
    for value in several:
        reason = why_no_value(value)
        if reason:
            problem = f"the value of {name!r} {reason}"
            raise InvalidTags(tags={name: values}, key=source.label, reason=problem)
    return frozenset(None if value in (None, "") else text_of(value) for value in several)


def _cell_rows(
    selection: SeriesSelection,
    stored: Stored | None,
    planned: Plan,
    summed: bool,
    each: bool,
    using: str,
) -> Iterator[tuple[str, Combination, datetime | None, int]]:
    """Yield key, values of tags, start and sum of the selected cells."""
    if stored is None:
        # No increment has come yet.
        return
    cells = chosen(CounterCell, selection, stored, planned, using)
    columns = (("key",) if each else ()) + (("tags",) if selection.tags else ())
    columns += () if summed else ("start",)

    combination, place = combinations(selection, stored), int(each)
    for row in _summed(cells, columns):
        values = combination(row[place]) if selection.tags else ()
        yield row[0] if each else "", values, None if summed else row[-2], row[-1]


def _summed(cells: Cells, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    total = models.Sum("value")
    if not columns:
        return [(cells.aggregate(amount=total)["amount"] or 0,)]
    return list(cells.order_by().values_list(*columns).annotate(amount=total))


def combinations(selection: SeriesSelection, stored: Stored) -> Callable[[str], Combination]:
    """Return a function that reads the values of the selected tags from a cell's tags."""

    @cache
    def combination(text: str) -> Combination:
        values = decoded(text, stored.tags)
        return tuple(values.get(name) for name in selection.tags)

    return combination


def chosen(
    table: type[models.Model], selection: SeriesSelection, stored: Stored, planned: Plan, using: str
) -> Cells:
    """Return the selected rows of a table of cells."""
    number = PERIODS.index(planned.period) + 1
    cells = table._base_manager.using(using).filter(measure_id=stored.id, period=number)
    cells = selection.source.among(cells, using)
    if planned.starts:
        since, until = clock.shown(planned.starts[0]), clock.shown(planned.starts[-1])
        cells = cells.filter(start__gte=since, start__lt=until)
    for name, values in selection.where:
        cells = cells.filter(_has(stored, name, values))
    return cells


def _has(stored: Stored, name: str, values: Collection[str | None]) -> models.Q:
    """Return the condition that a cell's tag has one of some values.

    A cell has its values in a fixed order, with a bar between them, and leaves out those that are
    missing at the end.
    """
    if name not in stored.tags:
        # No increment has had it yet.
        return models.Q() if None in values else models.Q(key__in=())
    place = stored.tags.index(name)
    known = sorted(filter(None, values))
    texts = [re.escape(value if value == OTHER else encoded(value)) for value in known]
    patterns = [rf"^([^|]*[|]){{{place}}}({'|'.join(texts)})([|]|$)"] if texts else []
    if None in values:
        patterns.append(rf"^([^|]*[|]){{{place}}}([|]|$)")
        patterns += [rf"^[^|]*([|][^|]*){{0,{place - 1}}}$"] if place else []
    return models.Q(tags__regex="|".join(patterns)) if patterns else models.Q(key__in=())


# Entries of a ledger: one statement for each counter.


def _from_entries(
    selection: SeriesSelection, using: str, *, summed: bool, each: bool
) -> SeriesAmounts:
    """Sum the entries of each period.

    Raises:
        UnsupportedSeries: a counter isn't in a ledger, and never had an entry.
        HistoryNotKept: entries of that time are dropped.
    """
    starts = _starts_of_entries(selection, summed=summed)
    between = [starts[0], starts[-1]] if summed else starts
    numbers = range(1, len(between))
    inquiry = SqlInquiry(NAMED, using)
    amounts: dict[tuple[str, Combination], list[int]] = {}
    entries = [0 for _ in numbers]
    for key in selection.source.keys:
        changes = inquiry.history(key, between)
        # Checked last, because entries may be dropped concurrently.
        _check_entries(key, between[0], inquiry, selection)
        row = amounts.setdefault((key if each else "", ()), [0 for _ in numbers])
        for number in changes:
            change, many = changes[number]
            row[number - 1] += change
            entries[number - 1] += many
    names = {key: key for key in selection.source.keys} if each else {}
    return SeriesAmounts(starts, amounts, names, entries)


def _starts_of_entries(selection: SeriesSelection, *, summed: bool) -> Sequence[datetime]:
    """Return where the periods begin in the current time zone. Sends no query."""
    span, zone = selection.span, timezone.get_current_timezone()
    with within_dates(span):
        if span.by is not None:
            return span.shown(span.starts(clock.utc(), zone), zone)
        if summed and span.is_open:
            return _ALWAYS
        return span.shown(span.bounds(clock.utc()), zone)


def _check_entries(
    key: str, since: datetime, inquiry: SqlInquiry, selection: SeriesSelection
) -> None:
    since = clock.utc() if selection.span.partial else since
    if not refuse_dropped(key, since, inquiry):
        raise UnsupportedSeries(key=key, reason=UNDECLARED)


# Recorded totals: their differences.


def _from_totals(
    selection: SeriesSelection, using: str, *, summed: bool, each: bool
) -> SeriesAmounts:
    """Subtract the totals at the end of each period from one another.

    Raises:
        UnsupportedSeries, HistoryNotKept: as `_starts_of_totals`.
    """
    keys, starts = selection.source.keys, _starts_of_totals(selection, using, summed=summed)
    between = [starts[0], starts[-1]] if summed else starts
    earlier = {key: last_total(key, using, between[0]) for key in keys}
    if selection.span.partial:
        # Before its first recorded total, a counter counts as unchanged.
        for key in (key for key, total in earlier.items() if total is None):
            earlier[key] = _recorded([key], using).earliest("moment").value
    amounts: dict[tuple[str, Combination], list[int]] = {}
    for key, totals in totals_at(keys, between, using, earlier).items():
        row = amounts.setdefault((key if each else "", ()), [0] * (len(between) - 1))
        for number, (before, after) in enumerate(pairwise(totals)):
            if before is None or after is None:
                # It was pruned in this moment.
                raise HistoryNotKept(key=key, since=clock.now())
            row[number] += after - before
    return SeriesAmounts(starts, amounts, {key: key for key in keys} if each else {})


def _starts_of_totals(
    selection: SeriesSelection, using: str, *, summed: bool
) -> Sequence[datetime]:
    """Return where the recorded periods begin.

    Counts up to the end of the period with a counter's first recorded total aren't known.

    Raises:
        UnsupportedSeries: no total of a counter is recorded.
        HistoryNotKept: none is recorded of that time.
    """
    keys = selection.source.keys
    rows = _recorded(keys, using).values("key").annotate(first=models.Min("moment"))
    first = {row["key"]: clock.meant(row["first"]) for row in rows.order_by()}
    for key in keys:
        if key not in first:
            reason = "nothing is recorded of it yet: run counters upkeep history every few minutes"
            raise UnsupportedSeries(key=key, reason=reason)
    by = recorded_period(registry.policy(keys[0]).options)
    measure = Measure(selection.source.label, options=(("per", (by,)),))
    known = StoredSpan(measure, timezone.get_default_timezone(), {by: max(first.values())})
    return plan(known, selection.span, summed=summed).starts or _ALWAYS


def totals_at(
    keys: Sequence[str],
    moments: Sequence[datetime],
    using: str | None,
    earlier: Mapping[str, int | None],
) -> dict[str, list[int | None]]:
    """Return the last total before each moment, in one query; None before a counter's first one.

    Args:
        keys: the counters.
        moments: when periods begin, the earliest first.
        earlier: the known totals at the first of them.
        using: the database.
    """
    rows = _recorded(keys, using).order_by("moment")
    within = rows.filter(moment__gte=clock.shown(moments[0]), moment__lt=clock.shown(moments[-1]))
    seen: dict[str, list[tuple[datetime, int]]] = {key: [] for key in keys}
    for key, moment, value in within.values_list("key", "moment", "value"):
        seen[key].append((clock.meant(moment), value))
    return {key: list(_at(moments, seen[key], earlier.get(key))) for key in keys}


def _at(
    moments: Sequence[datetime], seen: Sequence[tuple[datetime, int]], last: int | None
) -> Iterator[int | None]:
    place = 0
    for moment in moments:
        # A total that was not written did not change.
        while place < len(seen) and seen[place][0] < moment:
            last = seen[place][1]
            place += 1
        yield last


def last_total(key: str, using: str | None, before: datetime | None = None) -> int | None:
    """Return the last recorded total, or the last one before a moment."""
    rows = _recorded([key], using)
    rows = rows if before is None else rows.filter(moment__lt=clock.shown(before))
    return rows.order_by("-moment").values_list("value", flat=True).first()


def _recorded(keys: Sequence[str], using: str | None) -> models.QuerySet[CounterSample]:
    return CounterSample._base_manager.using(using).filter(key__in=keys)
