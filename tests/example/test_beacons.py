"""The load over the API: what it notes, and that it sends again only what counts once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from example_project import beacons
from example_project.browser import Browser, Site
from example_project.server import serving
from example_project.tally import Tally

VIEWS, LIKES = "blog.Post.views:3", "blog.Post.likes:3"
STATUS = {
    200: "200 OK",
    403: "403 Forbidden",
    503: "503 Service Unavailable",
    504: "504 Gateway Timeout",
}
# A status, and whether it had been done before.
Script = list[tuple[int, bool]]
Asked = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beacons, "WAITS", 0)
    monkeypatch.setattr(beacons, "TRIES", 5)
    monkeypatch.setattr(beacons, "LIKED_AGAIN", 0)


@contextmanager
def site(script: Script, asked: Asked) -> Iterator[Callable[[Tally], Browser]]:
    """A real server that answers by the script, and browsers that ask it."""
    answers = iter(script)

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        asked.append(environ)
        status, replayed = next(answers)
        start_response(STATUS[status], [("Idempotent-Replayed", "true")] if replayed else [])
        key = environ["PATH_INFO"].split("/")[4]
        told = {"key": key, "value": 1, "applied": 1, "replayed": replayed}
        return [json.dumps(told).encode()]

    with serving(application, 0) as port:
        yield lambda tally: Browser(Site("127.0.0.1", port, "load-1"), tally)


def sums(tally: Tally) -> dict[str, int]:
    """What was noted, but for how many requests there were."""
    return {name: by for name, by in tally.sums().items() if name != "requests"}


@pytest.mark.parametrize(
    ("status", "noted"),
    [
        (200, {VIEWS: 1}),
        (503, {"turned_away": 1}),
        (504, {f"unknown:{VIEWS}": 1}),
        (403, {"failures": 1}),
    ],
)
def test_a_view_is_sent_once_from_the_site_itself(status: int, noted: dict[str, int]) -> None:
    tally, asked = Tally(), Asked()
    with site([(status, False)], asked) as browser:
        assert beacons.see(browser(tally), 3, tally) == status
    assert sums(tally) == noted
    (request,) = asked
    assert request["REQUEST_METHOD"] == "POST"
    assert request["PATH_INFO"] == f"/api/v1/counters/{VIEWS}/increment"
    assert request["HTTP_ORIGIN"] == f"http://{request['HTTP_HOST']}"
    assert "HTTP_IDEMPOTENCY_KEY" not in request


@pytest.mark.parametrize(
    ("script", "noted"),
    [
        ([(200, False)], {LIKES: 1}),
        ([(503, False), (503, False), (200, False)], {"turned_away": 2, LIKES: 1}),
        # It had been counted, and the answer was lost.
        ([(504, False), (200, True)], {LIKES: 1}),
        ([(504, False), (200, False)], {LIKES: 1}),
        ([(504, False), (503, False), (200, True)], {"turned_away": 1, LIKES: 1}),
        ([(504, False)] * 5, {f"unknown:{LIKES}": 1}),
        ([(504, False), (403, False)], {"failures": 1, f"unknown:{LIKES}": 1}),
        ([(403, False)], {"failures": 1}),
        # Nobody has sent it before.
        ([(200, True)], {LIKES: 1, "failures": 1}),
    ],
)
def test_a_like_is_sent_with_one_key_until_it_is_known(
    script: Script, noted: dict[str, int]
) -> None:
    tally, asked = Tally(), Asked()
    with site(script, asked) as browser:
        beacons.like(browser(tally), 3, tally, threading.Event())
    assert sums(tally) == noted
    assert len(asked) == len(script)
    assert len({request["HTTP_IDEMPOTENCY_KEY"] for request in asked}) == 1


@pytest.mark.parametrize(("replayed", "failures"), [(True, 0), (False, 1)])
def test_a_like_that_is_sent_again_has_to_be_answered_as_before(
    replayed: bool, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beacons, "LIKED_AGAIN", 1)
    tally, asked = Tally(), Asked()
    with site([(200, False), (200, replayed)], asked) as browser:
        beacons.like(browser(tally), 3, tally, threading.Event())
    assert tally.sums()["failures"] == failures
    assert (tally.sums()[LIKES], tally.sums()["liked_again"]) == (1, 1)
    assert len({request["HTTP_IDEMPOTENCY_KEY"] for request in asked}) == 1


def test_a_load_that_has_to_stop_drops_only_what_is_not_counted() -> None:
    stop = threading.Event()
    stop.set()
    tally, asked = Tally(), Asked()
    with site([(503, False), (504, False), (200, True)], asked) as browser:
        beacons.like(browser(tally), 3, tally, stop)
        assert sums(tally) == {"turned_away": 1}
        beacons.like(browser(tally), 3, tally, stop)
    assert sums(tally) == {"turned_away": 1, LIKES: 1}
