"""What should not have happened, and was found out."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class CounterIncident(models.Model):
    """Something that a person has to look at. Nothing is repaired silently."""

    class Kind(models.TextChoices):
        """The kinds of incidents."""

        DRIFT = "drift", _("a value differs from its entries")
        FENCED = "fenced", _("the ledger was restored elsewhere")
        OVERFLOW = "overflow", _("a total would not fit")
        LOST = "lost", _("increments were lost by Redis")
        HISTORY = "history", _("Redis was started again, or another one took over")
        QUARANTINED = "quarantined", _("an amount could not be landed")
        CONFLICT = "conflict", _("one token stood for several changes")
        UNKNOWN = "unknown", _("the outcome of an increment is not known")
        AUDIT = "audit", _("an adjustment was changed or is missing")

    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices)
    subject = models.CharField(_("subject"), max_length=255)
    detail = models.JSONField(_("detail"), default=dict)
    found_at = models.DateTimeField(_("found at"), auto_now_add=True, db_index=True)

    class Meta:
        verbose_name = _("counter incident")
        verbose_name_plural = _("counter incidents")

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"
