"""An admin of its own, with models that have counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path

from django_counters.admin import AdjustmentAdmin, CounterAdmin, CounterFieldsAdmin, RequestAdmin
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from tests.testapp.models import Account, NewsPage, Note, Post, Product, Release, Song

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

HIDDEN = "hidden"


class NarrowAdmin(CounterFieldsAdmin):
    """Some records are not shown to anybody, some may not be viewed."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(title=HIDDEN)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_view_permission(request, obj)
        return allowed and (obj is None or obj.title != "private")


class NarrowCounters(CounterAdmin):
    """Some counters are not shown to anybody, some may not be viewed, some not be adjusted."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(key__startswith=HIDDEN)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_view_permission(request, obj)
        return allowed and (obj is None or obj.key != "private:a")

    def has_overview_permission(self, request: HttpRequest) -> bool:
        return False

    def has_adjust_permission(self, request: HttpRequest, counter: Any = None) -> bool:
        allowed = super().has_adjust_permission(request, counter)
        return allowed and (counter is None or counter.subject.text != "fixed:a")


site = admin.AdminSite(name="office")
site.register(AdjustmentRequest, RequestAdmin)
site.register(Counter, NarrowCounters)
site.register(CounterAdjustment, AdjustmentAdmin)
site.register(Post, NarrowAdmin)


class AccountAdmin(CounterFieldsAdmin):
    """Amounts in a list."""

    list_display = ("name", "balance")
    list_filter = ("balance",)


site.register(Account, AccountAdmin)
site.register([NewsPage, Note, Product, Release, Song], CounterFieldsAdmin)

urlpatterns = [path("office/", site.urls)]
