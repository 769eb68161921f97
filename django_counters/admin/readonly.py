"""What the pages of the admin share: lists that only show, exports, permissions and messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.contrib.auth import get_permission_codename
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import DataError, models
from django.db.models import Model, Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.functional import Promise, cached_property
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from django_counters import errors
from django_counters.features import Panel, Section
from django_counters.models import Counter, SlottedCounter
from django_counters.templatetags.counters_admin import grouped
from django_counters.write import changes, records

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    _Paginator = Paginator

# Rows that a list counts and pages through; others are found by searching or filtering.
MOST = 100_000


class BoundedPaginator(_Paginator):
    """Counts no further than ``most``, so that a page of a very large table opens fast."""

    most = MOST

    @cached_property
    def count(self) -> int:
        """The number of rows, up to `most`."""
        return min(self._found, self.most)

    @property
    def is_cut(self) -> bool:
        """Whether there are more than `most`."""
        return self._found > self.most

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: self.most + 1].count())


class ReadOnlyAdmin(_ModelAdmin):
    """Shows a model. Adding, changing and deleting are off.

    Override ``get_queryset`` to hide rows from a user.
    """

    actions = None
    paginator = BoundedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False

    class Media:
        css = {"all": ("django_counters/admin.css", "django_counters/sparkline.css")}

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Adding is off."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Changing is off."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Deleting is off."""
        return False


class ChoiceFilter(admin.SimpleListFilter):
    """Filters by one of some choices. Refuses an address with another one."""

    #: The name of each choice for people, and its condition.
    choices_of: Mapping[str, tuple[Any, Q]] = MappingProxyType({})

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The choices."""
        return [(choice, name) for choice, (name, _condition) in self.choices_of.items()]

    def condition(self, choice: str) -> Q:
        """The condition of one choice."""
        return self.choices_of[choice][1]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """The rows of the choice."""
        choice = self.value()
        if choice is None:
            return queryset
        if choice not in dict(self.lookup_choices):
            raise IncorrectLookupParameters
        return queryset.filter(self.condition(choice))


class IncidentAdmin(ReadOnlyAdmin):
    """Incidents, the latest first."""

    list_display = ("found_at", "kind", "subject")
    list_filter = ("kind", "found_at")
    ordering = ("-found_at", "-pk")
    search_fields = ("subject",)
    sortable_by = ("found_at",)
    fields = readonly_fields = ("kind", "subject", "found_at", "findings")

    @admin.display(description=_("detail"))
    def findings(self, incident: Any) -> str:
        """The detail as indented JSON."""
        text = json.dumps(incident.detail, indent=2, ensure_ascii=False, sort_keys=True)
        return format_html('<pre class="counters-detail">{}</pre>', text)


def address(site: admin.AdminSite, name: str, *args: str) -> str:
    """The address of a page; empty if the site does not have it."""
    try:
        return reverse(f"admin:{name}", args=args, current_app=site.name)
    except NoReverseMatch:
        return ""


def named(model: type[Model], page: str) -> str:
    """The name of the address of a page of a model."""
    return f"{model._meta.app_label}_{model._meta.model_name}_{page}"


def row_url(site: admin.AdminSite, model: type[Model], key: int | str | UUID) -> str:
    """The page of a row; empty if the site does not have the model."""
    return address(site, named(model, "change"), quote(key))


def list_url(site: admin.AdminSite, request: HttpRequest, model: type[Model]) -> str:
    """The list of a model; empty for a user who may not see it."""
    if not site.is_registered(model):
        return ""
    if not site.get_model_admin(model).has_view_permission(request):
        return ""
    return address(site, named(model, "changelist"))


def linked(site: admin.AdminSite, model: type[Model], key: int | str, text: str) -> str:
    """A link to the page of a row; only the text if the site does not have the model."""
    url = row_url(site, model, key)
    return format_html('<a href="{}">{}</a>', url, text) if url else text


def filled(
    request: HttpRequest, present: Iterable[Panel | Section], subjects: Iterable[Any]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return template and context of each section that apps add for some subjects."""
    pairs = ((one, one.context(request, each)) for each in subjects for one in present)
    return [(one.template, context) for one, context in pairs if context is not None]


# Counters that a user may see.


class VisibleCounter(NamedTuple):
    """A counter that the user may see.

    Attributes:
        row: the row of a named counter, or the record.
        url: its page in the admin; empty if there is none.
    """

    subject: changes.Ref
    row: models.Model
    url: str


def seen(site: admin.AdminSite, request: HttpRequest, field: str, key: str) -> VisibleCounter:
    """The counter that two texts name, if the user may see it, and it has no decimal places.

    The `ModelAdmin` of the model that ``field`` names decides, by its permission to view and its
    ``get_queryset``. For a model without one, Django's permission to view it is enough.

    Raises:
        Http404: there is no such counter, or the user cannot see it.
        PermissionDenied: the user may not see the counters of the model, or not this one.
    """
    try:
        subject = records.ref_of(field, key)
    except errors.CounterError as error:
        raise Http404(str(error)) from error
    if not records.is_whole(subject):
        # The forms and pages here are of integers: 5 would be 0.05.
        raise Http404
    model = apps.get_model(field.rpartition(".")[0]) if field else Counter
    if not (subject.table.value or _is_counted(subject)):
        # A misspelt name would be a new counter.
        raise Http404
    row = _row(site, request, model, subject)
    return VisibleCounter(subject, row, row_url(site, model, row.pk))


def _is_counted(subject: changes.Ref) -> bool:
    """Whether a counter without a column has slots."""
    assert subject.model is not None
    name = subject.owner.rpartition(".")[2]
    slots = SlottedCounter._base_manager.using(subject.using)
    kinds = ContentType.objects.db_manager(subject.using)
    kind = kinds.get_for_model(subject.model)
    return slots.filter(record_type=kind, record_id=subject.text, name=name).exists()


def _row(
    site: admin.AdminSite, request: HttpRequest, model: type[models.Model], subject: changes.Ref
) -> models.Model:
    row: models.Model | None = visible(site, request, model).filter(**_where(subject)).first()
    if row is None:
        raise Http404
    if not _may_view(site, request, model, row):
        raise PermissionDenied
    return row


def visible(
    site: admin.AdminSite, request: HttpRequest, model: type[models.Model]
) -> models.QuerySet[Any]:
    """The rows of a model that the user may see.

    Raises:
        PermissionDenied: the user may see none.
    """
    if not _may_view(site, request, model, None):
        raise PermissionDenied
    if site.is_registered(model):
        return site.get_model_admin(model).get_queryset(request)
    return model._base_manager.all()


def is_gone(field: str, key: str) -> bool:
    """Whether the row or the model of a counter does not exist any more."""
    try:
        subject = records.ref_of(field, key)
    except errors.CounterError:
        return True
    rows = (subject.model or Counter)._base_manager.filter(**_where(subject))
    return not rows.exists()


def _where(subject: changes.Ref) -> dict[str, Any]:
    # An inherited counter is in the row of the parent, under the key of the parent.
    key_field: Any = subject.model and subject.model._meta.pk
    owner = key_field.name if key_field else "pk"
    return {owner: subject.key}


def _may_view(
    site: admin.AdminSite, request: HttpRequest, model: type[models.Model], row: models.Model | None
) -> bool:
    if site.is_registered(model):
        return bool(site.get_model_admin(model).has_view_permission(request, row))
    code = get_permission_codename("view", model._meta)
    return request.user.has_perm(f"{model._meta.app_label}.{code}")


# Exports as CSV, page by page: a long list takes no more memory than a short one.

_PAGE = 1000
# A spreadsheet takes a cell that begins so for a formula; the wide ones with Japanese input.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001


class ExportAdmin(ReadOnlyAdmin):
    """A list with a link to its export as CSV, which keeps the search and the filters."""

    #: The names of the columns, for the first line.
    export_columns: ClassVar[Sequence[str]] = ()

    def export_rows(self, page: Sequence[Any], using: str | None) -> Iterable[Sequence[Any]]:  # noqa: ARG002
        """The rows of some objects: the attributes that `export_columns` names."""
        return ([getattr(each, name) for name in self.export_columns] for each in page)

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the export."""
        view = self.admin_site.admin_view(self.export_view)
        return [path("export/", view, name=named(self.model, "export")), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with the address of its export."""
        url = address(self.admin_site, named(self.model, "export"))
        context = {"export_url": url, **(extra_context or {})}
        try:
            return super().changelist_view(request, context)
        except DataError:
            return self._wrong_lookup()

    @method_decorator(require_safe)
    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """All pages of the list as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except (IncorrectLookupParameters, DataError):
            return self._wrong_lookup()
        response = StreamingHttpResponse(
            lines(
                self.export_columns,
                (row for page in pages(rows) for row in self.export_rows(page, rows._db)),
            ),
            content_type="text/csv; charset=utf-8",
        )
        name = f"{self.opts.model_name}s.csv"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def _wrong_lookup(self) -> HttpResponse:
        """Answer as Django does. Only the database knows some of the wrong lookups, such as the
        regular expression ``(``."""
        url = address(self.admin_site, named(self.model, "changelist"))
        return HttpResponseRedirect(f"{url}?e=1")


def pages(rows: QuerySet[Any], size: int = _PAGE) -> Iterator[list[Any]]:
    """All rows in the order of their primary key, a page at a time.

    Each page begins behind the last key, so rows that are added or deleted meanwhile make none come
    twice and leave none out.
    """
    ordered = rows.order_by("pk")
    page = list(ordered[:size])
    while page:
        yield page
        page = list(ordered.filter(pk__gt=page[-1].pk)[:size]) if len(page) == size else []


def lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a CSV: the names of the columns, then the rows."""
    # Quoted, for spreadsheets that separate by another character.
    write: Callable[[Iterable[Any]], Any] = csv.writer(
        _Echo(), quoting=csv.QUOTE_NONNUMERIC
    ).writerow
    yield write(columns)
    for row in rows:
        yield write(map(cell, row))


def cell(content: object) -> object:
    """The content of a cell. A spreadsheet takes no text in it for a formula."""
    if isinstance(content, int) and not isinstance(content, bool):
        return content
    if isinstance(content, datetime):
        return content.isoformat()
    text = "" if content is None else str(content)
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


class _Echo:
    """A file for a CSV writer, which returns each line."""

    def write(self, line: str) -> str:
        return line


# Messages of errors for users, in their language.

_MEANWHILE = _("It was changed at the same time. Nothing was changed; try again.")
_SENT: dict[type[errors.CounterError], str | Promise] = {
    errors.ApprovalRequired: _(
        "A change by %(delta)s needs a second person: one alone may do up to %(limit)s."
    ),
    errors.CeilingExceeded: _("The value may not rise above its ceiling, %(ceiling)s."),
    errors.Contention: _MEANWHILE,
    errors.CounterOverflow: _("The value has to stay between %(low)s and %(high)s."),
    errors.CounterUnavailable: _(
        "The exact value cannot be told at present, because a database or Redis cannot be reached."
        " Nothing was changed."
    ),
    errors.FunctionDenied: _(
        "The database role of this site may not execute %(function)s(). Grant EXECUTE on it."
        " Nothing was changed."
    ),
    errors.InsufficientCount: _("The value may not fall below its floor, %(floor)s."),
    errors.LedgerFenced: _(
        "The ledger was restored elsewhere: run manage.py counters rebase first."
        " Nothing was changed."
    ),
    errors.LedgerIncomplete: _(
        "The ledger has %(found)s of %(expected)s entries in %(partition)s. Restore the others,"
        " then run manage.py counters rebase. Nothing was changed."
    ),
    errors.OutcomeUnknown: _(
        "The connection was lost before the answer. Send this form again: however often it is"
        " sent, it adjusts once."
    ),
    errors.PartitionMissing: _(
        "The ledger has no partition for today: run manage.py counters upkeep partitions first."
        " Nothing was changed."
    ),
    errors.QuotaExceeded: _("In this period %(available)s are left of the quota of %(ceiling)s."),
    errors.ReadOnlyDatabase: _("The database is read-only at present. Nothing was changed."),
    errors.RecordMissing: _("The record is not there any more."),
    errors.RequestDecided: _("%(decider)s has decided before. Nothing was changed."),
    errors.RetryTransaction: _MEANWHILE,
    errors.TokenConflict: _(
        "This form has been sent before, with another number. Look at the present value, and"
        " send it again if it is still meant."
    ),
    errors.TokenExpired: _("This form is too old. Look at the present value, and send it again."),
    errors.ValueChanged: _(
        "The value is %(current)s by now, not %(expected)s. Nothing was changed; look at the new"
        " numbers."
    ),
}


def said(error: errors.CounterError) -> str:
    """The message of an error for the user who sent a form."""
    for kind in type(error).__mro__:
        if kind in _SENT:
            return str(_SENT[kind]) % {name: _shown(part) for name, part in vars(error).items()}
    # Only a programming error leads here.
    return str(error)


def _shown(part: object) -> object:
    return grouped(part) if isinstance(part, int) else part
