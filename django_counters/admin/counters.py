"""Named counters in the admin: found, looked at, and never typed over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from django_counters.admin.export import ExportAdmin
from django_counters.admin.filters import NamespaceFilter, StrategyFilter
from django_counters.admin.listing import CounterList
from django_counters.admin.page import CounterPageMixin
from django_counters.read.readings import readings_of
from django_counters.registry import registry


class CounterAdmin(CounterPageMixin, ExportAdmin):
    """The list of counters with their exact values.

    The order is that of the keys, so a namespace stands together. The value has no index, so nobody
    can sort by it.
    """

    list_display = ("key", "exact_value", "strategy", "pending", "last_change", "recent")
    list_filter = (NamespaceFilter, StrategyFilter)
    ordering = ("key",)
    search_fields = ("key",)
    search_help_text = _("A part of the key")
    sortable_by = ("key",)
    export_columns = (
        *("key", "value", "total", "pending"),
        *("strategy", "consistency", "total_changed_at"),
    )

    def get_changelist(self, request: HttpRequest, **_given: Any) -> type[ChangeList]:  # noqa: ARG002
        """The list that completes its rows."""
        return CounterList

    @admin.display(description=_("value"))
    def exact_value(self, counter: Any) -> str:
        """All that was counted, or all that has landed where Redis cannot be reached."""
        value = number_format(counter.reading.value)
        if counter.reading.consistency == "exact":
            return value
        return format_html('{} <span class="counters-landed">({})</span>', value, gettext("landed"))

    @admin.display(description=_("strategy"))
    def strategy(self, counter: Any) -> str:
        """That of its namespace."""
        return registry.policy(counter.key).recipe.strategy

    @admin.display(description=pgettext_lazy("of a counter", "pending"))
    def pending(self, counter: Any) -> int:
        """What of the value is not in the total."""
        return int(counter.reading.pending)

    @admin.display(description=_("last change"))
    def last_change(self, counter: Any) -> Any:
        """When the total changed."""
        return counter.updated_at

    @admin.display(description=_("last 24 hours"), empty_value="–")  # noqa: RUF001
    def recent(self, counter: Any) -> str | None:
        """A line, where there is a ledger or a recorded history."""
        return counter.line or None

    def export_rows(self, page: Sequence[Any], using: str | None) -> Iterable[Sequence[Any]]:
        """Counters with their exact values."""
        readings = readings_of([counter.key for counter in page], using)
        for counter in page:
            reading = readings[counter.key]
            amounts = (reading.value, reading.total, reading.pending)
            known = (self.strategy(counter), reading.consistency, counter.updated_at)
            yield (counter.key, *amounts, *known)
