"""Pages that show and cannot be typed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    _Paginator = Paginator

# How many rows a list counts, and pages through; who looks for others searches or filters.
MOST = 100_000


class BoundedPaginator(_Paginator):
    """Counts no further than ``most``, so that a page of a very large table opens at once."""

    most = MOST

    @cached_property
    def count(self) -> int:
        """How many there are, or `most`."""
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
    """Shows a model to whoever may view it. Nothing is added, changed or deleted by anybody.

    To narrow down what somebody sees, override ``get_queryset``.
    """

    actions = None
    paginator = BoundedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False

    class Media:
        css = {"all": ("django_counters/admin.css",)}

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody deletes."""
        return False


def linked(site: admin.AdminSite, model: type[Model], key: int | str, text: str) -> str:
    """A link to the page of a row; the text alone where the site does not have that model."""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
    try:
        url = reverse(name, args=(quote(key),), current_app=site.name)
    except NoReverseMatch:
        return text
    return format_html('<a href="{}">{}</a>', url, text)
