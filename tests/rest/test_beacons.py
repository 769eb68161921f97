"""Increments by whoever visits a declared site, and requests that another site has forged."""

from __future__ import annotations

from typing import Any

import pytest

from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import assert_counts, override_counters
from tests.rest.conftest import API, API_TESTS, NAMESPACES, ORIGIN, As, Client, problem
from tests.testapp.models import Post

pytestmark = API_TESTS
FROM: dict[str, Any] = {"HTTP_ORIGIN": ORIGIN}


def test_a_visitor_counts_one(as_: As) -> None:
    visitor = as_("anonymous")
    for value, body in enumerate([None, {}, {"by": 1}], 1):
        assert visitor.do("increment", "hits:a", body, **FROM).json()["value"] == value
    # The case of an origin does not matter.
    answer = visitor.do("increment", "hits:a", HTTP_ORIGIN="HTTPS://Example.ORG")
    assert answer.json()["value"] == 4


def test_what_a_browser_sends_of_itself_counts_one(as_: As) -> None:
    # navigator.sendBeacon(url) has no body and no type that we would understand.
    client: Any = as_("anonymous")
    answer = client.generic(
        "POST", f"{API}/counters/hits:a/increment", b"", "text/plain;charset=UTF-8", **FROM
    )
    assert answer.json()["value"] == 1


def test_a_visitor_counts_no_more_than_one(as_: As) -> None:
    problem(as_("anonymous").do("increment", "hits:a", {"by": 2}, **FROM), 400, "invalid")
    many = {"counters": [{"key": "hits:b"}, {"key": "hits:a", "by": 2}]}
    problem(as_("anonymous").bulk("increment", many, **FROM), 400, "invalid")
    assert not Counter.objects.exists()


def test_a_user_is_no_beacon(as_: As) -> None:
    assert as_("user").do("increment", "hits:a", {"by": 5}).json()["value"] == 5


ELSEWHERE: list[dict[str, Any]] = [
    {},
    {"HTTP_ORIGIN": ""},
    {"HTTP_ORIGIN": "null"},
    {"HTTP_ORIGIN": "*"},
    {"HTTP_ORIGIN": "http://example.org"},
    {"HTTP_ORIGIN": "https://example.org:8443"},
    {"HTTP_ORIGIN": "https://example.org/"},
    {"HTTP_ORIGIN": "https://example.org.evil.net"},
    {"HTTP_ORIGIN": "https://www.example.org"},
    {"HTTP_ORIGIN": "https://evil.net, https://example.org"},
    {"HTTP_REFERER": "https://example.org/"},
    {"HTTP_X_FORWARDED_HOST": "example.org"},
]


def test_other_sites_count_nothing(as_: As) -> None:
    client, many = as_("anonymous"), {"counters": [{"key": "hits:a"}]}
    one = [client.do("increment", "hits:a", **headers).status_code for headers in ELSEWHERE]
    several = [client.bulk("increment", many, **headers).status_code for headers in ELSEWHERE]
    assert one == several == [403] * len(ELSEWHERE)
    problem(client.do("increment", "hits:a"), 403, "origin")
    problem(client.bulk("increment", many), 403, "origin")
    assert not Counter.objects.exists()


def test_what_is_not_declared_takes_no_beacons(as_: As) -> None:
    visitor = as_("anonymous")
    for key in ("likes:a", "secret:a", "nowhere:a", "plain"):
        problem(visitor.do("increment", key, **FROM), 401)
        both = {"counters": [{"key": "hits:a"}, {"key": key}]}
        problem(visitor.bulk("increment", both, **FROM), 401)
    for action in ("decrement", "adjust"):
        problem(visitor.do(action, "hits:a", {"to": 5, "reason": "a stocktake"}, **FROM), 401)
    assert not Counter.objects.exists()


def test_there_is_a_limit_for_each_address(as_: As) -> None:
    hits = {"API": {**NAMESPACES["hits"]["API"], "limit": "3/hour"}}
    visitor, other = as_("anonymous", REMOTE_ADDR="10.0.0.1"), as_("anonymous")
    with override_counters(hits=hits):
        for number in (1, 2, 3):
            # Another counter is no other limit.
            assert visitor.do("increment", f"hits:{number}", **FROM).status_code == 200
        answer = visitor.do("increment", "hits:1", **FROM)
        assert 0 < problem(answer, 429)["retry_after"] == int(answer["Retry-After"]) <= 1200
        # What a stranger writes into a header is no address.
        again = visitor.do("increment", "hits:1", HTTP_X_FORWARDED_FOR="10.9.9.9", **FROM)
        problem(again, 429)
        problem(visitor.bulk("increment", {"counters": [{"key": "hits:4"}]}, **FROM), 429)
        assert other.do("increment", "hits:1", **FROM).json()["value"] == 2
    assert_counts({"hits:1": 2, "hits:4": 0})
    assert not Counter.objects.filter(key="hits:4").exists()


def test_a_field_takes_beacons_where_that_is_said(as_: As) -> None:
    expose(Post, "likes", increment="beacon", origins=[ORIGIN], limit="9/hour", burst=2)
    key = f"testapp.Post.likes:{Post.objects.create().pk}"
    visitor = as_("anonymous")
    problem(visitor.do("increment", key), 403, "origin")
    for _ in range(2):
        assert visitor.do("increment", key, **FROM).status_code == 200
    problem(visitor.do("increment", key, **FROM), 429)
    assert Post.objects.get().likes == 2


class TestForgedRequests:
    """A session alone is not enough to change something: browsers send it for any site."""

    UNSAFE = (
        ("counters/likes:a/increment", None),
        ("counters/likes:a/decrement", None),
        ("counters/likes:a/adjust", {"to": 5, "reason": "a stocktake"}),
        ("counters/hits:a/increment", None),
        ("bulk/increment", {"counters": [{"key": "likes:a"}]}),
        ("bulk/read", {"keys": ["likes:a"]}),
    )

    @pytest.mark.parametrize("headers", [{}, FROM, {"HTTP_X_CSRFTOKEN": "x" * 32}])
    def test_without_a_token_nothing_is_done(self, headers: dict[str, Any], as_: As) -> None:
        client = as_("superuser", enforce_csrf_checks=True)
        for path, body in self.UNSAFE:
            told = problem(client.post(f"{API}/{path}", body, **headers), 403)
            assert "CSRF" in told["detail"], path
        assert not Counter.objects.exists()

    def test_with_a_token_it_is(self, as_: As) -> None:
        client = as_("superuser", enforce_csrf_checks=True)
        headers = _with_token(client)
        answers = [client.post(f"{API}/{path}", body, **headers) for path, body in self.UNSAFE]
        assert [answer.status_code for answer in answers] == [200] * len(self.UNSAFE)

    def test_a_form_is_no_body_although_the_token_is_looked_for_in_it(self, as_: As) -> None:
        client = as_("superuser", enforce_csrf_checks=True)
        headers = _with_token(client)
        for form in ("multipart", None):
            options: dict[str, Any] = {"format": form} if form else FORM
            body = {"by": 3} if form else "by=3"
            answer = client.post(f"{API}/counters/likes:a/increment", body, **options, **headers)
            problem(answer, 415)
        assert not Counter.objects.exists()


FORM: dict[str, Any] = {"content_type": "application/x-www-form-urlencoded"}


def _with_token(client: Client) -> dict[str, Any]:
    token = "a" * 32
    client.cookies["csrftoken"] = token
    return {"HTTP_X_CSRFTOKEN": token}
