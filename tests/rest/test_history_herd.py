"""Many who ask how a counter went: one of them works it out."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections

from django_counters import clock
from django_counters.models import Counter
from django_counters.read import chart
from django_counters.testing import override_counters
from tests.rest.conftest import OPEN, As, Client, problem

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
WITHIN = 30


class Work:
    """What adds up a ledger; it ends when it is let go, or fails when it is told to."""

    def __init__(self) -> None:
        self.begun, self.goes_on, self.times, self.fails = (
            threading.Semaphore(0),
            threading.Semaphore(0),
            0,
            False,
        )
        self._series = chart.charted

    def __call__(self, *asked: Any) -> chart.Chart:
        self.times += 1
        self.begun.release()
        assert self.goes_on.acquire(timeout=WITHIN)
        if self.fails:
            raise KeyError("orders")
        return self._series(*asked)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work()
    monkeypatch.setattr(chart, "charted", made)
    return made


def get() -> Any:
    client = Client(raise_request_exception=False)
    try:
        return client.at("orders:a", "history")
    finally:
        connections.close_all()


def points(answer: Any) -> int:
    assert answer.status_code == 200, answer.content
    return int(answer.json()["points"][-1]["value"])


def test_one_of_many_works_it_out(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(clock, "utc", lambda: now)
    Counter.objects.increment("orders:a", 3)
    with ThreadPoolExecutor(8) as crowd:
        first = crowd.submit(get)
        assert work.begun.acquire(timeout=WITHIN)
        for other in [crowd.submit(get) for _ in range(6)]:
            assert problem(other.result(), 503, "busy")["retry_after"] == 1
        work.goes_on.release()
        assert points(first.result()) == 3
        Counter.objects.increment("orders:a", 4)
        # For a minute it is that one, and then as long as the next one is not ready.
        now += timedelta(seconds=45)
        assert (points(get()), get()["Cache-Control"]) == (3, "public, max-age=15")
        now += timedelta(seconds=16)
        second = crowd.submit(get)
        assert work.begun.acquire(timeout=WITHIN)
        for other in [crowd.submit(get) for _ in range(6)]:
            assert points(other.result()) == 3
            assert other.result()["Cache-Control"] == "public, max-age=0"
        work.goes_on.release()
        assert points(second.result()) == points(get()) == 7
    assert work.times == 2


def test_one_who_fails_keeps_nobody_from_it(work: Work) -> None:
    Counter.objects.increment("orders:a", 3)
    work.goes_on.release(2)
    work.fails = True
    assert get().status_code == 500
    work.fails = False
    assert points(get()) == 3


def test_names_without_a_history_are_not_kept(work: Work) -> None:
    work.goes_on.release(2)
    for _ in range(2):
        assert points(get()) == 0
    assert work.times == 2


def test_without_a_cache_nobody_works_it_out(work: Work, settings: Any) -> None:
    declared = {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {"default": declared}
    problem(get(), 503, "unavailable")
    assert work.times == 0


def test_who_may_read_may_not_see_the_history(as_: As) -> None:
    with override_counters(orders={"STRATEGY": "ledger", "API": OPEN}):
        found = [as_(role).at("orders:a", "history").status_code for role in ("anonymous", "user")]
    assert found == [401, 403]
