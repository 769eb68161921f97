"""Incidents in the admin: what somebody has to look at."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_counters.admin.readonly import ReadOnlyAdmin


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
        """All that was written down, in a form for people."""
        text = json.dumps(incident.detail, indent=2, ensure_ascii=False, sort_keys=True)
        return format_html('<pre class="counters-detail">{}</pre>', text)
