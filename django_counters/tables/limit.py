"""How much of a rate limit is taken."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.digest import DigestField


class CounterLimit(models.Model):
    """The use of a rate limit by one user or address, in the database.

    Pruned when it counts no more.

    ``arrival`` is when that is, in microseconds since 1970. It has no index: each request would
    write that, too. ``moments`` is for logs alone: pairs of a moment and how many were taken then.
    Neither the name of the limit nor of who is limited is kept as text, only their digest.
    """

    digest = DigestField(_("digest"), primary_key=True)
    arrival = models.BigIntegerField(_("full again at"))
    moments = models.JSONField(_("moments"), null=True)

    class Meta:
        verbose_name = _("counter limit")
        verbose_name_plural = _("counter limits")

    def __str__(self) -> str:
        return bytes(self.digest).hex()
