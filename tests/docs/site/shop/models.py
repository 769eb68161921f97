"""What is sold."""

from __future__ import annotations

from django.db import models

from django_counters import (
    CachedCounterField,
    CounterField,
    CounterQuerySet,
    DecimalCounterField,
    IntegerCounterField,
)


class Product(models.Model):
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=1)
    views = CounterField()
    likes = CounterField(strategy="slotted")
    plays = CachedCounterField(timeout=10)
    stock = CounterField(floor=0, approve_above=100)
    downloads = IntegerCounterField()

    objects = CounterQuerySet["Product"].as_manager()


class Order(models.Model):
    cents = models.BigIntegerField(default=1999)


class Account(models.Model):
    balance = DecimalCounterField(places=2, floor=0)

    objects = CounterQuerySet["Account"].as_manager()
