"""Pages that only show, and the addresses of pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

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

    def condition(self, choice: str) -> Q:
        """The condition of one choice."""
        raise NotImplementedError

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
