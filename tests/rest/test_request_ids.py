"""The id of a request: as it was sent, or made, in each answer and in the audit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_counters.models import CounterAdjustment
from tests.rest.asking import header
from tests.rest.conftest import API, API_TESTS, As, Client, problem

pytestmark = API_TESTS
ORDER: dict[str, Any] = {"by": 1, "reason": "a stocktake"}
SENT: dict[str, Any] = {"HTTP_X_REQUEST_ID": "r-7"}


def is_made(name: str) -> bool:
    """Whether it is one of ours: a UUIDv7."""
    return str(UUID(name)) == name and UUID(name).version == 7


@pytest.mark.parametrize(
    ("sent", "told"), [(" r-7 ", "r-7"), ("a b", "a b"), ("x" * 128, "x" * 128), ("~", "~")]
)
def test_it_is_told_and_kept_as_it_was_sent(sent: str, told: str, client: Client) -> None:
    answer = client.do("adjust", "likes:a", ORDER, HTTP_X_REQUEST_ID=sent)
    assert answer["X-Request-ID"] == told
    assert CounterAdjustment.objects.get().request_id == told


@pytest.mark.parametrize(
    "sent", [None, "", "  ", "x" * 129, "a\x1bb", "a\tb", "a\r\nSet-Cookie: a=b", "\xe9", "\x85"]
)
def test_one_is_made_where_none_can_be_told(sent: str | None, client: Client) -> None:
    given: dict[str, Any] = {} if sent is None else {"HTTP_X_REQUEST_ID": sent}
    names = []
    for _ in range(2):
        answer = client.do("adjust", "likes:a", ORDER, **given)
        assert answer.status_code == 200
        names.append(answer["X-Request-ID"])
    assert all(map(is_made, names))
    assert len(set(names)) == 2
    kept = CounterAdjustment.objects.order_by("number").values_list("request_id", flat=True)
    assert list(kept) == names


def test_each_answer_has_it(as_: As) -> None:
    root, visitor = as_("superuser"), as_("anonymous")
    root.do("increment", "likes:a")
    root.do("increment", "inside:a")
    for answer in (
        root.do("increment", "likes:a", **SENT),
        root.do("decrement", "likes:a", **SENT),
        root.at("inside:a", **SENT),
        root.at("inside:a", HTTP_IF_NONE_MATCH='W/"1"', **SENT),
        root.head(f"{API}/counters/inside:a", **SENT),
        root.get(f"{API}/counters", {"namespace": "likes"}, **SENT),
        root.bulk("read", {"keys": ["likes:a"]}, **SENT),
    ):
        assert answer.status_code in (200, 304)
        assert answer["X-Request-ID"] == "r-7"
    for answer, status in (
        (visitor.do("increment", "likes:a", **SENT), 401),
        (root.at("nowhere:a", **SENT), 404),
        (root.put(f"{API}/counters/likes:a", **SENT), 405),
        (root.do("increment", "likes:a", {"by": 0}, **SENT), 400),
        (root.post(f"{API}/bulk/read", "{", content_type="application/json", **SENT), 400),
        (root.do("increment", "likes:a", {"by": 1}, format="multipart", **SENT), 415),
        (root.do("decrement", "stock:a", **SENT), 409),
    ):
        assert answer.status_code == status
        body = answer.json()
        assert answer["X-Request-ID"] == body["request_id"] == "r-7"
    made = problem(root.at("nowhere:a"), 404)
    assert is_made(made["request_id"])


def test_an_answer_that_caches_share_tells_none(as_: As) -> None:
    """Its next reader is somebody else."""
    answer = as_("anonymous").at("likes:a", **SENT)
    assert "public" in answer["Cache-Control"]
    assert "X-Request-ID" not in answer


def test_a_replay_has_its_own(client: Client) -> None:
    for name in ("first", "second"):
        answer = client.do("adjust", "likes:a", ORDER, HTTP_X_REQUEST_ID=name, **header("one"))
        assert answer["X-Request-ID"] == name
    assert answer["Idempotent-Replayed"] == "true"
    assert CounterAdjustment.objects.get().request_id == "first"
