"""The shop in the admin: the stock is shown, and is adjusted with a reason, not typed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from django_counters.admin import CounterFieldsAdmin
from example_project.shop.models import Order, Product

if TYPE_CHECKING:
    OrderAdminBase = admin.ModelAdmin[Order]
else:
    OrderAdminBase = admin.ModelAdmin


@admin.register(Product)
class ProductAdmin(CounterFieldsAdmin):
    """Products."""

    list_display = ("name", "price", "stock")
    prepopulated_fields = {"slug": ("name",)}


@admin.register(Order)
class OrderAdmin(OrderAdminBase):
    """Orders, to look at: their quantities are what was taken from the stock."""

    list_display = ("product", "quantity", "buyer", "created_at")
    list_select_related = ("product",)
    date_hierarchy = "created_at"

    def has_add_permission(self, *_: object) -> bool:
        """Nobody: an order is made by buying."""
        return False

    def has_change_permission(self, *_: object) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, *_: object) -> bool:
        """Nobody."""
        return False
