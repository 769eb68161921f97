"""The table of rate limits."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.features import needs
from django_counters.tables.schema import DigestField

needs("django_counters.contrib.limits")


class CounterLimit(models.Model):
    """The use of a rate limit by one user or address, in the database.

    ``arrival`` is the moment when the limit is full again, in microseconds since 1970. The
    ``prune`` job then deletes the row. An index of it would be updated by each request.
    ``moments`` is for logs: pairs of a moment and the amount taken then. The names of the limit and
    of the user or address aren't stored, only a digest of both.
    """

    digest = DigestField(_("digest"), primary_key=True)
    arrival = models.BigIntegerField(_("full again at"))
    moments = models.JSONField(_("moments"), null=True)

    class Meta:
        verbose_name = _("counter limit")
        verbose_name_plural = _("counter limits")
        db_table = "django_counters_counterlimit"

    def __str__(self) -> str:
        return bytes(self.digest).hex()
