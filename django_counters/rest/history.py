"""``GET counters/{key}/history``: how a counter went, worked out by one request for all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.core.cache import BaseCache, caches
from django.db import connections, router
from django.utils import timezone
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock
from django_counters.exceptions import CounterUnavailable
from django_counters.models import CounterDelta
from django_counters.read import chart
from django_counters.rest.base import CounterView, iso
from django_counters.rest.describing import described
from django_counters.rest.permissions import MayReadHistory
from django_counters.rest.problems import RETRY_AFTER, Refused
from django_counters.rest.targets import Named

# Seconds. For how long an answer is the present one, and for how long it is there for those who
# would otherwise wait for the next one. Who dies at work keeps others from it for no longer.
MAX_AGE = 60
_AT_WORK = 60
_CACHE = "default"


class Kept(NamedTuple):
    """An answer, and until when it is the present one: a moment in seconds."""

    body: dict[str, Any]
    until: float


@described("history")
class HistoryView(CounterView):
    """``GET counters/{key}/history?by=hour``: the last day by hours, or 30 days by days."""

    may = MayReadHistory

    def get(self, request: Request, key: str) -> Response:
        """How a counter went: from its ledger, or from what is recorded."""
        target = self.target(key)
        if not isinstance(target, Named):
            raise drf.NotFound("Counters of records have no history.")
        kept = _shared(key, request.query_params.get("by", "hour"))
        left = max(0, round(kept.until - clock.utc().timestamp()))
        return Response(kept.body, headers=self.kept(target, f"max-age={left}"))


def _shared(key: str, by: str) -> Kept:
    """The present answer, or the last one while somebody works out the next one.

    To add up a ledger may take seconds: were each request to do it, a few of them would keep all
    workers busy.

    Raises:
        Refused: somebody is at it, and there is no answer yet.
    """
    name = _name_of(key, by)
    kept, is_mine = _kept_or_begun(name)
    if is_mine:
        return _worked_out(name, key, by)
    if kept is None:
        says = "The history is being worked out. Try again later."
        raise Refused(503, "busy", says, retry_after=RETRY_AFTER)
    return kept


def _kept_or_begun(name: str) -> tuple[Kept | None, bool]:
    """The answer that there is, and whether it is on the caller to work out the next one."""
    with _cache() as cache:
        kept = cache.get(name)
        if _is_present(kept) or not cache.add(_work_on(name), True, _AT_WORK):
            return kept, False
        # Whoever was at it may have come to the end in between.
        kept = cache.get(name)
        if _is_present(kept):
            cache.delete(_work_on(name))
            return kept, False
    return None, True


def _is_present(kept: Kept | None) -> bool:
    return kept is not None and kept.until > clock.utc().timestamp()


def _worked_out(name: str, key: str, by: str) -> Kept:
    try:
        # Everybody gets the same answer, whichever time zone the request is in.
        with timezone.override(None):
            found = chart.series(key, by)
        kept = Kept(_body(found), clock.utc().timestamp() + MAX_AGE)
        # Names without a history are without number, and quickly answered.
        if any(point.value or point.change for point in found.points):
            with _cache() as cache:
                cache.set(name, kept, MAX_AGE + _AT_WORK)
        return kept
    finally:
        with _cache() as cache:
            cache.delete(_work_on(name))


def _body(found: chart.Series) -> dict[str, Any]:
    return {
        "key": found.key,
        "by": found.by,
        "source": found.source,
        "points": [
            {"moment": iso(point.moment), "value": point.value, "change": point.change}
            for point in found.points
        ],
    }


@contextmanager
def _cache() -> Iterator[BaseCache]:
    """Where answers are kept. Without it all requests at once would do the work: none does."""
    try:
        yield caches[_CACHE]
    except Exception as error:
        # The caches of Django have no error in common.
        raise CounterUnavailable(using="the cache", reason=str(error)) from error


def _name_of(key: str, by: str) -> str:
    """Sites that share a cache may have counters of the same name."""
    database = connections[router.db_for_read(CounterDelta)].settings_dict
    place = [str(database[part]) for part in ("HOST", "PORT", "NAME")]
    told = "\n".join((*place, by, key)).encode("utf-8", "surrogatepass")
    return f"django_counters.history.{hashlib.sha256(told).hexdigest()}"


def _work_on(name: str) -> str:
    return f"{name}.work"
