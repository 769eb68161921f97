"""Tokens that were used, by counters that have no ledger, and as texts."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.digest import DigestField


class CounterToken(models.Model):
    """A token, its use, and the result of the call. Deleted when it may not be used again.

    Neither the token nor its scope is kept as text, only their digest.
    """

    digest = DigestField(_("digest"), primary_key=True)
    fingerprint = models.BinaryField(_("fingerprint of the call"))
    result = models.TextField(_("result"), blank=True)
    created_at = models.DateTimeField(_("created at"), db_index=True)

    class Meta:
        verbose_name = _("counter token")
        verbose_name_plural = _("counter tokens")

    def __str__(self) -> str:
        return bytes(self.digest).hex()
