"""Exports lists as CSV, page by page: a long list takes no more memory than a short one."""

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
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_safe

from django_counters.admin.readonly import ReadOnlyAdmin, address, named

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
