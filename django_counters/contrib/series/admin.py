"""Series in the admin: a section with a chart, lines in the list of counters, and `Sparkline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin.utils import quote
from django.core.checks import CheckMessage, Error
from django.db import models
from django.db.models import Sum
from django.db.models.functions import TruncHour
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.http import require_safe

from django_counters import clock
from django_counters.admin.fields import LineColumn
from django_counters.admin.readonly import address
from django_counters.contrib.series.amounts import totals_at
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.chart import (
    ALL,
    OTHERS,
    WITHOUT,
    Chart,
    TagRow,
    charted,
    periods_of,
    tags_of,
)
from django_counters.contrib.series.options import HINTS, recorded_period
from django_counters.contrib.series.reading import of
from django_counters.errors import CounterError, HistoryNotKept
from django_counters.features import OnPage, Panel
from django_counters.fields import CounterField, counter_fields
from django_counters.models import CounterDelta
from django_counters.registry import registry
from django_counters.templatetags.counters_admin import grouped
from django_counters.types import Reading, why_no_key

HOURS = 24
# More entries would make a list slow: half a second for each million.
MOST_ENTRIES = 200_000
_HOUR = timedelta(hours=1)
_Line = list[int | None]
# The periods that add up to days.
_WITHIN_A_DAY = PERIODS[: PERIODS.index("day") + 1]
_LINE_WIDTH, _LINE_HEIGHT = 96, 20
# So that a line isn't cut off at its highest and lowest point.
_EDGE = 2
_CHART = "django_counters_counter_chart"
_WIDTH, _HEIGHT = 640, 220
_TOP, _BOTTOM = 24, 196
# Textures tell values apart where colours do not. The last two are not for values.
TEXTURES = (
    "",
    "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6",
    "M0,4 H8",
    "M4,0 V8",
    "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2",
    "M4,0 V8 M0,4 H8",
    "M1,2 H3 M5,6 H7",
    "M0,0 L8,8 M0,8 L8,0",
    "M0,2 H8 M0,6 H8",
    "M2,0 V8 M6,0 V8",
    "M0,1 H8 M0,5 H8 M2,1 V5 M6,5 V9",
    "M0,6 L4,2 L8,6",
)
_OF_OTHERS, _OF_WITHOUT = 10, 11
_FORMATS = {"hour": "SHORT_DATETIME_FORMAT", "month": "YEAR_MONTH_FORMAT"}
_PERIODS: dict[str, Callable[[], str]] = {
    "hour": lambda: _("Hours"),
    "day": lambda: _("Days"),
    "week": lambda: _("Weeks"),
    "month": lambda: _("Months"),
}


# The section on the page of a counter.


class SeriesPanel(Panel):
    """Shows the chart of a named counter. The numbers are at ``<key>/chart/`` as JSON.

    The parameters ``by`` and ``split`` select the period and the tag.
    """

    template = "django_counters_series/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:
        """Return the chart; None for a record."""
        if counter.owner:
            return None
        key, policy = counter.key, registry.policy(counter.key)
        series = _chart(key, request)
        periods = [
            (_query(by, series.split), _PERIODS[by](), by == series.by) for by in periods_of(key)
        ]
        splits = [("", _("all together")), *((tag, tag) for tag in tags_of(key))]
        return {
            "key": key,
            "is_declared": bool(recorded_period(policy.options) or policy.measure),
            "series": series,
            "bars": bars_of(series) if series.starts else None,
            "period": word_of(series.by),
            "periods": periods,
            "splits": [
                (_query(series.by, tag), name, tag == series.split)
                for tag, name in splits
                if splits[1:]
            ],
            "chart_url": address(counter.site, _CHART, quote(key)),
            "query": _query(series.by, series.split),
        }

    def urls(self, page: Any) -> Sequence[URLPattern]:
        """Return the address of the chart's numbers."""

        @require_safe
        def chart_view(request: HttpRequest, object_id: str) -> HttpResponse:
            counter = page.permitted(request, object_id)
            if counter is None:
                raise Http404
            return JsonResponse(numbers_of(_chart(counter.key, request)))

        view = page.admin_site.admin_view(chart_view)
        return [path("<path:object_id>/chart/", view, name=_CHART)]


def _query(by: str, split: str) -> str:
    return urlencode({"by": by, **({"split": split} if split else {})})


def _chart(key: str, request: HttpRequest) -> Chart:
    """Return the chart that the address selects; an empty one for an invalid key."""
    by, periods = request.GET.get("by", ""), periods_of(key)
    by = by if by in periods else next(iter(periods), "hour")
    try:
        return charted(key, by, request.GET.get("split", ""))
    except CounterError:
        return Chart(key, by)


# The drawing of a chart.


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar. Its measures are texts, so that no language changes their decimal point."""

    x: str
    y: str
    width: str
    height: str
    texture: int
    title: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A line of the legend, and a column of the table."""

    name: str
    texture: int
    total: int


def bars_of(series: Chart) -> dict[str, Any]:
    """Return what the template draws, in the units of the view box."""
    entries = [_entry(number, row) for number, row in enumerate(series.rows)]
    labels = [label_of(start, series.by) for start in series.starts]
    scale = _Scale.of(series)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "segments": list(_segments(series, entries, labels, scale)),
        "ground": scale.at(0),
        "lines": [(scale.at(amount), amount) for amount in dict.fromkeys((scale.high, scale.low))],
        "times": [(0, "start", labels[0]), (_WIDTH, "end", labels[-1])][: len(labels)],
        "textures": [(number, TEXTURES[number]) for number in sorted({e.texture for e in entries})],
        "entries": entries,
        "rows": _table(series, labels),
    }


def numbers_of(series: Chart) -> dict[str, Any]:
    """Return the numbers of a chart for JSON."""
    return {
        "key": series.key,
        "by": series.by,
        "source": series.source,
        "split": series.split or None,
        "moments": [clock.meant(start).isoformat() for start in series.starts],
        "labels": [label_of(start, series.by) for start in series.starts],
        "values": list(series.values) or None,
        "changes": list(series.totals),
        "rows": [
            {"kind": row.kind, "value": row.name or None, "changes": list(row.amounts)}
            for row in series.rows
        ],
    }


def label_of(start: datetime, by: str) -> str:
    """Return the text of a period's start. An hour is in the current time zone."""
    if by == "hour" and timezone.is_aware(start):
        start = timezone.localtime(start)
    return date_format(start, _FORMATS.get(by, "DATE_FORMAT"))


def word_of(by: str) -> str:
    """Return the heading of a column of periods."""
    words = {"hour": _("Hour"), "day": _("Day"), "week": _("Week from"), "month": _("Month")}
    return words[by]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts amounts into distances from the top."""

    low: int
    high: int

    @classmethod
    def of(cls, series: Chart) -> _Scale:
        stacks = [list(stack) for stack in zip(*(r.amounts for r in series.rows), strict=True)]
        high = max((sum(a for a in stack if a > 0) for stack in stacks), default=0)
        low = min((sum(a for a in stack if a < 0) for stack in stacks), default=0)
        return cls(low, high if high or low else 1)

    def height(self, amount: int) -> float:
        return (self.high - amount) * (_BOTTOM - _TOP) / (self.high - self.low)

    def at(self, amount: int) -> str:
        return f"{_TOP + self.height(amount):.2f}"


def _entry(number: int, row: TagRow) -> LegendEntry:
    names = {
        ALL: pgettext("what was counted", "Counted"),
        OTHERS: pgettext("values of a tag", "(other)"),
        WITHOUT: pgettext("value of a tag", "(none)"),
    }
    texture = {OTHERS: _OF_OTHERS, WITHOUT: _OF_WITHOUT}.get(row.kind, number)
    return LegendEntry(names.get(row.kind, row.name), texture, row.total)


def _segments(
    series: Chart, entries: Sequence[LegendEntry], labels: Sequence[str], scale: _Scale
) -> Iterator[Segment]:
    """Yield the parts of each bar from the ground up; decrements, from the ground down."""
    pitch = _WIDTH / max(len(labels), 1)
    for place, label in enumerate(labels):
        ends = {True: 0, False: 0}
        for row, entry in zip(series.rows, entries, strict=True):
            amount = row.amounts[place]
            if amount:
                start = ends[amount > 0]
                ends[amount > 0] = end = start + amount
                yield Segment(
                    f"{pitch * (place + 0.1):.2f}",
                    scale.at(max(start, end)),
                    f"{pitch * 0.8:.2f}",
                    f"{abs(scale.height(start) - scale.height(end)):.2f}",
                    entry.texture,
                    f"{label}, {entry.name}: {grouped(amount)}",
                )


def _table(series: Chart, labels: Sequence[str]) -> list[tuple[str, list[int], int]]:
    """Return label, amounts, and their sum or the value; the latest period first."""
    last = series.totals if series.split else series.values
    amounts = zip(*(row.amounts for row in series.rows), strict=True)
    rows = [(a, list(b), c) for a, b, c in zip(labels, amounts, last, strict=True)]
    return rows[::-1]


# Lines in lists.


def recent(readings: Mapping[str, Reading], using: str | None) -> dict[str, SafeString]:
    """Return the lines of counters for the list, by key: their last 24 hours.

    Takes one query for each source of lines, whatever the number of counters.
    """
    return {key: _line(key, values) for key, values in recent_of(readings, using).items()}


recent.short_description = gettext_lazy("last 24 hours")  # type: ignore[attr-defined]


def _line(key: str, values: Sequence[int | None]) -> SafeString:
    known = [value for value in values if value is not None]
    if not known:
        return SafeString("")
    label = _("%(key)s in the last 24 hours: from %(first)s to %(last)s") % {
        "key": key,
        "first": grouped(known[0]),
        "last": grouped(known[-1]),
    }
    return sparkline(values, label)


def sparkline(values: Sequence[int | None], label: str) -> SafeString:
    """Return a small SVG line through numbers; it begins with the first known one.

    ``label`` is the text for screen readers. A single number has no line.
    """
    points = _dots(values)
    if len(points) < 2:
        return SafeString("")
    return format_html(
        '<svg class="counters-sparkline" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" '
        'focusable="false" aria-label="{2}"><title>{2}</title><polyline points="{3}"/></svg>',
        str(_LINE_WIDTH),
        str(_LINE_HEIGHT),
        label,
        " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
    )


def _dots(values: Sequence[int | None]) -> list[tuple[float, float]]:
    known = [value for value in values if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    # In the middle if all values are the same.
    base, height = (_LINE_HEIGHT / 2, 0) if low == high else (_EDGE, _LINE_HEIGHT - 2 * _EDGE)
    step = _LINE_WIDTH / max(len(values) - 1, 1)
    return [
        (number * step, base + height * (high - value) / max(high - low, 1))
        for number, value in enumerate(values)
        if value is not None
    ]


def recent_of(readings: Mapping[str, Reading], using: str | None) -> dict[str, _Line]:
    """Return the value before the last hours, that at the end of each, and the present value.

    Takes two queries for counters in the ledger (none if they have too many entries), one for each
    namespace that is counted by the hour, and one for recorded totals. Leaves out other counters.
    """
    since = clock.utc().replace(minute=0, second=0, microsecond=0) - (HOURS - 1) * _HOUR
    counted = [key for key in readings if _is_counted(key)]
    others = {key: registry.policy(key) for key in readings if not _is_counted(key)}
    entered = [key for key, policy in others.items() if policy.recipe.can.entries]
    recorded = [key for key, policy in others.items() if recorded_period(policy.options) == "hour"]
    changes = _changes(entered, since, using) if entered else None
    hours = [since + number * _HOUR for number in range(HOURS)]
    samples = totals_at(recorded, hours, using, {}) if recorded else {}
    lines: dict[str, _Line] = {
        key: [*line, readings[key].value]
        for key, line in samples.items()
        if any(total is not None for total in line)
    }
    for key, found in _counted(counted, using):
        lines[key] = _from_changes(readings[key].value, found)
    if changes is not None:
        for key in entered:
            lines[key] = _from_changes(readings[key].value, changes.get(key, {}))
    return lines


def _is_counted(key: str) -> bool:
    measure = registry.policy(key).measure
    return measure is not None and not {"minute", "hour"}.isdisjoint(measure.declared("per"))


def _counted(keys: Sequence[str], using: str | None) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield the count of each hour by its number. Leaves out invalid keys."""
    groups: dict[object, list[str]] = {}
    for key in keys:
        if why_no_key(key) is None:
            groups.setdefault(registry.policy(key).measure, []).append(key)
    for group in groups.values():
        series = of(group).using(using).per("hour").last(HOURS)
        for key, points in series.each().items():
            yield key, {number: point.value for number, point in enumerate(points, 1)}


def _changes(
    keys: Sequence[str], since: datetime, using: str | None
) -> dict[str, dict[int, int]] | None:
    """Return the sums of entries, by key and number of the hour; None if there are too many."""
    entries = CounterDelta._base_manager.using(using).filter(
        key__in=keys, created_at__gte=clock.shown(since)
    )
    if entries.order_by()[: MOST_ENTRIES + 1].count() > MOST_ENTRIES:
        return None
    hourly = entries.annotate(hour=TruncHour("created_at", tzinfo=UTC)).order_by()
    rows = hourly.values_list("key", "hour").annotate(change=Sum("delta"))
    found: dict[str, dict[int, int]] = {}
    for key, moment, number in rows:
        # The time of a token may be a little ahead.
        hour = min((clock.meant(moment) - since) // _HOUR + 1, HOURS)
        hours = found.setdefault(key, {})
        hours[hour] = hours.get(hour, 0) + int(number)
    return found


def _from_changes(value: int, changes: Mapping[int, int]) -> _Line:
    """Return the values, counted back from the present one."""
    line: _Line = [value]
    for hour in range(HOURS, 0, -1):
        value -= changes.get(hour, 0)
        line.append(value)
    return line[::-1]


class Sparkline(LineColumn):
    """A column of a `CounterFieldsAdmin`: the counts of a field in each of the last days.

    ``list_display = ["title", "views", Sparkline("views")]``, where the field is counted by day
    (``per=["day"]``). It takes one query for the page.

    Args:
        name: the field.
        days: how many days, today included.
    """

    def __init__(self, name: str, days: int = 30) -> None:
        self.name, self.days = name, days
        # The admin asks columns for these two.
        self.__name__ = f"{name}_line"
        says = gettext_lazy("{name}, last {days} days")
        self.short_description = format_lazy(says, name=name, days=days)

    def __call__(self, record: Any) -> SafeString:
        """The line of a record of the page."""
        lines: dict[object, SafeString] = vars(record).get("_counter_lines", {})
        return lines.get(self, SafeString(""))

    def check(self, page: type[Any], model: type[models.Model]) -> list[CheckMessage]:
        """Return E045 if the page would fail."""
        column = f"{model._meta.label}: Sparkline({self.name!r})"
        field = {one.name: one for one in counter_fields(model)}.get(self.name)
        if field is None:
            problem = f"{column} names no counter field of the model."
        elif field.measure is None or not set(_WITHIN_A_DAY) & set(field.measure.declared("per")):
            problem = f"{column} needs a field that is counted by day."
        else:
            return []
        return [Error(problem, hint=HINTS["E045"], obj=page, id="counters.E045")]

    def load(self, field: CounterField, records: Sequence[Any]) -> None:
        """Read the lines of a page's records."""
        days = of(getattr(type(records[0]), field.name), records).per("day")
        try:
            points = days.last(self.days).each()
        except HistoryNotKept as error:
            # The line begins with a day that is whole; there may be none yet. Days may be longer.
            whole = (clock.utc() - error.since - timedelta(hours=2)).days
            points = days.last(whole).each() if whole > 0 else {}
        for record in records:
            counted = [point.value for point in points.get(record.pk, ())]
            label = f"{self.short_description}: {number_format(sum(counted))}"
            vars(record).setdefault("_counter_lines", {})[self] = sparkline(counted, label)
