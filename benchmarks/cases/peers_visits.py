"""Visits of a page, as django-hitcount counts them: the same statements, on tables of our own.

It looks whether the address or the browser is blocked and whether the session was seen within a
week, and if not, adds one and keeps a row of the visit: six statements, each a transaction. So two
requests of one session at the same time can both count; that is why there is one caller here.
See ``hit_count`` in its `views.py`_ (1.3.5), with its settings as they come.

.. _views.py: https://github.com/thornomad/django-hitcount/blob/1.3.5/hitcount/views.py
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from benchmarks.cases.peers_database import known, tables
from benchmarks.harness import Pair, Sample, Side, Stored, Verify, Work, expect
from benchmarks.inspection import value
from benchmarks.models import BlockedAddress, BlockedAgent, Post, Visit, VisitCount
from django_counters.models import Counter, CounterDelta, CounterToken

VISITORS = 50  # of one slice
EARLIER = 10_000  # visits that are there already
ACTIVE = timedelta(days=7)
ADDRESS = "192.0.2.7"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_numbers = count()

Sessions = Callable[[], Sequence[str]]


def new_sessions() -> Sequence[str]:
    """Visitors that nobody has seen."""
    return [secrets.token_hex(16) for _ in range(VISITORS)]


def visit(record_type: int, record: int, session: str) -> None:
    """Count a visitor of a record who was not seen within a week."""
    counted = VisitCount.objects.get(record_type=record_type, record=record)
    # The truth of a queryset, not exists(): that is what is compared.
    if BlockedAddress.objects.filter(address=ADDRESS):
        return
    if BlockedAgent.objects.filter(agent=AGENT):
        return
    active = Visit.objects.filter(created__gte=timezone.now() - ACTIVE)
    if active.filter(session=session, visit_count=counted):
        return
    new = Visit(session=session, visit_count=counted, address=ADDRESS, agent=AGENT)
    counted.visits = F("visits") + 1
    counted.save()
    new.save()


def _side(act: Callable[[str], object], sessions: Sessions) -> Side:
    """One act for each visitor; who comes is known when the clock starts."""

    def side() -> Sample:
        visitors = sessions()
        started = time.perf_counter()
        for session in visitors:
            act(session)
        return Sample(len(visitors), time.perf_counter() - started)

    return side


@contextmanager
def _visited() -> Iterator[tuple[Any, VisitCount]]:
    """A post, and a record of its visits beside many visits of others."""
    post = Post.objects.create(title=f"visited {next(_numbers)}")
    models = (VisitCount, Visit, BlockedAddress, BlockedAgent)
    with tables(*models):
        record_type = ContentType.objects.get_for_model(Post).pk
        mine, other = (
            VisitCount.objects.create(record_type=record_type, record=record)
            for record in (post.pk, post.pk + 1)
        )
        Visit.objects.bulk_create(
            Visit(session=secrets.token_hex(16), address=ADDRESS, agent=AGENT, visit_count=other)
            for _ in range(EARLIER)
        )
        known(*models)
        yield post, mine


def _visiting(counted: VisitCount, sessions: Sessions) -> Side:
    return _side(lambda session: visit(counted.record_type, counted.record, session), sessions)


def _visits(counted: VisitCount, stored: Stored) -> Verify:
    """What verifies all visits: of theirs both the number and the rows."""

    def verify(subject: int, reference: int) -> None:
        counted.refresh_from_db()
        expect("ours", stored(), subject)
        expect("visits", counted.visits, reference)
        expect("rows of visits", Visit.objects.filter(visit_count=counted).count(), reference)

    return verify


@contextmanager
def beside_field() -> Iterator[Pair]:
    """The library's field keeps no visits and knows no visitors."""
    with _visited() as (post, counted):
        views = Post.objects.filter(pk=post.pk).values_list("views", flat=True)
        verify = _visits(counted, lambda: int(views.get()))
        mine = _side(lambda _: post.views.increment(), new_sessions)
        yield Pair(mine, _visiting(counted, new_sessions), verify)


def _key(post: Any) -> str:
    return f"orders:visits:{post.pk}"


def _visits_of_others(post: Any) -> None:
    """As many entries and tokens as the peer has rows of visits, of a counter nobody asks for."""
    with transaction.atomic():
        for session in range(EARLIER):
            Counter.objects.increment(f"orders:others:{post.pk}", token=f"{session} of {post.pk}")
    known(CounterDelta, CounterToken)


def _seen(post: Any, session: str) -> object:
    """Count a visitor of a post who was not seen within 48 hours."""
    return Counter.objects.increment(_key(post), token=f"{session} {post.pk}")


@contextmanager
def beside_token(come_again: bool = False) -> Iterator[Pair]:
    """The library's ledger keeps an entry, and a token tells a visitor who was there.

    Its answer is the same under concurrency: a token counts once. ``come_again``: all were counted
    before, and nobody is counted twice.
    """
    with _visited() as (post, counted):
        _visits_of_others(post)
        known = new_sessions() if come_again else []
        for session in known:
            _seen(post, session)
            visit(counted.record_type, counted.record, session)
        adds = _visits(counted, value(_key(post)))
        sessions: Sessions = (lambda: known) if come_again else new_sessions
        yield Pair(
            _side(lambda session: _seen(post, session), sessions),
            _visiting(counted, sessions),
            (lambda *_: adds(len(known), len(known))) if come_again else adds,
        )


CASES: Mapping[str, Work] = {
    "hitcount": Work(beside_field, slices=5),
    "hitcount-once": Work(beside_token, slices=5),
    "hitcount-again": Work(partial(beside_token, True), slices=5),
}
