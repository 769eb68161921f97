"""The rows of the app, and a model whose counter has its option."""

from __future__ import annotations

from django.db import models

from django_counters.fields import CounterField


class Mood(models.Model):
    """What somebody has said about a counter."""

    owner = models.CharField(max_length=200, blank=True)
    key = models.CharField(max_length=200)
    text = models.CharField(max_length=20, blank=True)


class Party(models.Model):
    """A record with a counter that has a mood."""

    guests = CounterField(mood="loud")
