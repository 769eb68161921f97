"""The list of named counters in the admin, and its filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_counters.admin.export import ExportAdmin
from django_counters.admin.listing import CounterList
from django_counters.admin.page import CounterPageMixin
from django_counters.admin.readonly import ChoiceFilter
from django_counters.conf import DEFAULT
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.templatetags.counters_admin import grouped
from django_counters.types import key_range

# No namespace has a colon in its name.
OTHER = ":other"


class NamespaceFilter(ChoiceFilter):
    """The declared namespaces, and all others as one. The condition uses the primary key."""

    title = _("namespace")
    parameter_name = "namespace"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The declared namespaces, if there are some."""
        names = declared()
        return [*((name, name) for name in names), (OTHER, _("(other)"))] if names else []

    def condition(self, choice: str) -> Q:
        """The range of keys of a namespace, or all keys in none of them."""
        return others() if choice == OTHER else within([choice])


class StrategyFilter(ChoiceFilter):
    """The strategies of the declared namespaces."""

    title = _("strategy")
    parameter_name = "strategy"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The strategies in use, if there are several."""
        policies = registry.policies().values()
        names = sorted({policy.recipe.strategy for policy in policies})
        return [(name, name) for name in names] if len(names) > 1 else []

    def condition(self, choice: str) -> Q:
        """The namespaces of a strategy, and all others if it is the default."""
        policies = registry.policies()
        found = [name for name in declared() if policies[name].recipe.strategy == choice]
        if policies[DEFAULT].recipe.strategy == choice:
            return within(found) | others() if found else others()
        return within(found)


def declared() -> list[str]:
    """The declared namespaces, sorted by name."""
    return sorted(name for name in registry.policies() if name != DEFAULT)


def within(names: Iterable[str]) -> Q:
    """The keys of these namespaces."""
    ranges = Q()
    for name in names:
        low, high = key_range(name)
        ranges |= Q(key__gte=low, key__lt=high)
    return ranges


def others() -> Q:
    """The keys of no declared namespace."""
    names = declared()
    return ~within(names) if names else Q()


class CounterAdmin(CounterPageMixin, ExportAdmin):
    """The list of counters with their exact values.

    The order is that of the keys, so a namespace stands together. A list that is not too long can
    be sorted by value, too: by the total, which is in the row. The pending amount is in other
    tables, and in Redis.
    """

    list_display = ("key", "exact_value", "strategy", "last_change", "recent")
    list_filter = (NamespaceFilter, StrategyFilter)
    ordering = ("key",)
    search_fields = ("key",)
    search_help_text = _("A part of the key")
    sortable_by = ("key", "exact_value")
    export_columns = (
        *("key", "value", "total", "pending"),
        *("strategy", "consistency", "total_changed_at"),
    )

    def get_changelist(self, request: HttpRequest, **_given: Any) -> type[ChangeList]:  # noqa: ARG002
        """The list that completes its rows by exact values."""
        return CounterList

    @admin.display(description=_("value"), ordering="value")
    def exact_value(self, counter: Any) -> str:
        """The exact value, or the landed part of it if Redis is away; below it what is pending."""
        reading = counter.reading
        parts = [(reading.consistency != "exact", "landed", f"({gettext('landed')})")]
        pending = gettext("%(amount)s pending") % {"amount": grouped(reading.pending)}
        parts.append((reading.pending != 0, "fromto", pending))
        notes = [(name, text) for is_shown, name, text in parts if is_shown]
        told = format_html_join("", ' <span class="counters-{}">{}</span>', notes)
        return format_html("{}{}", grouped(reading.value), told)

    @admin.display(description=_("strategy"))
    def strategy(self, counter: Any) -> str:
        """The strategy of its namespace."""
        return registry.policy(counter.key).recipe.strategy

    @admin.display(description=_("last change"))
    def last_change(self, counter: Any) -> Any:
        """The time of the last change of the total."""
        return counter.updated_at

    @admin.display(description=_("last 24 hours"), empty_value="–")  # noqa: RUF001
    def recent(self, counter: Any) -> str | None:
        """A line, if there is a ledger or a recorded history."""
        return counter.line or None

    def export_rows(self, page: Sequence[Any], using: str | None) -> Iterable[Sequence[Any]]:
        """The columns of counters, with their exact values."""
        readings = readings_of([counter.key for counter in page], using)
        for counter in page:
            reading = readings[counter.key]
            amounts = (reading.value, reading.total, reading.pending)
            known = (self.strategy(counter), reading.consistency, counter.updated_at)
            yield (counter.key, *amounts, *known)
