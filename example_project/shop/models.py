"""Products and what was bought of them."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.urls import reverse

from django_counters import CounterField, CounterQuerySet


class Product(models.Model):
    """Something to buy, for as long as there is stock."""

    name = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)
    blurb = models.CharField(max_length=200, blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    # To adjust it by more needs two people: see the admin.
    stock = CounterField(floor=0, approve_above=100)

    objects = CounterQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        """The page of the product."""
        return reverse("product", args=[self.pk])


class HotItem(models.Model):
    """Something that many want at once: one stock in a counter, and the same in a plain column."""

    stock = CounterField(floor=0)
    naive_stock = models.PositiveIntegerField()

    objects = CounterQuerySet.as_manager()

    def __str__(self) -> str:
        return f"hot item {self.pk}"


class Order(models.Model):
    """One purchase. It exists if and only if its quantity was taken from the stock.

    Attributes:
        number: what the buyer calls it, and its token in the ledger. None: of an older version.
    """

    number = models.UUIDField(unique=True, null=True, editable=False)

    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="orders")
    quantity = models.PositiveIntegerField(validators=[MinValueValidator(1)])
    buyer = models.CharField(max_length=80)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.quantity} of product {self.product_id} for {self.buyer}"
