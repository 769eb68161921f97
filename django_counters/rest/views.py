"""One counter: read, increment, decrement, adjust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.urls import reverse
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock
from django_counters.exceptions import ApprovalRequired
from django_counters.rest.actors import event_of_change
from django_counters.rest.base import CounterView, PersonView, answer_once, iso
from django_counters.rest.bodies import AdjustBody, ChangeBody
from django_counters.rest.describing import described
from django_counters.rest.permissions import (
    MayAdjust,
    MayDecrement,
    MayIncrement,
    MayRead,
)
from django_counters.rest.requests import request_body
from django_counters.rest.targets import Named, Target, told
from django_counters.types import Reading
from django_counters.values import Result, result_of


@described("read")
class ReadView(CounterView):
    """``GET counters/{key}``: from a cache, where the counter has one."""

    may = MayRead
    exact: ClassVar[bool] = False

    def get(self, request: Request, key: str) -> Response:
        """The value, which may come from a cache."""
        target = self.target(key)
        reading = target.read(exact=self.exact)
        headers = {"ETag": f'W/"{reading.value}"', **self.kept(target, self.lasts(target))}
        if is_known(reading.value, request.META.get("HTTP_IF_NONE_MATCH", "")):
            return Response(status=304, headers=headers)
        return Response(reading_body(key, reading), headers=headers)

    def lasts(self, target: Target) -> str:
        """How long clients may keep it: as long as the cached value may be old."""
        return "no-cache" if self.exact else f"max-age={int(target.max_age)}"


@described("read_exact")
class ExactView(ReadView):
    """``GET counters/{key}/exact``: includes all that was committed before the request."""

    exact = True


class ChangeView(CounterView):
    """``POST counters/{key}/increment`` and ``/decrement``."""

    sign: ClassVar[int]

    def post(self, request: Request, key: str) -> Response:
        """Count. With an Idempotency-Key, count once however often the request is sent."""
        target = self.target(key)
        asked = self.checked(ChangeBody)
        by = self.sign * asked.pop("by")
        event = event_of_change(request, self, [target], asked, takes=self.sign < 0)
        self.admit_changes({key: (target, by)}, {key: event})

        def work(token: UUID | None) -> dict[str, Any]:
            return change_body(target, by, target.change(by, token, event))

        whole = {"by": by, **told(event)}
        # Outside of a transaction, only named counters count once with a token.
        resumes = isinstance(target, Named)
        return answer_once(request, whole, work, target.alias, joins=target.joins, resumes=resumes)


@described("increment")
class IncrementView(ChangeView):
    """``POST counters/{key}/increment``."""

    may = MayIncrement
    sign = 1


@described("decrement")
class DecrementView(ChangeView):
    """``POST counters/{key}/decrement``."""

    may = MayDecrement
    sign = -1


@described("adjust")
class AdjustView(PersonView):
    """``POST counters/{key}/adjust``: a correction, with a reason that is kept."""

    may = MayAdjust

    def post(self, request: Request, key: str) -> Response:
        """Adjust a counter, or ask a second person to. The actor is the authenticated user."""
        target = self.target(key)
        self.need_person()
        order = self.checked(AdjustBody)
        self.admit_changes({key: (target, 0)}, {})

        def work(_: UUID | None) -> dict[str, Any]:
            try:
                row = target.adjust(**order, actor=request.user, request_id=self.request_id)
            except ApprovalRequired:
                if not target.can_be_asked_for:
                    raise
                asked = target.ask(**order, actor=request.user)
                return {**request_body(target.key, asked), "replayed": False}
            more = {"consistency": "exact", "number": row.number, "before": row.before}
            return {**change_body(target, row.delta, result_of(row.after)), **more}

        answer = answer_once(request, order, work, target.alias, joins=True)
        if "state" in answer.data:
            answer.status_code = 202
            answer["Location"] = self._address(answer.data["id"])
        return answer

    def _address(self, number: int) -> str:
        """Where the request is, under whichever address the project has the API."""
        match = self.request.resolver_match
        return reverse(f"{match.namespace}:request" if match else "request", args=[number])


def is_known(value: int, known: str) -> bool:
    """Whether the client has the value already, read in whichever way."""
    if not known:
        return False
    tags = {tag.removeprefix("W/") for tag in parse_etags(known)}
    return "*" in tags or f'"{value}"' in tags


def reading_body(key: str, reading: Reading) -> Mapping[str, Any]:
    """The answer to a read."""
    return {
        "key": key,
        "value": reading.value,
        "as_of": iso(reading.as_of),
        "consistency": reading.consistency,
    }


def change_body(target: Target, by: int, result: Result) -> dict[str, Any]:
    """The answer to a change. The value is None where it is not known."""
    known = "exact" if target.joins else "cached"
    return {
        "key": target.key,
        "value": result.value,
        "applied": by,
        "as_of": iso(clock.utc()),
        "consistency": "unknown" if result.value is None else known,
        # A token that Redis knows is that of this request, which was not answered yet.
        "replayed": result.replayed and target.joins,
    }
