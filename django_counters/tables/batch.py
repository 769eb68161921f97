"""Generations of Redis that are in the totals, and their last seen state."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField

SOURCE_LENGTH = 255


class CounterBatch(models.Model):
    """A generation of increments that is in the totals, written in the transaction that added it.

    The process that inserts its row applies it, and no other one. Pruned when no such generation
    may be applied any more.
    """

    generation = models.UUIDField(_("generation"), primary_key=True)
    slot = models.SmallIntegerField(_("slot"))
    source = models.CharField(_("source"), max_length=SOURCE_LENGTH)
    applied_at = models.DateTimeField(_("applied at"), db_index=True)
    counters = models.IntegerField(_("counters"))
    # Not a total of a counter: the incoming sum, even if a part of it did not fit.
    total = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)

    class Meta:
        verbose_name = _("counter batch")
        verbose_name_plural = _("counter batches")

    def __str__(self) -> str:
        return str(self.generation)


class CounterSource(models.Model):
    """The last seen state of one slot of a source: it tells when Redis loses something.

    ``seen`` is the generation that was open then, ``timeline`` the history of the Redis that had
    it.
    """

    pk = models.CompositePrimaryKey("source", "slot")
    source = KeyField(_("source"), max_length=SOURCE_LENGTH)
    slot = models.SmallIntegerField(_("slot"))
    seen = models.CharField(_("generation seen"), max_length=32, blank=True)
    timeline = models.CharField(_("timeline"), max_length=40, blank=True)
    seen_at = models.DateTimeField(_("seen at"))

    class Meta:
        verbose_name = _("counter source")
        verbose_name_plural = _("counter sources")

    def __str__(self) -> str:
        return f"{self.source} [{self.slot}]"
