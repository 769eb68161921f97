"""The rows of the app, and a model that has some."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from django_counters.fields import CounterField
from django_counters.measure import Kind
from django_counters.tables.schema import OfCounter
from tests.extension.weekdays.apps import WEEKDAY


class Weekday(OfCounter):
    """How often a counter was changed on a day of the week."""

    of_kind: ClassVar[Kind | None] = WEEKDAY
    pk = models.CompositePrimaryKey("measure_id", "key", "weekday", "shard")
    weekday = models.SmallIntegerField()
    shard = models.SmallIntegerField()
    value = models.BigIntegerField()


class Cafe(models.Model):
    """A record whose counter has such rows."""

    guests = CounterField(weekdays=True)
