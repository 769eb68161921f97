"""One model for each way in which a field can come to a table."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from django_counters import CounterField, CounterQuerySet, IntegerCounterField


class Post(models.Model):
    title = models.CharField(max_length=100, default="", blank=True)
    views = CounterField()
    likes = CounterField(default=0, db_column="number_of_likes")

    objects = CounterQuerySet["Post"].as_manager()


class Product(models.Model):
    name = models.CharField(max_length=100, default="")
    stock = CounterField(strategy="exact", floor=0, ceiling=1000)


class Device(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    events = CounterField()


class Small(models.Model):
    hits = IntegerCounterField()


class DatabaseDefault(models.Model):
    hits = CounterField(db_default=7)


class Counted(models.Model):
    hits = CounterField()

    class Meta:
        abstract = True


class Page(Counted):
    title = models.CharField(max_length=100, default="")


class NewsPage(Page):
    shares = CounterField()


class ProxyPage(Page):
    class Meta:
        proxy = True


class Derived(models.Model):
    hits = CounterField()
    doubled = models.GeneratedField(
        expression=models.F("hits") * 2, output_field=models.BigIntegerField(), db_persist=True
    )

    objects: ClassVar[models.Manager[Derived]] = models.Manager()
