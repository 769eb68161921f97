"""Corrections: by how much, by whom and why, for ever."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField

NAME_LENGTH = 255
REASON_LENGTH = 1000
# The requirements of the admin and the API; code may give less.
LEAST_REASON = 10
CASE_LENGTH = 100


class CounterAdjustment(models.Model):
    """One correction of one counter. ``Counter.objects.adjust`` writes it; nothing alters it.

    Rows have the numbers 1, 2, 3 and so on without a gap, in the order of their commits. Each
    carries a digest of itself and of the one before. Triggers of the database refuse to change or
    delete any of them.

    People are kept as text, so that an adjustment outlives who made it.
    """

    number = models.BigIntegerField(_("number"), primary_key=True)
    # Empty for a named counter; else the model and the name of the counter: shop.Product.stock.
    field = models.CharField(_("field"), max_length=NAME_LENGTH, blank=True, default="")
    # The key of a named counter; else the primary key of the record.
    key = KeyField(_("key"), max_length=NAME_LENGTH)
    before = models.BigIntegerField(_("before"))
    after = models.BigIntegerField(_("after"))
    delta = models.BigIntegerField(_("change"))
    reason = models.TextField(_("reason"), max_length=REASON_LENGTH)
    case = models.CharField(_("case"), max_length=CASE_LENGTH, blank=True, default="")
    actor_id = models.CharField(_("user id"), max_length=NAME_LENGTH, blank=True, default="")
    actor_name = models.CharField(_("adjusted by"), max_length=NAME_LENGTH)
    approver_id = models.CharField(_("approver id"), max_length=NAME_LENGTH, blank=True, default="")
    approver_name = models.CharField(
        _("approved by"), max_length=NAME_LENGTH, blank=True, default=""
    )
    request_id = models.CharField(_("request id"), max_length=NAME_LENGTH, blank=True, default="")
    entry = models.UUIDField(_("entry of the ledger"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    digest = models.CharField(_("digest"), max_length=64)

    #: Whether this call adjusted nothing, because one with the same token did before.
    replayed = False

    class Meta:
        verbose_name = _("adjustment")
        verbose_name_plural = _("adjustments")
        default_permissions = ("view",)
        permissions = [("approve_adjustment", _("Can approve an adjustment of somebody else"))]
        ordering = ("-number",)
        # loaddata tries an UPDATE before it inserts, which the guard refuses to no row as well.
        select_on_save = True
        indexes = [
            models.Index(fields=["field", "key", "number"], name="counters_adjustments_of"),
            models.Index(
                fields=["case", "field", "key"],
                condition=~models.Q(case=""),
                name="counters_adjustments_case",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(approver_name="")
                | ~models.Q(approver_name=models.F("actor_name"))
                & ~models.Q(approver_id=models.F("actor_id"), approver_id__gt=""),
                name="counters_adjustment_two_people",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.delta:+}"

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Adjustments are written by `CounterManager.adjust`."""
        raise TypeError("Adjustments are written by Counter.objects.adjust().")

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Adjustments stay. A wrong one is corrected by another one."""
        raise TypeError("Adjustments stay; make another one that corrects it.")

    @property
    def subject(self) -> str:
        """What people call the counter."""
        return f"{self.field}:{self.key}" if self.field else self.key
