"""What is answered where something is wrong: RFC 9457, and nothing about our servers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import Http404
from rest_framework import exceptions as drf

from django_counters import errors
from django_counters.errors import Shortfall
from django_counters.rest.problems import ApiError, TooLarge, answer

HOST = "db.internal:5432"
THEN = datetime(2024, 5, 3, tzinfo=UTC)
SHORT: dict[str, Any] = {"key": "stock:a", "requested": 6, "available": 5}
SHORTFALLS = (Shortfall("stock:a", 6, 5, 0),)
# error, status, name, what else a client is told
KNOWN: list[tuple[Exception, int, str, dict[str, Any]]] = [
    (errors.InvalidKey(key="a b", reason="it is bad"), 400, "invalid", {"reason": "it is bad"}),
    (errors.InvalidDelta(delta=0, reason="it is zero"), 400, "invalid", {}),
    (errors.InvalidToken(token="", reason="it is empty"), 400, "invalid", {}),
    (errors.InvalidPeriod(period="year", known="hour, day"), 400, "invalid", {}),
    (errors.InvalidAdjustment(problem="no reason"), 400, "invalid", {}),
    (errors.UnsupportedBounds(key="a:b", strategy="sharded"), 400, "unsupported", {}),
    (errors.UnsupportedToken(what="a:b", reason="it is no UUID"), 400, "unsupported", {}),
    (
        errors.InsufficientCount(**SHORT, floor=0, shortfalls=SHORTFALLS),
        409,
        "insufficient-count",
        {**SHORT, "floor": 0, "shortfalls": [{**SHORT, "bound": 0}]},
    ),
    (
        errors.CeilingExceeded(**SHORT, ceiling=9, shortfalls=()),
        409,
        "ceiling-exceeded",
        {**SHORT, "ceiling": 9, "shortfalls": []},
    ),
    (errors.CounterOverflow(key="a:b", low=-1, high=1), 409, "overflow", {"low": -1, "high": 1}),
    (
        errors.ValueChanged(key="a:b", expected=1, current=2),
        409,
        "value-changed",
        {"key": "a:b", "expected": 1, "current": 2},
    ),
    (
        errors.ApprovalRequired(key="a:b", delta=500, limit=100),
        403,
        "approval-required",
        {"key": "a:b", "delta": 500, "limit": 100},
    ),
    (errors.RecordMissing(key=HOST), 404, "not-found", {}),
    (
        errors.HistoryNotKept(key="a:b", since=THEN),
        404,
        "history-not-kept",
        {"since": "2024-05-03T00:00:00+00:00"},
    ),
    (errors.TokenConflict(token=HOST), 422, "idempotency-key-reused", {}),
    (errors.TokenExpired(token=HOST, created_at=THEN), 422, "idempotency-key-expired", {}),
    (errors.Contention(key=HOST, attempts=3), 503, "busy", {"retry_after": 1}),
    (errors.RetryTransaction(what=HOST), 503, "busy", {"retry_after": 1}),
    (errors.CounterUnavailable(using=HOST, reason=HOST), 503, "unavailable", {"retry_after": 1}),
    (errors.ReadOnlyDatabase(using=HOST), 503, "unavailable", {"retry_after": 1}),
    (errors.LedgerFenced(using=HOST, reason=HOST), 503, "unavailable", {"retry_after": 1}),
    (errors.PartitionMissing(created_at=THEN), 503, "unavailable", {"retry_after": 1}),
    (errors.OutcomeUnknown(using=HOST), 504, "outcome-unknown", {}),
    (OperationalError(HOST), 503, "unavailable", {"retry_after": 1}),
    (InterfaceError(HOST), 503, "unavailable", {"retry_after": 1}),
    (Http404(HOST), 404, "", {}),
    (PermissionDenied(HOST), 403, "", {}),
    (drf.Throttled(wait=2.1), 429, "", {"retry_after": 3}),
    (drf.Throttled(wait=0.0), 429, "", {"retry_after": 1}),
    (drf.Throttled(), 429, "", {}),
    (drf.MethodNotAllowed("PUT"), 405, "", {}),
    (drf.UnsupportedMediaType("text/csv"), 415, "", {}),
    (TooLarge(5), 413, "too-large", {"most": 5}),
    (ApiError(409, "in-progress", "wait", retry_after=1), 409, "in-progress", {"retry_after": 1}),
]


@pytest.mark.parametrize(("error", "status", "name", "told"), KNOWN)
def test_each_error_is_a_problem(
    error: Exception, status: int, name: str, told: dict[str, Any]
) -> None:
    response: Any = answer(error, {})
    assert response.status_code == response.data["status"] == status
    assert response.data["type"] == (f"urn:django-counters:{name}" if name else "about:blank")
    assert response.data["title"]
    assert response.data["detail"]
    assert told.items() <= response.data.items()
    assert response.content_type == "application/problem+json"
    assert response.headers["Cache-Control"] == "no-store"
    retry_after = told.get("retry_after")
    assert response.headers.get("Retry-After") == (retry_after and str(retry_after))
    assert HOST not in str(response.data)
    assert "Error" not in str(response.data)


def test_only_what_is_not_counted_is_said_not_to_be() -> None:
    says = {type(error): answer(error, {}).data["detail"] for error, status, *_ in KNOWN}  # type: ignore[union-attr]
    assert "Nothing was changed" in says[errors.CounterUnavailable]
    assert "Nothing was changed" not in says[errors.OutcomeUnknown]


@pytest.mark.parametrize(
    "error",
    [ValueError(HOST), ProgrammingError(HOST), errors.InvalidConfiguration(problem=HOST)],
)
def test_what_is_our_own_mistake_is_an_error_of_the_server(error: Exception) -> None:
    assert answer(error, {}) is None


def test_a_body_too_large_for_django_says_that_it_is() -> None:
    response: Any = answer(RequestDataTooBig("x"), {})
    assert (response.status_code, response.data["type"]) == (413, "urn:django-counters:too-large")
    assert response.data["most"] == settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def test_the_path_of_a_field_is_told() -> None:
    detail: Any = {"counters": [{}, {"key": ["bad"]}], "non_field_errors": ["both"]}
    response: Any = answer(drf.ValidationError(detail), {})
    assert response.data["errors"] == [
        {"field": "counters[1].key", "detail": "bad"},
        {"field": "", "detail": "both"},
    ]
