"""One counter: read, increment, decrement."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponseBase
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock
from django_counters.features import absent_app
from django_counters.rest.actors import event_of_change
from django_counters.rest.base import CounterView, answer_once, iso, reading_body
from django_counters.rest.bodies import (
    KEY,
    ChangeAnswer,
    ChangeBody,
    ReadingAnswer,
    described,
    once,
)
from django_counters.rest.permissions import MayDecrement, MayIncrement, MayRead
from django_counters.rest.targets import NamedTarget, Target, told
from django_counters.values import Result


@described("read", ReadingAnswer, KEY)
class ReadView(CounterView):
    """Read a counter, from a cache if it has one."""

    may = MayRead
    exact: ClassVar[bool] = False

    def get(self, request: Request, key: str) -> HttpResponseBase:  # noqa: ARG002
        """As old as Cache-Control says, at most; `/exact` misses nothing before `as_of`."""
        target = self.target(key)
        reading = target.read(exact=self.exact)
        lasts = "no-cache" if self.exact else f"max-age={int(target.max_age)}"
        return self.answered(target, reading_body(key, reading), reading.value, lasts)

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Keys may have slashes, so this also gets the routes of apps that aren't installed."""
        _key, slash, action = kwargs["key"].rpartition("/")
        if slash and not self.exact and absent_app(lambda feature: action in feature.actions):
            raise NotFound("There is no such route.")
        return super().http_method_not_allowed(request, *args, **kwargs)


@described("exact", ReadingAnswer, KEY)
class ExactView(ReadView):
    """Read the exact value of a counter."""

    exact = True


class ChangeView(CounterView):
    """``POST counters/{key}/increment`` and ``/decrement``."""

    sign: ClassVar[int]

    def post(self, request: Request, key: str) -> Response:
        """By one, if no `by` is given. The value stays within its floor and ceiling."""
        target = self.target(key)
        asked = self.checked(ChangeBody)
        by = self.sign * asked.pop("by")
        event = event_of_change(request, self, [target], asked, takes=self.sign < 0)
        self.admit_changes({key: (target, by)}, {key: event})

        def work(token: UUID | None) -> dict[str, Any]:
            return change_body(target, by, target.change(by, token, event))

        whole = {"by": by, **told(event)}
        # Outside of a transaction, only named counters count once with a token.
        resumes = isinstance(target, NamedTarget)
        return answer_once(request, whole, work, target.alias, joins=target.joins, resumes=resumes)


@described("increment", ChangeAnswer, KEY, once(), body=ChangeBody)
class IncrementView(ChangeView):
    """Add to a counter."""

    may = MayIncrement
    sign = 1


@described("decrement", ChangeAnswer, KEY, once(), body=ChangeBody)
class DecrementView(ChangeView):
    """Take from a counter."""

    may = MayDecrement
    sign = -1


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
