"""The kept facts of partitions of the ledger, also when they are gone."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField
from django_counters.types import KEY_LENGTH


class CounterPartition(models.Model):
    """A partition that takes no more entries: how many it has, and their sum.

    Sealed when no token can belong to it any more and all of it is rolled up; dropped when it is
    past its retention. Sums of all its entries are read from the archive, and the range of its
    transactions says whether a follower needs it: so most reads lock no sealed partition.
    """

    name = models.CharField(_("name"), max_length=63, primary_key=True)
    since = models.DateTimeField(_("since"))
    until = models.DateTimeField(_("until"))
    entries = models.BigIntegerField(_("entries"))
    delta_sum = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)
    # Of its entries above the fence, which was that when it was sealed; NULL where it has none.
    fence = models.BigIntegerField(_("fence"), null=True, blank=True)
    first_xid = models.BigIntegerField(_("first transaction"), null=True, blank=True)
    last_xid = models.BigIntegerField(_("last transaction"), null=True, blank=True)
    last_seq = models.BigIntegerField(_("last sequence number"), null=True, blank=True)
    sealed_at = models.DateTimeField(_("sealed at"))
    dropped_at = models.DateTimeField(_("dropped at"), null=True, blank=True)

    class Meta:
        verbose_name = _("counter partition")
        verbose_name_plural = _("counter partitions")

    def __str__(self) -> str:
        return str(self.name)


class CounterArchive(models.Model):
    """What one counter has in one sealed partition, or in all dropped ones (no partition)."""

    pk = models.CompositePrimaryKey("partition", "key")
    partition = models.CharField(_("partition"), max_length=63, blank=True)
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    entries = models.BigIntegerField(_("entries"))
    delta_sum = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)

    class Meta:
        verbose_name = _("counter archive")
        verbose_name_plural = _("counter archives")

    def __str__(self) -> str:
        return f"{self.key} {self.delta_sum}"
