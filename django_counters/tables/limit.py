"""How empty the buckets of rate limits are."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class CounterLimit(models.Model):
    """A bucket of a rate limit that is kept in the database. Pruned when it is full again.

    ``arrival`` is when it will be full, in microseconds since 1970. It has no index: each request
    would write that, too. Neither the name of the limit nor of who is limited is kept as text, only
    their digest.
    """

    digest = models.BinaryField(_("digest"), primary_key=True)
    arrival = models.BigIntegerField(_("full again at"))

    class Meta:
        verbose_name = _("counter limit")
        verbose_name_plural = _("counter limits")

    def __str__(self) -> str:
        return bytes(self.digest).hex()
