"""Tables to compare with. They have no migrations: the runner makes them in its database."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from django_counters.fields import CounterField


class NaiveCounter(models.Model):
    """A counter as one writes it without a library."""

    key = models.CharField(max_length=200, unique=True)
    value = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[NaiveCounter]] = models.Manager()

    class Meta:
        app_label = "benchmarks"

    def __str__(self) -> str:
        return self.key


class Post(models.Model):
    """A record that counts its views in a column, and its likes in slots."""

    title = models.CharField(max_length=200)
    views = CounterField()
    likes = CounterField(strategy="slotted")

    objects: ClassVar[models.Manager[Post]] = models.Manager()

    class Meta:
        app_label = "benchmarks"

    def __str__(self) -> str:
        return self.title
