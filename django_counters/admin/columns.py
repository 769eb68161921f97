"""What lists of a project's own models can have: a filter by size, and a line of the last days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from django.contrib import admin
from django.db import models
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_counters import clock
from django_counters.admin.sparkline import sparkline
from django_counters.calendar import PERIODS
from django_counters.exceptions import HistoryNotKept
from django_counters.fields import CounterField, counter_fields
from django_counters.templatetags.counters_admin import grouped

# Those that tell a day: the day itself, and periods that are summed to days.
_WITHIN_A_DAY = PERIODS[: PERIODS.index("day") + 1]
_ENDS = (0, 1, *(10**zeros for zeros in range(1, 7)))


class CounterFilter(admin.FieldListFilter):
    """Filters a list by the size of a counter: ``list_filter = [("views", CounterFilter)]``.

    The choices are ranges, each ten times as large as the one before. They go by the column: the
    pending amount is not in it.
    """

    def __init__(
        self, field: Any, request: Any, params: Any, model: Any, model_admin: Any, field_path: str
    ) -> None:
        self._low, self._end = names = f"{field_path}__gte", f"{field_path}__lt"
        # A class above takes them out of it.
        self._given = {name: params[name][-1] for name in names if name in params}
        super().__init__(field, request, params, model, model_admin, field_path)

    def expected_parameters(self) -> list[str | None]:
        """Those of a range: where it begins, and before what it ends."""
        return [self._low, self._end]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """All, those below zero, and the ranges."""
        yield self._choice(changelist, {}, _("All"))
        yield self._choice(changelist, {self._end: "0"}, "< 0")
        for low, end in pairwise(_ENDS):
            name = grouped(low)
            if end - low > 1:
                name = f"{name} – {grouped(end - 1)}"  # noqa: RUF001
            yield self._choice(changelist, {self._low: str(low), self._end: str(end)}, name)
        yield self._choice(changelist, {self._low: str(_ENDS[-1])}, f"≥ {grouped(_ENDS[-1])}")

    def _choice(self, changelist: Any, asked: dict[str, str], name: str) -> dict[str, Any]:
        others = [one for one in self.expected_parameters() if one not in asked]
        query = changelist.get_query_string(asked, others)
        return {"selected": asked == self._given, "query_string": query, "display": name}


class Sparkline:
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

    def problems(self, model: type[models.Model]) -> Iterator[tuple[str, str]]:
        """Yield E045 if the page would fail."""
        column = f"{model._meta.label}: Sparkline({self.name!r})"
        field = {one.name: one for one in counter_fields(model)}.get(self.name)
        if field is None:
            yield "E045", f"{column} names no counter field of the model."
        elif field.measure is None or not set(_WITHIN_A_DAY) & set(field.measure.per):
            yield "E045", f"{column} needs a field that is counted by day."

    def load(self, field: CounterField, records: Sequence[Any]) -> None:
        """Let the records of a page know their lines."""
        days = getattr(type(records[0]), field.name).series.of(records).per("day")
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
