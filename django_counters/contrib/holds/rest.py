"""Holds over HTTP: each is named by the Idempotency-Key of the request that makes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema_field
from rest_framework import exceptions as drf
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.adjustments.adjustment import steering
from django_counters.contrib.holds import errors
from django_counters.contrib.holds.holding import Hold, find, hold
from django_counters.contrib.holds.models import NAME_LENGTH
from django_counters.contrib.holds.options import MOST_MINUTES
from django_counters.principal import principal_of
from django_counters.rest import bodies
from django_counters.rest.actors import actor_in
from django_counters.rest.base import CounterView, iso, key_of
from django_counters.rest.permissions import CounterPermission, MayDecrement
from django_counters.rest.problems import ProblemKind
from django_counters.rest.targets import Target
from django_counters.tokens import TOKEN_LENGTH, Token

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    errors.HoldMissing: ProblemKind(404, "not-found", (), "You have no hold with this token."),
    errors.HoldExpired: ProblemKind(
        409, "hold-expired", ("key", "quantity", "state"), "The hold has expired."
    ),
    errors.HoldEnded: ProblemKind(
        409, "hold-ended", ("key", "quantity", "state"), "The hold has ended before."
    ),
    errors.HoldLimitExceeded: ProblemKind(409, "hold-limit", ("key", "requested", "held", "limit")),
    errors.UnsupportedHold: ProblemKind(409, "unsupported-hold", ("key", "reason")),
}


class MayHold(CounterPermission):
    """May hold a quantity of a counter, and release or extend its own holds."""

    action = "hold"


# Bodies.


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": MOST_MINUTES})
class Minutes(bodies.Amount):
    """The duration of a hold in minutes, up to 30 days."""

    default_error_messages = {"most": f"A hold lasts at most {MOST_MINUTES} minutes."}

    def to_internal_value(self, data: Any) -> int:
        minutes = super().to_internal_value(data)
        if minutes > MOST_MINUTES:
            self.fail("most")
        return minutes


class HoldBody(bodies.Body):
    """A quantity to hold, and the duration in minutes."""

    quantity = bodies.Amount(default=1)
    minutes = Minutes(default=15)
    note = bodies.Text(default="", allow_blank=True, max_length=NAME_LENGTH)

    def validate_note(self, note: str) -> str:
        """Refuse a note that a page or a terminal would display in another way."""
        if character := steering(note):
            problem = f"It has a character that controls its display: {character!a}."
            raise serializers.ValidationError(problem)
        return note


class ReleaseBody(bodies.Body):
    """The hold: the Idempotency-Key that made it; or its ``id``, to commit for others."""

    token = bodies.Text(min_length=1, max_length=TOKEN_LENGTH, trim_whitespace=False)


class CommitBody(ReleaseBody):
    """The hold to sell, and the quantity. Default: all of it."""

    quantity = bodies.Amount(required=False)


class ExtendBody(ReleaseBody):
    """The hold to extend, and its new duration in minutes from now."""

    minutes = Minutes(default=15)


class HoldAnswer(bodies.Described):
    """The present state of a hold. ``available`` is null if this request took nothing."""

    id = serializers.CharField()
    key = serializers.CharField()
    token = serializers.CharField()
    quantity = bodies.WholeNumber()
    sold = bodies.WholeNumber()
    state = bodies.Word(choices=["held", "committed", "released", "expired"])
    expires_at = serializers.DateTimeField()
    available = bodies.Value(allow_null=True)
    replayed = serializers.BooleanField()


# Views.


@bodies.described(
    "hold",
    HoldAnswer,
    bodies.KEY,
    bodies.once(required=True),
    body=HoldBody,
    sends={"quantity": 2, "minutes": 15},
)
class HoldView(CounterView):
    """Hold a quantity of a counter for a while."""

    may = MayHold

    def post(self, request: Request, key: str) -> Response:
        """The Idempotency-Key names the hold. Without a commit, the quantity comes back."""
        target = self.target(key)
        body = self.checked(HoldBody)
        text = key_of(request)
        if text is None:
            raise drf.ValidationError(
                {"Idempotency-Key": ["This header is required. It names the hold."]}
            )
        self.admit_changes({key: (target, -body["quantity"])}, {})
        made = hold(target.ref, **body, token=_token(request, text), who=actor_in(request))
        response = _response(target, made, text)
        if made.replayed:
            response["Idempotent-Replayed"] = "true"
        return response


class EndView(CounterView):
    """Changes a hold of the client that made it. The request can be repeated."""

    may: ClassVar[type[CounterPermission]] = MayHold

    def hold_of(self, target: Target, text: str) -> Hold:
        """Return the client's hold, if it is one of this counter.

        Raises:
            HoldMissing: there is none, or it is another client's.
        """
        self.admit_changes({target.key: (target, 0)}, {})
        own = self.named(target, text)
        if (own.field, own.key) != (target.ref.owner, target.ref.text):
            raise errors.HoldMissing(token=text)
        return own

    def named(self, target: Target, text: str) -> Hold:
        """Return the hold with this Idempotency-Key.

        Raises:
            HoldMissing: there is none.
        """
        return find(_token(self.request, text), using=target.alias)


@bodies.described("commit", HoldAnswer, bodies.KEY, body=CommitBody)
class CommitView(EndView):
    """Sell a held quantity."""

    may: ClassVar[type[CounterPermission]] = MayDecrement

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """Sells all of it, or a part; the rest goes back. A repeated request changes nothing.

        `token` is the Idempotency-Key of your hold, or the `id` of any client's hold.
        """
        target = self.target(key)
        body = self.checked(CommitBody)
        sold = self.hold_of(target, body["token"]).commit(body.get("quantity"))
        return _response(target, sold, body["token"])

    def named(self, target: Target, text: str) -> Hold:
        """Return the hold with this Idempotency-Key or id: a seller may commit for others."""
        try:
            return super().named(target, text)
        except errors.HoldMissing:
            return find(text, using=target.alias)


@bodies.described("release", HoldAnswer, bodies.KEY, body=ReleaseBody)
class ReleaseView(EndView):
    """Give back your hold."""

    def post(self, request: Request, key: str) -> Response:
        """A repeated request changes nothing."""
        target = self.target(key)
        text = self.checked(ReleaseBody)["token"]
        own = self.hold_of(target, text)
        replayed = not own.release()
        ended = find(_token(request, text), using=own.using)
        return _response(target, ended, text, replayed=replayed)


@bodies.described("extend", HoldAnswer, bodies.KEY, body=ExtendBody)
class ExtendView(EndView):
    """Extend a hold."""

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """The hold ends at least so many minutes from now, and never earlier than before."""
        target = self.target(key)
        body = self.checked(ExtendBody)
        extended = self.hold_of(target, body["token"]).extend(minutes=body["minutes"])
        return _response(target, extended, body["token"])


def _token(request: Request, text: str) -> Token:
    """Return the token of a client's hold. It differs between clients."""
    principal = hashlib.sha256(principal_of(request).encode("utf-8", "surrogatepass"))
    return Token(text, f"hold {principal.hexdigest()}")


def _response(target: Target, row: Hold, text: str, *, replayed: bool | None = None) -> Response:
    body: dict[str, Any] = {
        "id": row.token,
        "key": target.key,
        "token": text,
        "quantity": row.quantity,
        "sold": row.sold,
        "state": row.state,
        "expires_at": iso(row.expires_at),
        "available": row.available,
        "replayed": row.replayed if replayed is None else replayed,
    }
    return Response(body, headers={"Cache-Control": "no-store"})


urlpatterns = [
    path("counters/<counter_key:key>/hold", HoldView.as_view(), name="hold"),
    path("counters/<counter_key:key>/commit", CommitView.as_view(), name="commit"),
    path("counters/<counter_key:key>/release", ReleaseView.as_view(), name="release"),
    path("counters/<counter_key:key>/extend", ExtendView.as_view(), name="extend"),
]
