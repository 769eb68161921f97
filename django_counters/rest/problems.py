"""The errors that the API answers: problem details, as in RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from math import ceil
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions as drf
from rest_framework.response import Response

from django_counters import clock, errors, features

CONTENT_TYPE = "application/problem+json"
_TYPES = "urn:django-counters:"
# Seconds.
RETRY_AFTER = 1


class ProblemKind(NamedTuple):
    """The answer to one kind of error.

    ``data``: the attributes of the error that it contains. ``says``: its text, where that of the
    error may be about our servers. ``field``: the argument that is wrong.
    """

    status: int
    name: str
    data: tuple[str, ...] = ()
    says: str = ""
    retry_after: int | None = None
    field: str = ""


_UNCHANGED = "Nothing was changed. Try again later."
_AWAY = ProblemKind(503, "unavailable", (), _UNCHANGED, RETRY_AFTER)
_BUSY = ProblemKind(503, "busy", (), "Others come in between. " + _UNCHANGED, RETRY_AFTER)
_UNKNOWN = ProblemKind(
    504,
    "outcome-unknown",
    (),
    "The connection to a server was lost before its answer: it is counted, or not. A repeated call"
    " may count twice, unless it has the Idempotency-Key of this one.",
)
_KINDS: Mapping[type[Exception], ProblemKind] = {
    errors.InsufficientCount: ProblemKind(
        409, "insufficient-count", ("key", "requested", "available", "floor", "shortfalls")
    ),
    errors.CeilingExceeded: ProblemKind(
        409, "ceiling-exceeded", ("key", "requested", "available", "ceiling", "shortfalls")
    ),
    errors.QuotaExceeded: ProblemKind(
        429,
        "quota-exceeded",
        ("key", "requested", "available", "ceiling", "period", "resets_at", "shortfalls"),
    ),
    errors.CounterOverflow: ProblemKind(409, "overflow", ("key", "low", "high")),
    errors.ValueChanged: ProblemKind(409, "value-changed", ("key", "expected", "current")),
    errors.ApprovalRequired: ProblemKind(403, "approval-required", ("key", "delta", "limit")),
    errors.RequestDecided: ProblemKind(409, "request-decided", ("request", "state", "decider")),
    errors.RecordMissing: ProblemKind(404, "not-found", (), "There is no such counter."),
    errors.HistoryNotKept: ProblemKind(404, "history-not-kept", ("key", "since")),
    errors.TokenConflict: ProblemKind(
        422, "idempotency-key-reused", (), "The Idempotency-Key was used for another request."
    ),
    errors.TokenExpired: ProblemKind(
        422, "idempotency-key-expired", (), "The Idempotency-Key is too old to be told of."
    ),
    errors.InvalidKey: ProblemKind(400, "invalid", ("reason",), field="key"),
    errors.InvalidDelta: ProblemKind(400, "invalid", field="by"),
    errors.InvalidPeriod: ProblemKind(400, "invalid", field="by"),
    errors.InvalidAdjustment: ProblemKind(400, "invalid"),
    errors.InvalidTags: ProblemKind(400, "invalid", ("reason",), field="tags"),
    errors.InvalidMoment: ProblemKind(400, "invalid", ("reason",), field="at"),
    errors.InvalidActor: ProblemKind(400, "invalid", ("reason",), field="who"),
    errors.UnsupportedCondition: ProblemKind(400, "unsupported", ("key", "reason")),
    errors.UnsupportedSeries: ProblemKind(400, "unsupported", ("key", "reason")),
    errors.InvalidToken: ProblemKind(400, "invalid", field="Idempotency-Key"),
    errors.UnsupportedBounds: ProblemKind(400, "unsupported"),
    errors.UnsupportedToken: ProblemKind(400, "unsupported"),
    errors.Contention: _BUSY,
    errors.RetryTransaction: _BUSY,
    errors.CounterUnavailable: _AWAY,
    errors.ReadOnlyDatabase: _AWAY,
    errors.FunctionDenied: _AWAY,
    errors.PartitionMissing: _AWAY,
    errors.LedgerFenced: _AWAY,
    errors.OutcomeUnknown: _UNKNOWN,
    # Our own statements raise errors of ours, so these are of another app.
    OperationalError: _AWAY,
    InterfaceError: _AWAY,
}


class ApiError(drf.APIException):
    """An error of the API itself, with data for the client."""

    def __init__(self, status: int, name: str, says: str, **data: Any) -> None:
        super().__init__(says)
        self.status_code = status
        self.name = name
        self.retry_after: int | None = data.pop("retry_after", None)
        self.data = data


class TooLarge(ApiError):
    """A body that is too large."""

    def __init__(self, most: int) -> None:
        super().__init__(413, "too-large", f"A body may have {most} bytes.", most=most)


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:  # noqa: ARG001
    """The exception handler of the views. An unknown error is one of the server."""
    if isinstance(error, Http404):
        error = drf.NotFound()
    elif isinstance(error, DjangoPermissionDenied):
        error = drf.PermissionDenied()
    elif isinstance(error, TooManyFieldsSent):
        error = drf.ParseError("There are too many parameters.")
    elif isinstance(error, RequestDataTooBig):
        error = TooLarge(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    kinds = _kinds()
    kind = next((kinds[one] for one in type(error).__mro__ if one in kinds), None)
    if kind is not None:
        says, data = kind.says or str(error), _data(kind, error)
        return _response(kind.status, kind.name, says, _wait(kind, error), **data)
    return _of_framework(error) if isinstance(error, drf.APIException) else None


@cache
def _kinds() -> Mapping[type[Exception], ProblemKind]:
    """The errors of this package and of the apps that add routes."""
    kinds = dict(_KINDS)
    for module in features.rest_modules():
        kinds |= getattr(module, "PROBLEMS", {})
    return kinds


def _wait(kind: ProblemKind, error: Exception) -> int | None:
    """After how many seconds it may be tried again; None where nobody can say."""
    if isinstance(error, errors.QuotaExceeded):
        if any(one.requested > one.bound for one in error.shortfalls):
            # More than a whole quota: no period will have room for it.
            return None
        left = (error.resets_at - clock.utc()).total_seconds()
        # A period that is over never has its quota again.
        return ceil(left) if left > 0 else None
    return kind.retry_after


def _data(kind: ProblemKind, error: Exception) -> dict[str, Any]:
    data = {name: _plain(getattr(error, name)) for name in kind.data}
    if kind.field:
        data["errors"] = [{"field": kind.field, "detail": str(error)}]
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [part._asdict() for part in value]
    return value if isinstance(value, int | str) or value is None else value.isoformat()


def _of_framework(error: drf.APIException) -> Response:
    if isinstance(error, drf.ValidationError):
        wrong = list(_flat("", error.detail))
        response = _response(400, "invalid", "The request is not valid.", errors=wrong)
    elif isinstance(error, ApiError):
        says = str(error.detail)
        response = _response(error.status_code, error.name, says, error.retry_after, **error.data)
    else:
        wait = getattr(error, "wait", None)
        if wait is None and error.status_code == 503:
            wait = RETRY_AFTER
        retry_after = None if wait is None else max(1, ceil(wait))
        detail: Any = error.detail
        if isinstance(detail, Mapping):
            # Errors of simplejwt have their text beside other data.
            detail = detail.get("detail", error.default_detail)
        says = " ".join(map(str, detail)) if isinstance(detail, list) else str(detail)
        response = _response(error.status_code, "", says, retry_after)
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    return response


def _flat(path: str, detail: Any) -> Any:
    if isinstance(detail, Mapping):
        for name, part in detail.items():
            own = "" if name == "non_field_errors" else str(name)
            yield from _flat(f"{path}.{own}".strip("."), part)
    elif isinstance(detail, list):
        for number, part in enumerate(detail):
            yield from _flat(f"{path}[{number}]" if isinstance(part, Mapping) else path, part)
    else:
        yield {"field": path, "detail": str(detail)}


def _response(
    status: int, name: str, detail: str, retry_after: int | None = None, **data: Any
) -> Response:
    headers = {"Cache-Control": "no-store"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
        data["retry_after"] = retry_after
    body = {
        "type": f"{_TYPES}{name}" if name else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **data,
    }
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)
