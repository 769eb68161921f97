"""Holds over HTTP: made under the Idempotency-Key of the request, and ended by it."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.exceptions import HoldMissing
from django_counters.limits.principal import principal_of
from django_counters.rest.actors import actor_in
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import (
    KEY,
    CommitBody,
    ExtendBody,
    HoldAnswer,
    HoldBody,
    ReleaseBody,
    described,
    once,
)
from django_counters.rest.idempotency import key_of
from django_counters.rest.permissions import CounterPermission, MayDecrement, MayHold
from django_counters.rest.targets import Target
from django_counters.tokens import Token
from django_counters.write.holds import Hold, commit, extend, find, release


@described(
    "hold",
    HoldAnswer,
    KEY,
    once(required=True),
    body=HoldBody,
    sends={"quantity": 2, "minutes": 15},
)
class HoldView(CounterView):
    """Hold a quantity of a counter for a while."""

    may = MayHold

    def post(self, request: Request, key: str) -> Response:
        """The Idempotency-Key names the hold. Without a commit, the quantity comes back."""
        target = self.target(key)
        asked = self.checked(HoldBody)
        text = key_of(request)
        if text is None:
            raise drf.ValidationError({"Idempotency-Key": ["It is needed: it names the hold."]})
        self.admit_changes({key: (target, -asked["quantity"])}, {})
        hold = target.hold(**asked, token=_token(request, text), who=actor_in(request))
        answer = _answer(target, hold, text)
        if hold.replayed:
            answer["Idempotent-Replayed"] = "true"
        return answer


class EndView(CounterView):
    """What is done with a hold of the one who sends it. It may be sent again."""

    may: ClassVar[type[CounterPermission]] = MayHold

    def found(self, target: Target, text: str) -> Hold:
        """The hold of the one who sends it, if it is of this counter.

        Raises:
            HoldMissing: there is none, or it is somebody else's.
        """
        self.admit_changes({target.key: (target, 0)}, {})
        hold = self.named(target, text)
        if not target.has(hold):
            raise HoldMissing(token=text)
        return hold

    def named(self, target: Target, text: str) -> Hold:
        """The hold with this Idempotency-Key.

        Raises:
            HoldMissing: there is none.
        """
        return find(_token(self.request, text), target.alias)


@described("commit", HoldAnswer, KEY, body=CommitBody)
class CommitView(EndView):
    """Sell what is held."""

    may: ClassVar[type[CounterPermission]] = MayDecrement

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """All of it, or a part: the rest goes back. Sent again, it changes nothing.

        `token` is the Idempotency-Key of a hold of yours, or the `id` of anybody's.
        """
        target = self.target(key)
        asked = self.checked(CommitBody)
        hold = self.found(target, asked["token"])
        done = commit(hold.token, asked.get("quantity"), hold.using)
        return _answer(target, done, asked["token"])

    def named(self, target: Target, text: str) -> Hold:
        """The hold with this Idempotency-Key, or with this id: who sells may do it for others."""
        try:
            return super().named(target, text)
        except HoldMissing:
            return find(text, target.alias)


@described("release", HoldAnswer, KEY, body=ReleaseBody)
class ReleaseView(EndView):
    """Give back what you hold."""

    def post(self, request: Request, key: str) -> Response:
        """Sent again, it changes nothing."""
        target = self.target(key)
        text = self.checked(ReleaseBody)["token"]
        hold = self.found(target, text)
        replayed = not release(hold.token, hold.using)
        found = find(_token(request, text), hold.using)
        return _answer(target, found, text, replayed=replayed)


@described("extend", HoldAnswer, KEY, body=ExtendBody)
class ExtendView(EndView):
    """Hold it for longer."""

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """For at least so many minutes from now, and never for less than before."""
        target = self.target(key)
        asked = self.checked(ExtendBody)
        hold = self.found(target, asked["token"])
        return _answer(target, extend(hold.token, asked["minutes"], hold.using), asked["token"])


def _token(request: Request, text: str) -> Token:
    """The token of a hold: that of another client is another one."""
    whose = hashlib.sha256(principal_of(request).encode("utf-8", "surrogatepass"))
    return Token(text, f"hold {whose.hexdigest()}")


def _answer(target: Target, hold: Hold, text: str, *, replayed: bool | None = None) -> Response:
    body: dict[str, Any] = {
        "id": hold.token,
        "key": target.key,
        "token": text,
        "quantity": hold.quantity,
        "sold": hold.sold,
        "state": hold.state,
        "expires_at": iso(hold.expires_at),
        "available": hold.available,
        "replayed": hold.replayed if replayed is None else replayed,
    }
    return Response(body, headers={"Cache-Control": "no-store"})
