"""The rows of the app, and a model whose counter has its option."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from django_counters.contrib.series.models import OfPeriod
from django_counters.contrib.series.options import TAGS_LENGTH
from django_counters.fields import CounterField
from django_counters.measure import Kind
from django_counters.tables.schema import KeyField
from tests.extension.streaks import STREAK, TAGGED


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


class Streak(OfPeriod):
    """How often a counter was changed in a period, by tags and shard."""

    of_kind: ClassVar[Kind] = STREAK
    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "shard")
    tags = KeyField(max_length=TAGS_LENGTH)
    shard = models.SmallIntegerField()
    value = models.BigIntegerField()


class Tagged(OfPeriod):
    """What a counter has counted in a period, by tags: the rows of a tag are neighbours."""

    of_kind: ClassVar[Kind] = TAGGED
    pk = models.CompositePrimaryKey("measure_id", "period", "start", "tags", "key")
    tags = KeyField(max_length=TAGS_LENGTH)
    value = models.BigIntegerField()


class Party(models.Model):
    """A record with counters that have a mood, take vouchers, and have rows of the app."""

    guests = CounterField(mood="loud")
    drinks = CounterField(vouchers=True, ceiling=5)
    snacks = CounterField(vouchers=True, strategy="slotted")
    dances = CounterField(streaks=["day"], tagged=["day"], tags={"song": 2})
