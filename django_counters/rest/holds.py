"""Holds over HTTP: made under the Idempotency-Key of the request, and ended by it."""

from __future__ import annotations

import hashlib
from typing import Any

from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.exceptions import HoldMissing
from django_counters.limits.principal import principal_of
from django_counters.rest.base import CounterView, iso
from django_counters.rest.bodies import CommitBody, ExtendBody, HoldBody, ReleaseBody
from django_counters.rest.describing import described
from django_counters.rest.idempotency import key_of
from django_counters.rest.permissions import MayDecrement
from django_counters.rest.targets import Target
from django_counters.tokens import Token
from django_counters.write.holds import Hold, commit, extend, find, release


@described("hold")
class HoldView(CounterView):
    """``POST counters/{key}/hold``: the Idempotency-Key is the token of the hold."""

    may = MayDecrement

    def post(self, request: Request, key: str) -> Response:
        """Take a quantity and hold it. Sent again, it answers with the same hold."""
        target = self.target(key)
        asked = self.checked(HoldBody)
        text = key_of(request)
        if text is None:
            raise drf.ValidationError({"Idempotency-Key": ["It is needed: it names the hold."]})
        self.admit_changes({key: (target, -asked["quantity"])}, {})
        hold = target.hold(**asked, token=_token(request, text))
        answer = _answer(target, hold, text)
        if hold.replayed:
            answer["Idempotent-Replayed"] = "true"
        return answer


class EndView(CounterView):
    """What is done with a hold of the one who sends it. It may be sent again."""

    may = MayDecrement

    def found(self, target: Target, text: str) -> Hold:
        """The hold, if it is of this counter.

        Raises:
            HoldMissing: there is none, or it is somebody else's.
        """
        self.admit_changes({target.key: (target, 0)}, {})
        hold = find(_token(self.request, text), target.alias)
        if not target.has(hold):
            raise HoldMissing(token=text)
        return hold


@described("commit_hold")
class CommitView(EndView):
    """``POST counters/{key}/commit``."""

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """Sell what is held, or a part of it: the rest goes back."""
        target = self.target(key)
        asked = self.checked(CommitBody)
        hold = self.found(target, asked["token"])
        done = commit(hold.token, asked.get("quantity"), hold.using)
        return _answer(target, done, asked["token"])


@described("release_hold")
class ReleaseView(EndView):
    """``POST counters/{key}/release``."""

    def post(self, request: Request, key: str) -> Response:
        """Give back what is held."""
        target = self.target(key)
        text = self.checked(ReleaseBody)["token"]
        hold = self.found(target, text)
        replayed = not release(hold.token, hold.using)
        found = find(_token(request, text), hold.using)
        return _answer(target, found, text, replayed=replayed)


@described("extend_hold")
class ExtendView(EndView):
    """``POST counters/{key}/extend``."""

    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002
        """Hold it for at least so many minutes from now."""
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
