"""Tables to compare with. They have no migrations: the runner makes them in its database."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from django_counters.fields import CounterField


class Table(models.Model):
    """What all of them have."""

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "benchmarks"

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.pk}"


class NaiveCounter(Table):
    """A counter as one writes it without a library."""

    key = models.CharField(max_length=200, unique=True)
    value = models.BigIntegerField(default=0)


class Post(Table):
    """A record that counts its views in a column, and its likes in slots."""

    title = models.CharField(max_length=200)
    views = CounterField()
    likes = CounterField(strategy="slotted")


class Event(Table):
    """A row for each event, as one counts by day without a library."""

    key = models.CharField(max_length=200, db_collation="C")
    country = models.CharField(max_length=60)
    created = models.DateTimeField()

    class Meta(Table.Meta):
        abstract = False
        indexes: ClassVar = [models.Index(fields=["key", "created"], name="benchmarks_events_of")]


class Visited(Table):
    """A row for each visit, as one counts visitors without a library."""

    key = models.CharField(max_length=200, db_collation="C")
    visitor = models.CharField(max_length=64, db_collation="C")
    created = models.DateTimeField()

    class Meta(Table.Meta):
        abstract = False
        indexes: ClassVar = [models.Index(fields=["key", "created"], name="benchmarks_visits_by")]


class Liked(Table):
    """Who likes what, as one writes it without a library."""

    key = models.CharField(max_length=200, db_collation="C")
    actor = models.CharField(max_length=64, db_collation="C")
    created = models.DateTimeField(auto_now_add=True)

    class Meta(Table.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["key", "actor"], name="benchmarks_liked_once")
        ]


class Reserved(Table):
    """What is reserved, as one writes it without a library."""

    key = models.CharField(max_length=200, db_collation="C")
    quantity = models.BigIntegerField()
    created = models.DateTimeField(auto_now_add=True)


class DaySketch(Table):
    """A sketch of the visitors of a day."""

    key = models.CharField(max_length=200, db_collation="C")
    day = models.DateTimeField()
    kind = models.CharField(max_length=1)
    body = models.BinaryField()
