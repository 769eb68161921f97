"""Increments of counters of records that wait for their rollup: a few rows each."""

from __future__ import annotations

from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField

RECORD_ID_LENGTH = 255
NAME_LENGTH = 100


class SlotColumns(models.Model):
    """The columns of a `SlottedCounter`."""

    pk = models.CompositePrimaryKey("record_type_id", "record_id", "name", "slot")
    record_type = models.ForeignKey(
        ContentType,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        verbose_name=_("record type"),
    )
    # The text of a primary key: that of an integer, a UUID, or any other.
    record_id = KeyField(_("record id"), max_length=RECORD_ID_LENGTH)
    name = KeyField(_("name"), max_length=NAME_LENGTH)
    slot = models.SmallIntegerField(_("slot"))
    count = models.BigIntegerField(_("count"), default=0)

    record = GenericForeignKey("record_type", "record_id")

    class Meta:
        abstract = True
        verbose_name = _("slotted counter")
        verbose_name_plural = _("slotted counters")
        # For the rollup: the amount that waits, and nothing else, in the order in which it is
        # folded.
        indexes = [
            models.Index(
                fields=["record_type", "name", "record_id"],
                condition=models.Q(slot__gte=0),
                name="counters_slots_that_wait",
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.name} [{self.slot}]"
