"""Whatever is sent: never an error of the server, and each refusal is a problem."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_counters.models import Counter
from django_counters.rest.bodies import LARGEST
from django_counters.testing import assert_counts
from tests.rest.conftest import API, API_TESTS, Client, problem

pytestmark = API_TESTS
# The fixtures are the same for all examples: what one has counted does not matter to the next.
bounded = settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JSON = "application/json"
ACTIONS = ("increment", "decrement", "adjust")
PATHS = (*(f"counters/likes:a/{action}" for action in ACTIONS), "bulk/increment", "bulk/read")
ANSWERED = {200, 304, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429}
NAMES = ("by", "to", "key", "keys", "counters", "reason", "expected", "case", "consistency")

numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([2**63, -(2**63), 10**400, 1e400, True, 0, 1, 2])
)
texts = st.one_of(
    st.text(), st.sampled_from(["likes:a", "nowhere:a", "likes:\ud800", "\0", "exact", "cached"])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), texts), inner, max_size=4),
    ),
    max_leaves=12,
)
bodies = st.one_of(values, st.dictionaries(st.sampled_from(NAMES), values, max_size=4))


@pytest.fixture
def root() -> Client:
    """May do everything; its authentication needs no statement."""
    client = Client()
    client.force_authenticate(User.objects.create_superuser("root"))
    return client


def sound(answer: Any) -> Any:
    """Neither an error of the server nor an answer that is not described."""
    assert answer.status_code in ANSWERED, answer.content
    if answer.status_code >= 400:
        problem_type = answer["Content-Type"]
        assert problem_type == "application/problem+json", answer.content
        assert answer.json()["status"] == answer.status_code
        assert "Traceback" not in answer.text
    return answer


def send(client: Any, path: str, body: bytes | str, kind: str = JSON, **extra: Any) -> Any:
    return client.generic("POST", f"{API}/{path}", body, kind, **extra)


class TestAnything:
    @bounded
    @given(path=st.sampled_from(PATHS), body=bodies)
    @example(path=PATHS[0], body={"\ud800": 1})
    @example(path=PATHS[0], body={"\ud800": {"\ud800": 1}})
    @example(path=PATHS[3], body={"counters": [{"key": "likes:\ud800"}]})
    @example(path=PATHS[3], body={"counters": [{"\udfff": "likes:a"}]})
    @example(path=PATHS[4], body={"keys": ["\ud800"]})
    @example(path=PATHS[4], body={"keys": ["nowhere:\ud800"]})
    @example(path=PATHS[4], body={"keys": ["likes:a"], "consistency": "\ud800"})
    @example(path=PATHS[4], body={"keys": ["likes:a"], "consistency": ["\ud800"]})
    @example(path=PATHS[4], body={"keys": ["likes:a"], "consistency": {}})
    @example(path=PATHS[2], body={"to": 1, "reason": "\ud800"})
    @example(path=PATHS[2], body={"to": 1, "reason": "\ue000\uffff"})
    def test_any_json(self, root: Client, path: str, body: Any) -> None:
        sound(send(root, path, json.dumps(body).encode()))

    @bounded
    @given(
        key=st.one_of(st.text(), st.text().map("likes:{}".format)),
        action=st.sampled_from(["", "exact", "history", *ACTIONS]),
    )
    @example(key="likes:" + "x" * 10_000, action="")
    @example(key="likes:\0", action="increment")
    @example(key="likes:a\n", action="increment")
    @example(key="likes:/increment", action="increment")
    @example(key=":", action="increment")
    @example(key=":a", action="increment")
    @example(key="likes:", action="increment")
    def test_any_key(self, root: Client, key: str, action: str) -> None:
        path = quote(key.encode("utf-8", "surrogatepass"), safe="")
        if not path:
            return
        answers = [root.do(action, path)] if action in ACTIONS else [root.at(path, action)]
        for answer in answers:
            sound(answer)
            if answer.status_code == 200:
                assert answer.json()["key"] == key

    @bounded
    @given(key=st.text(st.characters(max_codepoint=255, exclude_characters="\r\n")))
    @example(key="")
    @example(key=" ")
    @example(key="\0")
    @example(key="x" * 255)
    @example(key="x" * 256)
    @example(key="x" * 9000)
    @example(key="\xff\x80")
    @example(key='"8e03978e-40d5-43e8-bc93-6894a57f9324"')
    @example(key="0192d3a0-0000-7000-8000-000000000000")
    def test_any_idempotency_key(self, root: Client, key: str) -> None:
        first = sound(root.do("increment", "likes:k", HTTP_IDEMPOTENCY_KEY=key))
        again = sound(root.do("increment", "likes:k", HTTP_IDEMPOTENCY_KEY=key))
        assert first.status_code == again.status_code
        if first.status_code == 200:
            assert again["Idempotent-Replayed"] == "true"
            assert again.json()["value"] == first.json()["value"]
        else:
            assert {error["field"] for error in first.json()["errors"]} == {"Idempotency-Key"}


@pytest.mark.parametrize("path", ["%FF%FE", "%25%25", "%ED%A0%80", "%", "%00"])
def test_what_is_no_text_in_the_path(root: Client, path: str) -> None:
    sound(root.at(f"likes:a{path}"))
    sound(root.do("increment", f"likes:a{path}"))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("IF_NONE_MATCH", 'W/"'), ("IF_NONE_MATCH", '\x80"0"'), ("RANGE", "bytes=1-0")),
        *(("ACCEPT", "text/html;q=x"), ("ACCEPT", "application/xml"), ("ORIGIN", "http://[")),
        ("CONTENT_LANGUAGE", "\xff"),
    ],
)
def test_headers_that_mean_nothing(header: str, value: str) -> None:
    extra: dict[str, Any] = {f"HTTP_{header}": value}
    assert sound(Client().at("likes:a", **extra)).status_code == 200
    problem(Client().do("increment", "hits:a", **extra), 403, "origin")


NO_BODY = (
    *("{", "}", "{'by': 1}", '{"by": 1,}', '{"by": NaN}', '{"by": Infinity}', '{"by": -Infinity}'),
    *('{"by": 01}', '{"by": 1}{"by": 1}', '{"by": 1, "by": 1}', '{"by": 1, "b\\u0079": 5}'),
    *("[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, '{"by": ' + "9" * 100_000 + "}"),
    *('{"by": 1}\0', '"\\u12', '{"by": 1e999999999}', "null", "true", "3", '"x"', "[]", "[1]"),
)


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_body_is_bad_and_counts_nothing(root: Client, path: str) -> None:
    answered = {text[:20]: sound(send(root, path, text.encode())).status_code for text in NO_BODY}
    assert answered == dict.fromkeys(answered, 400)
    assert not Counter.objects.exists()


@pytest.mark.parametrize("path", PATHS)
def test_what_is_not_json_is_told_so(root: Client, path: str) -> None:
    for kind in (
        *("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
        *("application/jsonp", "application/json+x", "application/vnd.api+json", "nonsense"),
        "application/json, text/plain",
    ):
        for body in (b'{"by": 3}', b"by=3"):
            problem(send(root, path, body, kind), 415)
    assert not Counter.objects.exists()


def test_what_is_json_may_be_written_in_several_ways(root: Client) -> None:
    path = "counters/likes:größe/increment"
    kinds = (JSON, "Application/JSON", "application/json; charset=utf-8")
    answers = [send(root, path, b'{"by": 3}', kind).json()["value"] for kind in kinds]
    assert answers == [3, 6, 9]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_too_large_is_not_read(root: Client, path: str) -> None:
    body = problem(send(root, path, b" " * (LARGEST + 1)), 413, "too-large")
    assert body["most"] == LARGEST
    assert send(root, path, b" " * (LARGEST - 2) + b"{}").status_code in (200, 400)
    assert_counts({"likes:b": 0})


@pytest.mark.parametrize("path", PATHS)
def test_a_body_of_unknown_length_is_not_taken_for_none(root: Client, path: str) -> None:
    answer = send(root, path, b"", JSON, HTTP_TRANSFER_ENCODING="chunked")
    problem(answer, 411, "length-required")
    assert not Counter.objects.exists()
