"""The bodies and answers of requests for adjustments."""

from __future__ import annotations

from rest_framework import serializers

from django_counters.rest.bodies import SHOWN, Body, Described
from django_counters.rest.values import Text, Value, WholeNumber, Word
from django_counters.tables.adjustment import REASON_LENGTH
from django_counters.tables.request import AdjustmentRequest

STATES = AdjustmentRequest.State.values


class ApproveBody(Body):
    """The value that the approver saw, and the last adjustment."""

    of_fields = {
        "expected": {"description": "The value that the decision was made on."},
        "last": {
            "minimum": 0,
            "description": "The `last` of the request as it was read. While it is still the same, a"
            " change (`by`) needs no `expected` value: others may count meanwhile.",
        },
    }

    expected = WholeNumber()
    last = WholeNumber(required=False)


class RejectBody(Body):
    """Why not."""

    of_fields = {"note": {"pattern": SHOWN}}

    note = Text(default="", allow_blank=True, max_length=REASON_LENGTH)


class RequestItem(Described):
    """A request for an adjustment. One of to and by is given."""

    id = serializers.IntegerField()
    key = serializers.CharField()
    to = WholeNumber(allow_null=True)
    by = WholeNumber(allow_null=True)
    expected = WholeNumber(help_text="The value when it was asked for.")
    reason = serializers.CharField()
    case = serializers.CharField(allow_blank=True)
    allow_below_floor = serializers.BooleanField(
        help_text="Whether the value may end below the floor: asked for in the admin or in Python."
    )
    requester = serializers.CharField()
    created_at = serializers.DateTimeField()
    state = Word(choices=STATES)
    decider = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField(allow_blank=True, help_text="Why it was rejected.")
    adjustment = serializers.IntegerField(
        allow_null=True, help_text="The number of the adjustment that it led to."
    )


class RequestAnswer(RequestItem):
    """A request, as this one has left it."""

    replayed = serializers.BooleanField()


class ApprovedAnswer(RequestAnswer):
    """A request that was approved, and how the counter was adjusted."""

    before = Value()
    value = Value()
    applied = WholeNumber()


class RequestReadAnswer(RequestItem):
    """A request. While it waits, with the present value, and the last adjustment of the counter."""

    value = Value(allow_null=True)
    last = serializers.IntegerField(allow_null=True)


class RequestListAnswer(Described):
    """A page of a list. There is no way back, so previous is always null."""

    of_fields = {"next": {"format": "uri"}}

    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = RequestItem(many=True)
