"""Answers that are much work: one request works each of them out, for all others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.core.cache import BaseCache, caches
from django.db import connections, router
from django.utils import timezone

from django_counters import clock
from django_counters.exceptions import CounterUnavailable
from django_counters.models import CounterDelta
from django_counters.rest.problems import RETRY_AFTER, Refused

# Seconds. For how long an answer is the present one, and for how long it is there for those who
# would otherwise wait for the next one. Who dies at work keeps others from it for no longer.
MAX_AGE = 60
_AT_WORK = 60
_CACHE = "default"


class Made(NamedTuple):
    """An answer, and whether it is worth keeping.

    Names of which nothing is known are without number, and quickly answered.
    """

    body: dict[str, Any]
    is_kept: bool


class Kept(NamedTuple):
    """An answer, and until when it is the present one: a moment in seconds."""

    body: dict[str, Any]
    until: float

    @property
    def lasts(self) -> str:
        """For how long clients may keep it."""
        return f"max-age={max(0, round(self.until - clock.utc().timestamp()))}"


def shared(question: Sequence[str], work: Callable[[], Made]) -> Kept:
    """The present answer, or the last one while somebody works out the next one.

    To work it out may take seconds: were each request to do it, a few of them would keep all
    workers busy.

    Args:
        question: what is asked for: who asks for the same is answered the same.
        work: works out the answer.

    Raises:
        Refused: somebody is at it, and there is no answer yet.
    """
    name = _name_of(question)
    kept, is_mine = _kept_or_begun(name)
    if is_mine:
        return _worked_out(name, work)
    if kept is None:
        says = f"The {question[0]} is being worked out. Try again later."
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


def _worked_out(name: str, work: Callable[[], Made]) -> Kept:
    try:
        # Everybody gets the same answer, whichever time zone the request is in.
        with timezone.override(None):
            made = work()
        kept = Kept(made.body, clock.utc().timestamp() + MAX_AGE)
        if made.is_kept:
            with _cache() as cache:
                cache.set(name, kept, MAX_AGE + _AT_WORK)
        return kept
    finally:
        with _cache() as cache:
            cache.delete(_work_on(name))


@contextmanager
def _cache() -> Iterator[BaseCache]:
    """Where answers are kept. Without it all requests at once would do the work: none does."""
    try:
        yield caches[_CACHE]
    except Exception as error:
        # The caches of Django have no error in common.
        raise CounterUnavailable(using="the cache", reason=str(error)) from error


def _name_of(question: Sequence[str]) -> str:
    """Sites that share a cache may have counters of the same name."""
    database = connections[router.db_for_read(CounterDelta)].settings_dict
    place = [str(database[part]) for part in ("HOST", "PORT", "NAME")]
    told = "\n".join((*place, *question)).encode("utf-8", "surrogatepass")
    return f"django_counters.{question[0]}.{hashlib.sha256(told).hexdigest()}"


def _work_on(name: str) -> str:
    return f"{name}.work"
