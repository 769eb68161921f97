"""The rows of the app, and a model whose counter has its option."""

from __future__ import annotations

from django.db import models

from django_counters.fields import CounterField


class Mood(models.Model):
    """What somebody has said about a counter."""

    owner = models.CharField(max_length=200, blank=True)
    key = models.CharField(max_length=200)
    text = models.CharField(max_length=20, blank=True)


class Voucher(models.Model):
    """A voucher that a counter has taken."""

    pk = models.CompositePrimaryKey("owner", "key", "code")
    owner = models.CharField(max_length=200, blank=True)
    key = models.CharField(max_length=200)
    code = models.CharField(max_length=64)
    used_at = models.DateTimeField()


class Party(models.Model):
    """A record with a counter that has a mood, and two that take vouchers."""

    guests = CounterField(mood="loud")
    drinks = CounterField(vouchers=True, ceiling=5)
    snacks = CounterField(vouchers=True, strategy="slotted")
