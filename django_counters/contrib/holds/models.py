"""Holds: quantities that were taken from a counter, and can come back."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.features import needs
from django_counters.tables.schema import KeyField

needs("django_counters.contrib.holds")

NAME_LENGTH = 255
ACTOR_LENGTH = 64
HELD = 0


class CounterHold(models.Model):
    """A quantity of one counter that is held until a moment. ``holds.hold()`` makes it.

    While it is held, its quantity is taken from the counter and can come back. When it has ended,
    ``sold`` was sold and the rest is back in the counter, at every commit.
    """

    class State(models.IntegerChoices):
        """Its present state."""

        HELD = HELD, _("held")
        COMMITTED = 1, _("committed")
        RELEASED = 2, _("released")
        EXPIRED = 3, _("expired")

    token = KeyField(_("token"), max_length=NAME_LENGTH, primary_key=True)
    # Empty for a named counter; else the model and the name of the counter: shop.Product.stock.
    field = models.CharField(_("field"), max_length=NAME_LENGTH, blank=True, default="")
    # The key of a named counter; else the primary key of the record.
    key = KeyField(_("key"), max_length=NAME_LENGTH)
    quantity = models.BigIntegerField(_("quantity"))
    sold = models.BigIntegerField(_("sold"), default=0)
    state = models.SmallIntegerField(_("state"), choices=State.choices, default=HELD)
    note = models.CharField(_("note"), max_length=NAME_LENGTH, blank=True, default="")
    # Its holder: as ``who`` of an increment. Empty if none was named.
    actor = models.CharField(_("actor"), max_length=ACTOR_LENGTH, blank=True, default="")
    expires_at = models.DateTimeField(_("expires at"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("counter hold")
        verbose_name_plural = _("counter holds")
        db_table = "django_counters_counterhold"
        permissions = [("hold_counter", _("Can hold a counter over HTTP"))]
        indexes = [
            models.Index(
                fields=["expires_at"], condition=models.Q(state=HELD), name="counters_holds_due"
            ),
            models.Index(
                fields=["field", "key"], condition=models.Q(state=HELD), name="counters_holds_of"
            ),
            # Upkeep deletes these.
            models.Index(
                fields=["expires_at"], condition=~models.Q(state=HELD), name="counters_holds_ended"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(quantity__gt=0)
                & (
                    models.Q(state=1, sold__gt=0, sold__lte=models.F("quantity"))
                    | models.Q(state__in=(HELD, 2, 3), sold=0)
                ),
                name="counters_hold_adds_up",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} of {self.subject}"

    @property
    def subject(self) -> str:
        """Return the name of the counter for people."""
        return f"{self.field}:{self.key}" if self.field else self.key
