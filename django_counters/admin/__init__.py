"""The counters in Django's admin, which discovers this module."""

from __future__ import annotations

from django.contrib import admin

from django_counters.adjustments.admin import (
    AdjustingMixin,
    AdjustmentAdmin,
    RequestAdmin,
    form_url,
)
from django_counters.admin.counters import CounterAdmin
from django_counters.admin.fields import CounterFieldsAdmin, CounterFilter, LineColumn
from django_counters.admin.readonly import IncidentAdmin
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment, CounterIncident

__all__ = [
    "AdjustingMixin",
    "AdjustmentAdmin",
    "CounterAdmin",
    "CounterFieldsAdmin",
    "CounterFilter",
    "IncidentAdmin",
    "LineColumn",
    "RequestAdmin",
    "form_url",
]

admin.site.register(AdjustmentRequest, RequestAdmin)
admin.site.register(Counter, CounterAdmin)
admin.site.register(CounterAdjustment, AdjustmentAdmin)
admin.site.register(CounterIncident, IncidentAdmin)
