"""Lists as CSV, page by page, so that a long one takes no more memory than a short one."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import DataError
from django.db.models import QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import URLPattern, path, reverse

from django_counters.admin.readonly import ReadOnlyAdmin

_PAGE = 1000
# What a spreadsheet takes for the beginning of a formula; the wide ones where Japanese is written.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001


class ExportAdmin(ReadOnlyAdmin):
    """A list with a link that exports it as CSV, as it is searched and filtered."""

    #: The names of the columns, as they stand in the first line.
    export_columns: ClassVar[Sequence[str]] = ()

    def export_rows(self, page: Sequence[Any], using: str | None) -> Iterable[Sequence[Any]]:  # noqa: ARG002
        """The rows of some objects: what `export_columns` names, of each of them."""
        return ([getattr(each, name) for name in self.export_columns] for each in page)

    def get_urls(self) -> list[URLPattern]:
        """With that of the export."""
        view = self.admin_site.admin_view(self.export_view)
        return [path("export/", view, name=f"{_named(self)}_export"), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, with the address of its export."""
        context = {"export_url": _address(self, "export"), **(extra_context or {})}
        try:
            return super().changelist_view(request, context)
        except DataError:
            return self._wrong_lookup()

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """All that the list would show on its pages."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except (IncorrectLookupParameters, DataError):
            return self._wrong_lookup()
        response = StreamingHttpResponse(
            lines(self.export_columns, self._exported(rows)), content_type="text/csv; charset=utf-8"
        )
        name = f"{self.opts.model_name}s.csv"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def _wrong_lookup(self) -> HttpResponse:
        """As Django answers what it cannot look up; some of it, such as ``(`` for a regular
        expression, the database alone can tell."""
        return HttpResponseRedirect(f"{_address(self, 'changelist')}?e=1")

    def _exported(self, rows: Any) -> Iterator[Sequence[Any]]:
        for page in pages(rows):
            yield from self.export_rows(page, rows._db)


def _named(admin: ReadOnlyAdmin) -> str:
    """What the names of its addresses begin with."""
    return f"{admin.opts.app_label}_{admin.opts.model_name}"


def _address(admin: ReadOnlyAdmin, page: str) -> str:
    return reverse(f"admin:{_named(admin)}_{page}", current_app=admin.admin_site.name)


def pages(rows: QuerySet[Any], size: int = _PAGE) -> Iterator[list[Any]]:
    """All rows in the order of their primary key, a page at a time, each found by where it begins.

    What is added or taken away meanwhile makes none come twice, and none be left out.
    """
    ordered = rows.order_by("pk")
    page = list(ordered[:size])
    while page:
        yield page
        page = list(ordered.filter(pk__gt=page[-1].pk)[:size]) if len(page) == size else []


def lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a CSV: the names of the columns, then the rows."""
    # Texts are quoted: a spreadsheet that separates by another character finds none in them.
    write: Callable[[Iterable[Any]], Any] = csv.writer(
        _Echo(), quoting=csv.QUOTE_NONNUMERIC
    ).writerow
    yield write(columns)
    for row in rows:
        yield write(map(cell, row))


def cell(content: object) -> object:
    """What stands in a cell: integers as they are, texts so that none is taken for a formula."""
    if isinstance(content, int) and not isinstance(content, bool):
        return content
    if isinstance(content, datetime):
        return content.isoformat()
    text = "" if content is None else str(content)
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


class _Echo:
    """Where a CSV writer writes to, who gives back what it is given."""

    def write(self, line: str) -> str:
        return line
