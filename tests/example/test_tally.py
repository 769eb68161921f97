"""What is noted of the answers: by the load, and of visitors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from example_project.browser import Browser, Site
from example_project.server import serving
from example_project.tally import (
    COUNTED_HEADER,
    REPLAYED_HEADER,
    UNKNOWN,
    Tally,
    Watched,
    counter_of,
)


@pytest.mark.parametrize(
    ("request_line", "status", "counter"),
    [
        ("GET /blog/3/", 200, None),
        ("GET /blog/", 500, None),
        ("POST /blog/3/like", 302, "blog.Post.likes:3"),
        ("POST /blog/3/like", 403, None),
        ("GET /blog/3/like", 405, None),
        ("GET /blog/3/download", 200, "downloads:post-3"),
        ("HEAD /blog/3/download", 200, None),
        ("GET /shop/3/", 200, "visits:product-3"),
        ("GET /shop/", 200, "visits:shop"),
        ("GET /live/counts.json", 200, None),
        ("POST /shop/3/buy", 200, "orders:shop"),
        ("POST /shop/3/buy", 409, None),
    ],
)
def test_which_counter_an_answer_has(request_line: str, status: int, counter: str | None) -> None:
    method, path = request_line.split(" ")
    assert counter_of(method, path, status) == counter


@pytest.mark.parametrize(
    ("status", "extra", "noted"),
    [
        ("200 OK", {}, {"visits:shop": 1}),
        ("200 OK", {"PATH_INFO": "/blog/3/download"}, {"downloads:post-3": 1}),
        (
            "302 Found",
            {"REQUEST_METHOD": "POST", "PATH_INFO": "/blog/3/like"},
            {"blog.Post.likes:3": 1},
        ),
        (
            "200 OK",
            {"REQUEST_METHOD": "POST", "PATH_INFO": "/shop/3/buy"},
            {"orders:shop": 1},
        ),
        ("200 OK", {"HTTP_X_LOAD": "load-1"}, {}),
        ("200 OK", {"UNCERTAIN": "yes"}, {"unknown:visits:shop": 1}),
        ("200 OK", {"REQUEST_METHOD": "HEAD"}, {}),
        ("404 Not Found", {}, {}),
        ("500 Internal Server Error", {}, {"failures": 1}),
    ],
)
def test_visitors_are_noted_apart_from_the_load(
    status: str, extra: dict[str, str], noted: dict[str, int]
) -> None:
    visitors = Tally()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(status, [(COUNTED_HEADER, UNKNOWN)] if "UNCERTAIN" in environ else [])
        return [b""]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/shop/", **extra}
    Watched(application, visitors)(environ, lambda *_: None)
    assert visitors.sums() == noted


def test_the_load_notes_what_it_was_not_told() -> None:
    """With a real server and a real client: the second page says that it is uncertain."""
    sent = Tally()
    answers = iter([[], [(COUNTED_HEADER, UNKNOWN)]])

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", next(answers))
        return [b""]

    with serving(application, 0) as port:
        browser = Browser(Site("127.0.0.1", port, "load-1"), sent)
        for _ in range(2):
            browser.get("/shop/")
        browser.close()
    assert sent.sums() == {"requests": 2, "visits:shop": 1, "unknown:visits:shop": 1}


def test_an_order_that_a_visitor_sends_again_is_noted_once() -> None:
    visitors = Tally()
    answers = iter([[], [(REPLAYED_HEADER, "true")]])

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", next(answers))
        return [b""]

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/shop/3/buy"}
    for _ in range(2):
        Watched(application, visitors)(environ, lambda *_: None)
    assert visitors.sums() == {"orders:shop": 1}


LIKES = "blog.Post.likes:3"
ONE = {"key": LIKES, "value": 7, "applied": 1, "replayed": False}
UNAVAILABLE = {"type": "urn:django-counters:unavailable", "status": 503}


@pytest.mark.parametrize(
    ("path", "status", "answer", "noted"),
    [
        (f"counters/{LIKES}/increment", "200 OK", ONE, {LIKES: 1}),
        (f"counters/{LIKES}/decrement", "200 OK", {**ONE, "applied": -2}, {LIKES: -2}),
        (f"counters/{LIKES}/increment", "200 OK", {**ONE, "replayed": True}, {}),
        ("bulk/increment", "200 OK", {"counters": [ONE], "replayed": False}, {LIKES: 1}),
        ("bulk/increment", "200 OK", {"counters": [ONE], "replayed": True}, {}),
        # Of adjustments a signal tells.
        (f"counters/{LIKES}/adjust", "200 OK", ONE, {}),
        ("bulk/read", "200 OK", {"counters": [], "unknown": []}, {}),
        (f"counters/{LIKES}/increment", "403 Forbidden", {}, {}),
        (f"counters/{LIKES}/increment", "503 Service Unavailable", UNAVAILABLE, {}),
        (f"counters/{LIKES}/increment", "504 Gateway Timeout", {}, {f"unknown:{LIKES}": 1}),
        ("bulk/increment", "504 Gateway Timeout", {}, {"failures": 1}),
        (f"counters/{LIKES}/increment", "500 Internal Server Error", {}, {"failures": 1}),
    ],
)
def test_what_a_visitor_counts_over_the_api_is_noted_as_it_was_answered(
    path: str, status: str, answer: dict[str, Any], noted: dict[str, int]
) -> None:
    visitors = Tally()
    body = json.dumps(answer).encode()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(status, [])
        return [body]

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": f"/api/v1/{path}"}
    watched = Watched(application, visitors)
    assert list(watched(environ, lambda *_: None)) == [body]
    assert visitors.sums() == noted
    watched({**environ, "HTTP_X_LOAD": "load-1"}, lambda *_: None)
    assert visitors.sums() == noted
