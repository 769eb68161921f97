"""Requests that change counters, and what is true of their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.test import override_settings

from django_counters.models import CounterToken
from tests.rest.conftest import API, KINDS, Client

# Several that are cached are counted when the transaction around them, if there is one, commits.
SEVERAL_CACHED = pytest.param("bulk cached", marks=pytest.mark.django_db(transaction=True))
BULKS = ["bulk exact", "bulk sharded", "bulk slotted field", SEVERAL_CACHED, "bulk cached field"]
CASES = [*KINDS, *BULKS, "decrement", "adjust", "adjust cached"]
# Of these Redis knows no token.
WITHOUT_TOKEN = ["cached field", SEVERAL_CACHED, "bulk cached field"]
BESIDE = ["cached", *WITHOUT_TOKEN]
# What is part of a transaction: each strategy, and each action.
WITHIN = [*("exact", "sharded", "ledger", "slotted field"), "bulk exact", "adjust", "adjust cached"]


class Case(NamedTuple):
    """A request, one that is not the same, and by how much the first changes which counters."""

    path: str
    body: dict[str, Any]
    other: dict[str, Any]
    counts: dict[str, int]


def case_of(what: str, keys: dict[str, str]) -> Case:
    if what.startswith("bulk "):
        return bulk(keys[what.removeprefix("bulk ")])
    action, _, key = what.partition(" ")
    if action == "adjust":
        order = {"by": 3, "reason": "found in a drawer"}
        return one("adjust", keys[key or "exact"], order, {**order, "by": 4}, 3)
    if action == "decrement":
        return one("decrement", keys["exact"], {"by": 3}, {"by": 4}, -3)
    return one("increment", keys[what], {"by": 3}, {"by": 4}, 3)


def one(action: str, key: str, body: dict[str, Any], other: dict[str, Any], change: int) -> Case:
    return Case(f"{API}/counters/{key}/{action}", body, other, {key: change})


def bulk(key: str) -> Case:
    keys = [key] if key.startswith("testapp") else [key, f"{key}b"]
    body, other = ({"counters": [{"key": key, "by": by} for key in keys]} for by in (3, 4))
    return Case(f"{API}/bulk/increment", body, other, dict.fromkeys(keys, 3))


def send(client: Client, case: Case, key: str = "one", **other: Any) -> Any:
    return client.post(other.get("path", case.path), other.get("body", case.body), **header(key))


def header(key: str) -> dict[str, Any]:
    return {"HTTP_IDEMPOTENCY_KEY": key}


def counted(client: Client, case: Case) -> dict[str, int]:
    return {key: client.at(key, "exact").json()["value"] for key in case.counts}


def times(case: Case, number: int) -> dict[str, int]:
    return {key: change * number for key, change in case.counts.items()}


def plain(body: Any) -> Any:
    """An answer without that it was given before."""
    if isinstance(body, dict):
        return {name: plain(part) for name, part in body.items() if name != "replayed"}
    return [plain(part) for part in body] if isinstance(body, list) else body


def assert_first(answer: Any) -> None:
    assert answer.status_code == 200, answer.content
    assert "Idempotent-Replayed" not in answer
    assert answer.json()["replayed"] is False


def assert_replayed(answer: Any, first: Any) -> None:
    assert answer.status_code == 200, answer.content
    assert answer["Idempotent-Replayed"] == "true"
    assert answer.json()["replayed"] is True
    assert plain(answer.json()) == plain(first.json())


def pass_lease() -> None:
    """Let the time be over that one has who is at work."""
    claims = CounterToken._base_manager.filter(result__contains='"until"')
    ((digest, result),) = claims.values_list("digest", "result")
    kept = json.loads(result)
    moved = json.dumps({**kept, "until": kept["until"] - 7200})
    CounterToken._base_manager.filter(digest=digest).update(result=moved)


@contextmanager
def through(url: str, prefix: str) -> Iterator[None]:
    """Redis is at another address."""
    backend = "django.core.cache.backends.redis.RedisCache"
    declared = {"default": {"BACKEND": backend, "LOCATION": url, "KEY_PREFIX": prefix}}
    with override_settings(CACHES=declared):
        yield
