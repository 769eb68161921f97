"""Increments of named counters that wait for their rollup: a few rows each."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField
from django_counters.types import KEY_LENGTH


class ShardColumns(models.Model):
    """The columns of a `CounterShard`."""

    pk = models.CompositePrimaryKey("key", "shard")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    shard = models.SmallIntegerField(_("shard"))
    value = models.BigIntegerField(_("value"), default=0)

    class Meta:
        abstract = True
        verbose_name = _("counter shard")
        verbose_name_plural = _("counter shards")

    def __str__(self) -> str:
        return f"{self.key} [{self.shard}]"
