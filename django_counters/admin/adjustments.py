"""Adjustments in the admin: who adjusted what, and why."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_counters.admin.export import ExportAdmin
from django_counters.admin.readonly import ChoiceFilter, linked
from django_counters.models import Counter, CounterAdjustment
from django_counters.templatetags.counters_admin import grouped, signed


class PeopleFilter(ChoiceFilter):
    """Whether a second person has approved it."""

    title = _("approval")
    parameter_name = "approved"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """With and without."""
        return [("yes", _("approved")), ("no", _("by one person"))]

    def condition(self, choice: str) -> Q:
        """An adjustment without approval has no name of an approver."""
        return ~Q(approver_name="") if choice == "yes" else Q(approver_name="")


class SubjectFilter(ChoiceFilter):
    """Named counters, or those of records."""

    title = _("counter")
    parameter_name = "of"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """Both kinds."""
        return [("names", _("named counters")), ("records", _("counters of records"))]

    def condition(self, choice: str) -> Q:
        """A named counter has no field."""
        return Q(field="") if choice == "names" else ~Q(field="")


class AdjustmentAdmin(ExportAdmin):
    """Adjustments, the latest first."""

    list_display = (*("number", "counter", "changed", "reason", "people", "created_at"),)
    list_filter = (SubjectFilter, PeopleFilter, "created_at")
    ordering = ("-number",)
    search_fields = ("key", "reason", "case", "actor_name", "approver_name", "request_id")
    search_help_text = _("A part of the key, the reason, the case, a name or the request id")
    sortable_by = ("number",)
    readonly_fields = fields = (
        *("number", "counter", "changed", "reason", "case"),
        *("actor_name", "actor_id", "approver_name", "approver_id"),
        *("request_id", "entry", "created_at", "digest"),
    )
    export_columns = tuple(field.name for field in CounterAdjustment._meta.concrete_fields)

    @admin.display(description=_("change"))
    def changed(self, adjustment: Any) -> str:
        """The change, the value before and the value after."""
        numbers = map(grouped, (adjustment.before, adjustment.after))
        return format_html(
            '{} <span class="counters-fromto"><span>{} →</span> <span>{}</span></span>',
            signed(adjustment.delta),
            *numbers,
        )

    @admin.display(description=_("adjusted by"))
    def people(self, adjustment: Any) -> str:
        """Who adjusted it, and who approved."""
        if not adjustment.approver_name:
            return str(adjustment.actor_name)
        told = (adjustment.actor_name, gettext("approved by"), adjustment.approver_name)
        return format_html('{} <span class="counters-landed">({} {})</span>', *told)

    @admin.display(description=_("counter"))
    def counter(self, adjustment: Any) -> str:
        """The adjusted counter; a named one with a link to its page."""
        if adjustment.field:
            return str(adjustment.subject)
        return linked(self.admin_site, Counter, adjustment.key, adjustment.key)
