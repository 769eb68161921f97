"""Plain columns, as a project has them that counts by hand."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Page(models.Model):
    """Something to read, or to buy."""

    title = models.CharField(max_length=80, default="old")
    views = models.BigIntegerField(default=0)
    stock = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[Page]] = models.Manager()

    class Meta:
        # The app is not installed: these tables are there for a moment only.
        app_label = "demonstrations"

    def __str__(self) -> str:
        return self.title


class Change(models.Model):
    """A change that somebody else is to add up."""

    by = models.BigIntegerField()

    objects: ClassVar[models.Manager[Change]] = models.Manager()

    class Meta:
        app_label = "demonstrations"

    def __str__(self) -> str:
        return f"{self.by:+}"
