"""Adjustments that a second person has to confirm."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.adjustment import CASE_LENGTH, NAME_LENGTH, REASON_LENGTH
from django_counters.tables.counter import KeyField


class AdjustmentRequest(models.Model):
    """A request to adjust a counter by more than one person may do alone."""

    class State(models.TextChoices):
        """What became of it."""

        WAITING = "waiting", _("waiting")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    field = models.CharField(_("field"), max_length=NAME_LENGTH, blank=True, default="")
    key = KeyField(_("key"), max_length=NAME_LENGTH)
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
    # The number of the adjustment that it led to.
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
