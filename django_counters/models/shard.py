"""Increments of named counters that wait for their rollup: a few rows each."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.models.counter import KeyField
from django_counters.types import KEY_LENGTH

if TYPE_CHECKING:
    from django_counters.managers import ShardManager


class CounterShard(models.Model):
    """A part of a named counter. Change it with the methods of ``CounterShard.objects``."""

    pk = models.CompositePrimaryKey("key", "shard")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    shard = models.SmallIntegerField(_("shard"))
    value = models.BigIntegerField(_("value"), default=0)

    # Bound by django_counters.managers, which stands above this room.
    objects: ClassVar[ShardManager]

    class Meta:
        verbose_name = _("counter shard")
        verbose_name_plural = _("counter shards")

    def __str__(self) -> str:
        return f"{self.key} [{self.shard}]"
