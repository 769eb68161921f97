"""What is read and liked. These tables are made before those of users: nothing refers to them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from django_counters import CounterField, CounterQuerySet, IntegerCounterField


class Post(models.Model):
    title = models.CharField(max_length=100)
    published = models.BooleanField(default=True)
    likers = models.ManyToManyField(
        settings.AUTH_USER_MODEL, related_name="liked", db_constraint=False
    )
    views = CounterField(strategy="cached", timeout=10)
    likes = CounterField(strategy="slotted")
    downloads = IntegerCounterField(
        per=["hour", "day"], keep={"hour": 35}, unique=["day"], top=["day", "week"]
    )

    objects = CounterQuerySet["Post"].as_manager()


class Like(models.Model):
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_constraint=False
    )
    post = models.ForeignKey(Post, models.CASCADE, related_name="+")


class Repo(models.Model):
    name = models.CharField(max_length=100)
