"""Shows the counter fields of a project's own models in its admin, with links to adjust them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.checks import CheckMessage
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_counters import errors, features
from django_counters.adjustments.admin import adjust_url, panels
from django_counters.admin.readonly import filled
from django_counters.fields import CounterField, counter_fields
from django_counters.templatetags.counters_admin import grouped
from django_counters.write.changes import Ref
from django_counters.write.records import of_record

# Columns and filters of lists.

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


class LineColumn:
    """A column of a `CounterFieldsAdmin` that reads its contents once for a page of records."""

    #: The name of its field.
    name: str

    def __call__(self, record: Any) -> str:
        """Return the content for a record of the page."""
        raise NotImplementedError

    def check(self, page: type[Any], model: type[models.Model]) -> list[CheckMessage]:  # noqa: ARG002
        """Return what is wrong with the column on this page."""
        return []

    def load(self, field: CounterField, records: Sequence[Any]) -> None:
        """Read the contents for the records of a page: at least one."""
        raise NotImplementedError


# The `ModelAdmin` of models with counter fields.


if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class AdjustLink(NamedTuple):
    """A link to adjust a counter of a record."""

    name: str
    url: str


class CounterFieldsAdmin(_ModelAdmin):
    """A `ModelAdmin` whose counter fields are exact and read-only, with links to adjust them.

    The list and the page show exact values, not the columns. That takes one more query, or round
    trip to Redis, for each counter field. If Redis is away, they show the columns and say so. Lists
    are sorted and filtered by the columns.

    The links are beside "History", for users who may adjust. A field whose value is how many actors
    there are has none, for it cannot be adjusted; nor has one with decimal places. Other apps add
    sections below the form of a record. A ``change_form_template`` of your own has to extend
    ``admin/django_counters/fields_change_form.html``.
    """

    change_form_template = "admin/django_counters/fields_change_form.html"

    class Media:
        css = {"all": ("django_counters/sparkline.css",)}

    def check(self, **given: Any) -> list[CheckMessage]:
        """Also report columns of apps that the page can't show."""
        lines = (column for column in self.list_display if isinstance(column, LineColumn))
        problems = (one for line in lines for one in line.check(type(self), self.model))
        return [*super().check(**given), *problems]

    def get_changelist(self, request: HttpRequest, **_given: Any) -> type[ChangeList]:  # noqa: ARG002
        """A list of exact values."""
        return ExactList

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """The record with exact values."""
        record = super().get_object(request, object_id, from_field)
        if record is not None:
            complete(request, self.model, [record])
        return record

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Adds the counters."""
        given = super().get_readonly_fields(request, obj)
        return (*given, *(name for name in _counters(self.opts) if name not in given))

    def render_change_form(
        self,
        request: HttpRequest,
        context: Any,
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        """Adds the links, and the sections of other apps."""
        context["adjust_links"] = self.adjust_links(request, obj) if obj is not None else []
        adjusts, site = _may_adjust(request), self.admin_site
        counters = [
            features.OnPage(ref.owner, ref.text, ref.using, site, adjusts, field, name)
            for field, name, ref in (_places(self, obj) if obj is not None else ())
        ]
        context["panels"] = filled(request, panels(), counters)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def adjust_links(self, request: HttpRequest, record: Any) -> list[AdjustLink]:
        """The links for one record and this user."""
        if not _may_adjust(request):
            return []
        links = [
            AdjustLink(name, adjust_url(self.admin_site, field, ref.text, ref.measure))
            for field, name, ref in _places(self, record)
        ]
        return [link for link in links if link.url]


class ExactList(ChangeList):
    """Completes the records of its page in place: editable lists need a queryset."""

    def get_results(self, request: HttpRequest) -> None:
        """The records of the page."""
        super().get_results(request)
        records = list(self.result_list)
        complete(request, self.model, records)
        fields = {field.name: field for field in counter_fields(self.model)}
        for column in self.list_display:
            if records and isinstance(column, LineColumn):
                column.load(fields[column.name], records)


def complete(request: HttpRequest, model: type[models.Model], records: Sequence[Any]) -> None:
    """Load the exact values of a model's records. Warn the user if that is not possible.

    Records may be instances of children, each of another one.
    """
    for field in counter_fields(model) if records else ():
        try:
            field.load(records, None)
        except errors.CounterUnavailable:
            said = _("Redis cannot be reached. %(name)s is shown without what waits there.")
            messages.warning(request, said % {"name": field.verbose_name})


def _places(page: CounterFieldsAdmin, record: Any) -> Iterator[tuple[str, str, Ref]]:
    """The counters of a record: how forms name them, and what people call them."""
    for name in _counters(page.opts):
        field: Any = page.opts.get_field(name)
        if not field.is_whole:
            # The forms are of integers: 5 would be 0.05.
            continue
        with suppress(errors.CounterError):
            # The model of this page decides who may see the record.
            yield f"{page.opts.label}.{name}", str(field.verbose_name), of_record(record, name)


def _may_adjust(request: HttpRequest) -> bool:
    return request.user.has_perm("django_counters.adjust_counter")


def _counters(opts: Any) -> list[str]:
    return [field.name for field in counter_fields(opts.model)]
