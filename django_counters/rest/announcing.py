"""What clients are told of the limit that they are nearest to: RateLimit-Policy and RateLimit.

As draft-ietf-httpapi-ratelimit-headers-11 has them. It still changes, and is known here alone.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from django.http import HttpResponseBase

from django_counters.limits.gcra import Taken
from django_counters.rates import Rate

if TYPE_CHECKING:
    # It imports the throttles of the settings, which may be one of ours.
    from rest_framework.views import APIView

# A string of a structured field has no other characters.
_PLAIN = "".join(set(string.printable) - set(string.whitespace) - set('"\\%'))
_ATTRIBUTE = "_counters_limit"


class Looked(NamedTuple):
    """A limit that a request was counted in, and what was found there."""

    name: str
    rate: Rate
    taken: Taken

    def nearness(self) -> tuple[bool, float, float]:
        """The least is what a client has to heed: who refuses, then who has the least left."""
        taken = self.taken
        return taken.admitted, taken.remaining / self.rate.number, -taken.more

    def fields(self) -> Iterator[tuple[str, str]]:
        """The headers."""
        name = f'"{quote(self.name, _PLAIN, errors="replace")}"'
        yield "RateLimit-Policy", f"{name};q={self.rate.number};w={ceil(self.rate.seconds)}"
        yield "RateLimit", f"{name};r={self.taken.remaining};t={ceil(self.taken.more)}"


def announce(view: APIView | None, looked: Looked) -> None:
    """Let the answer of a view, which is another object for each request, tell of a limit."""
    # A view of another kind asks its throttles itself.
    if not hasattr(view, "finalize_response"):
        return
    known: Looked | None = getattr(view, _ATTRIBUTE, None)
    if known is None:
        _tell_at_the_end(view)
    nearest = looked if known is None else min(known, looked, key=Looked.nearness)
    setattr(view, _ATTRIBUTE, nearest)


def _tell_at_the_end(view: Any) -> None:
    """What an answer lets caches do is known when it is finished, also that of a refusal."""
    finalize = view.finalize_response

    def finalize_response(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = finalize(*args, **kwargs)
        if not _is_shared(response):
            for name, value in getattr(view, _ATTRIBUTE).fields():
                response.headers[name] = value
        return response

    view.finalize_response = finalize_response


def _is_shared(response: HttpResponseBase) -> bool:
    """Whether a cache may give the answer to others, who would take the numbers for theirs."""
    said = response.headers.get("Cache-Control", "").lower().split(",")
    says = {directive.partition("=")[0].strip() for directive in said}
    return bool(says & {"public", "max-age", "s-maxage"}) and not says & {"private", "no-store"}
