"""Changes, and their sum."""

from __future__ import annotations

from django.db import models


class Change(models.Model):
    by = models.BigIntegerField()


class Total(models.Model):
    value = models.BigIntegerField(default=0)
