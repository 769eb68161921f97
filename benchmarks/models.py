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


class FixedShard(models.Model):
    """One of a fixed number of rows that a counter is spread over."""

    key = models.CharField(max_length=200, db_collation="C")  # as the library's keys
    shard = models.PositiveSmallIntegerField()
    value = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[FixedShard]] = models.Manager()

    class Meta:
        app_label = "benchmarks"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["key", "shard"], name="benchmarks_fixed_shard")
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.shard}"


# The same columns and indexes as the tables of django-hitcount 1.3.5. Only what leads out of
# them is a number and no foreign key, so that deleting a user or a type asks nothing here.


class VisitCount(models.Model):
    """How often a record was visited."""

    visits = models.PositiveIntegerField(default=0)
    modified = models.DateTimeField(auto_now=True)
    record_type = models.IntegerField(db_index=True)
    record = models.PositiveIntegerField()

    objects: ClassVar[models.Manager[VisitCount]] = models.Manager()

    class Meta:
        app_label = "benchmarks"
        ordering: ClassVar = ["-visits"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["record_type", "record"], name="benchmarks_visits_of_record"
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_type} {self.record}"


class Visit(models.Model):
    """One visitor who was counted."""

    created = models.DateTimeField(auto_now_add=True, db_index=True)
    address = models.CharField(max_length=40, db_index=True)
    session = models.CharField(max_length=40, db_index=True)
    agent = models.CharField(max_length=255)
    user_number = models.IntegerField(null=True, db_index=True)
    visit_count = models.ForeignKey(VisitCount, on_delete=models.CASCADE)

    objects: ClassVar[models.Manager[Visit]] = models.Manager()

    class Meta:
        app_label = "benchmarks"
        ordering: ClassVar = ["-created"]

    def __str__(self) -> str:
        return self.session


class BlockedAddress(models.Model):
    """Visitors from here are not counted."""

    address = models.CharField(max_length=40, unique=True)

    objects: ClassVar[models.Manager[BlockedAddress]] = models.Manager()

    class Meta:
        app_label = "benchmarks"

    def __str__(self) -> str:
        return self.address


class BlockedAgent(models.Model):
    """Visitors with this browser are not counted."""

    agent = models.CharField(max_length=255, unique=True)

    objects: ClassVar[models.Manager[BlockedAgent]] = models.Manager()

    class Meta:
        app_label = "benchmarks"

    def __str__(self) -> str:
        return self.agent
