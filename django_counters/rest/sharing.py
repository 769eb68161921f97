"""Shares expensive answers: one request computes an answer for all others."""

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

# Seconds that an answer is fresh, and seconds that a stale one serves while the next is computed. A
# process that died at it blocks the others no longer than that.
MAX_AGE = 60
_AT_WORK = 60
_CACHE = "default"


class Made(NamedTuple):
    """An answer, and whether it is kept.

    Those about unknown names are not kept: they are quickly computed, and endlessly many.
    """

    body: dict[str, Any]
    is_kept: bool


class Kept(NamedTuple):
    """An answer, and until when it is fresh: a moment in seconds."""

    body: dict[str, Any]
    until: float

    @property
    def lasts(self) -> str:
        """How long clients may keep it."""
        return f"max-age={max(0, round(self.until - clock.utc().timestamp()))}"


def shared(question: Sequence[str], work: Callable[[], Made]) -> Kept:
    """The fresh answer, or the last one while another request computes the next one.

    That may take seconds: if each request did it, a few of them would keep all workers busy.

    Args:
        question: identifies the answer.
        work: computes the answer.

    Raises:
        Refused: another request computes it, and there is no answer yet.
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
    """The kept answer, and whether the caller has to compute the next one."""
    with _cache() as cache:
        kept = cache.get(name)
        if _is_present(kept) or not cache.add(_work_on(name), True, _AT_WORK):
            return kept, False
        # Another request may have finished in between.
        kept = cache.get(name)
        if _is_present(kept):
            cache.delete(_work_on(name))
            return kept, False
    return None, True


def _is_present(kept: Kept | None) -> bool:
    return kept is not None and kept.until > clock.utc().timestamp()


def _worked_out(name: str, work: Callable[[], Made]) -> Kept:
    try:
        # The answer must not depend on the time zone of this request.
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
    """The cache. While it is away no request computes answers, or all of them would at once."""
    try:
        yield caches[_CACHE]
    except Exception as error:
        # The caches of Django have no error in common.
        raise CounterUnavailable(using="the cache", reason=str(error)) from error


def _name_of(question: Sequence[str]) -> str:
    """The key of an answer: sites that share a cache may have counters of the same name."""
    database = connections[router.db_for_read(CounterDelta)].settings_dict
    place = [str(database[part]) for part in ("HOST", "PORT", "NAME")]
    told = "\n".join((*place, *question)).encode("utf-8", "surrogatepass")
    return f"django_counters.{question[0]}.{hashlib.sha256(told).hexdigest()}"


def _work_on(name: str) -> str:
    return f"{name}.work"
