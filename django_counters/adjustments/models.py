"""Adjustments, and requests for those that need a second person."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.schema import KeyField
from django_counters.types import SUBJECT_LENGTH

NAME_LENGTH = 255
REASON_LENGTH = 1000
# The shortest reason in the admin and the API; code may pass a shorter one.
LEAST_REASON = 10
CASE_LENGTH = 100


class CounterAdjustment(models.Model):
    """A correction of one counter. ``Counter.objects.adjust`` writes it; nothing alters it.

    Rows have the numbers 1, 2, 3 and so on without a gap, in the order of their commits. Each has a
    digest of itself and of the previous one. Triggers refuse to change or delete a row.

    People are kept as text, so that an adjustment outlives its users.
    """

    number = models.BigIntegerField(_("number"), primary_key=True)
    # Empty for a named counter; else the model and the name of the counter: shop.Product.stock.
    field = models.CharField(_("field"), max_length=SUBJECT_LENGTH, blank=True, default="")
    # The key of a named counter; else the primary key of the record.
    key = KeyField(_("key"), max_length=SUBJECT_LENGTH)
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

    #: Whether an earlier call with the same token made this adjustment.
    replayed = False

    class Meta:
        verbose_name = _("adjustment")
        verbose_name_plural = _("adjustments")
        default_permissions = ("view",)
        permissions = [("approve_adjustment", _("Can approve an adjustment of somebody else"))]
        ordering = ("-number",)
        # Without this, loaddata tries an UPDATE first, which the guard refuses even for no row.
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
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.delta:+}"

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: `CounterManager.adjust` writes adjustments."""
        raise TypeError("An adjustment can't be saved. Call Counter.objects.adjust().")

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: another adjustment corrects a wrong one."""
        raise TypeError("An adjustment can't be deleted. Correct it by another one.")

    @property
    def subject(self) -> str:
        """What people call the counter."""
        return f"{self.field}:{self.key}" if self.field else self.key


class AdjustmentRequest(models.Model):
    """A request for an adjustment that needs a second person."""

    class State(models.TextChoices):
        """The state of a request."""

        WAITING = "waiting", _("waiting")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    field = models.CharField(_("field"), max_length=SUBJECT_LENGTH, blank=True, default="")
    key = KeyField(_("key"), max_length=SUBJECT_LENGTH)
    # One of both: the new value, or the change.
    to = models.BigIntegerField(_("new value"), null=True, blank=True)
    by = models.BigIntegerField(_("change"), null=True, blank=True)
    expected = models.BigIntegerField(_("value when it was asked for"))
    reason = models.TextField(_("reason"), max_length=REASON_LENGTH)
    case = models.CharField(_("case"), max_length=CASE_LENGTH, blank=True, default="")
    allow_below_floor = models.BooleanField(_("below the floor"), default=False)
    requester_id = models.CharField(_("user id"), max_length=NAME_LENGTH, blank=True, default="")
    requester_name = models.CharField(_("asked by"), max_length=NAME_LENGTH)
    created_at = models.DateTimeField(_("asked at"), auto_now_add=True)
    state = models.CharField(
        _("state"), max_length=10, choices=State.choices, default=State.WAITING
    )
    decider_id = models.CharField(_("decider id"), max_length=NAME_LENGTH, blank=True, default="")
    decider_name = models.CharField(_("decided by"), max_length=NAME_LENGTH, blank=True, default="")
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    note = models.TextField(_("note"), max_length=REASON_LENGTH, blank=True, default="")
    # The number of the adjustment that the approval made.
    adjustment = models.BigIntegerField(_("adjustment"), null=True, blank=True)

    class Meta:
        verbose_name = _("request for an adjustment")
        verbose_name_plural = _("requests for adjustments")
        default_permissions = ("view",)
        ordering = ("-pk",)
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state="waiting"),
                name="counters_requests_waiting",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(to__isnull=True, by__isnull=False)
                | models.Q(to__isnull=False, by__isnull=True),
                name="counters_request_to_or_by",
            ),
            models.CheckConstraint(
                condition=models.Q(state="waiting", decider_name="")
                | ~models.Q(decider_name="")
                & ~models.Q(decider_name=models.F("requester_name"))
                & ~models.Q(decider_id=models.F("requester_id"), decider_id__gt=""),
                name="counters_request_two_people",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.get_state_display()}"

    @property
    def subject(self) -> str:
        """What people call the counter."""
        return f"{self.field}:{self.key}" if self.field else self.key
