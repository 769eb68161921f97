"""What was let through, or answered in a way that misled."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from django_counters.errors import InvalidAdjustment
from django_counters.models import Counter, CounterAdjustment
from tests.rest.asking import header
from tests.rest.conftest import API, As, problem

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]


@pytest.mark.parametrize(
    "reason",
    [
        "\N{ZERO WIDTH SPACE}" * 20,
        "\N{HANGUL FILLER}" * 20,
        "\N{COMBINING ACUTE ACCENT}" * 20,
        "by mistake \N{RIGHT-TO-LEFT OVERRIDE}gnorw",
        "by mistake \N{LEFT-TO-RIGHT ISOLATE}",
        "by mistake \x1b[2K",
        "by mistake \x9b2K",
    ],
)
def test_a_reason_is_what_it_looks_like(reason: str, as_: As) -> None:
    asked: dict[str, Any] = {"by": 1, "reason": reason}
    problem(as_("superuser").do("adjust", "likes:a", asked), 400, "invalid")
    with pytest.raises(InvalidAdjustment):
        Counter.objects.adjust("likes:a", **asked, actor="ann")
    with pytest.raises(InvalidAdjustment):
        Counter.objects.adjust("likes:a", **{**asked, "reason": "-", "case": reason}, actor="ann")
    assert not CounterAdjustment.objects.exists()


def test_a_reason_may_be_in_any_language() -> None:
    reasons = [
        "می\N{ZERO WIDTH NON-JOINER}خواهم",
        "盤点のとおり",
        "two\n\tlines",
        "👩\N{ZERO WIDTH JOINER}🔬",
    ]
    for reason in reasons:
        assert Counter.objects.adjust("likes:a", by=1, reason=reason, actor="a").reason == reason


def test_people_say_as_much_as_in_the_admin(as_: As) -> None:
    root = as_("superuser")
    (error,) = problem(root.do("adjust", "likes:a", {"by": 1, "reason": "x" * 9}), 400, "invalid")[
        "errors"
    ]
    assert error["field"] == "reason"
    answer = root.do("adjust", "likes:a", {"by": 1, "reason": "x" * 10})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("first", "second"), [("k", '"k"'), ('"a\\"b\\\\"', 'a"b\\'), (' "k" ', "k")]
)
def test_a_key_in_quotes_is_the_same_key(first: str, second: str, as_: As) -> None:
    user = as_("user")
    for key in (first, second):
        assert user.do("increment", "likes:a", **header(key)).json()["value"] == 1
    problem(user.do("increment", "likes:a", **header('""')), 400, "invalid")


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity"])
def test_a_body_that_is_compressed_is_not_taken_for_another(encoding: str, as_: As) -> None:
    body = b'{"by": 3}' if encoding == "identity" else gzip.compress(b'{"by": 3}')
    sent: dict[str, Any] = {"content_type": "application/json", "HTTP_CONTENT_ENCODING": encoding}
    client: Any = as_("user")
    answer = client.generic("POST", f"{API}/counters/likes:a/increment", body, **sent)
    if encoding == "identity":
        assert answer.json()["value"] == 3
    else:
        problem(answer, 415)
