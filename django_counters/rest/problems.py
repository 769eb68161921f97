"""What the API answers where it does not do what was asked: RFC 9457, problem details."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions as drf
from rest_framework.response import Response

from django_counters import exceptions as errors

CONTENT_TYPE = "application/problem+json"
_TYPES = "urn:django-counters:"
# Seconds after which it is worth while to ask again.
RETRY_AFTER = 1
_DATABASE_AWAY = (OperationalError, InterfaceError)


class Kind(NamedTuple):
    """What one error means to a client.

    ``data``: which attributes of the error it is told. ``says``: what it is told instead of the
    text of the error, which may be about our servers.
    """

    status: int
    name: str
    data: tuple[str, ...] = ()
    says: str = ""
    retry_after: int | None = None


_UNCHANGED = "Nothing was changed. Try again later."
_AWAY = Kind(503, "unavailable", (), _UNCHANGED, RETRY_AFTER)
_BUSY = Kind(503, "busy", (), "Others come in between. " + _UNCHANGED, RETRY_AFTER)
_UNKNOWN = Kind(
    504,
    "outcome-unknown",
    (),
    "The connection to a server was lost before its answer: it is counted, or not. A repeated call"
    " may count twice, unless it has the Idempotency-Key of this one.",
)
_KINDS: Mapping[type[Exception], Kind] = {
    errors.InsufficientCount: Kind(
        409, "insufficient-count", ("key", "requested", "available", "floor", "shortfalls")
    ),
    errors.CeilingExceeded: Kind(
        409, "ceiling-exceeded", ("key", "requested", "available", "ceiling", "shortfalls")
    ),
    errors.CounterOverflow: Kind(409, "overflow", ("key", "low", "high")),
    errors.ValueChanged: Kind(409, "value-changed", ("key", "expected", "current")),
    errors.ApprovalRequired: Kind(403, "approval-required", ("key", "delta", "limit")),
    errors.RecordMissing: Kind(404, "not-found", (), "There is no such counter."),
    errors.HistoryNotKept: Kind(404, "history-not-kept", ("key", "since")),
    errors.TokenConflict: Kind(
        422, "idempotency-key-reused", (), "The Idempotency-Key was used for another request."
    ),
    errors.TokenExpired: Kind(
        422, "idempotency-key-expired", (), "The Idempotency-Key is too old to be told of."
    ),
    errors.InvalidKey: Kind(400, "invalid", ("reason",)),
    errors.InvalidDelta: Kind(400, "invalid"),
    errors.InvalidPeriod: Kind(400, "invalid"),
    errors.InvalidAdjustment: Kind(400, "invalid"),
    errors.InvalidTags: Kind(400, "invalid", ("reason",)),
    errors.InvalidMoment: Kind(400, "invalid", ("reason",)),
    errors.UnsupportedSeries: Kind(400, "unsupported", ("key", "reason")),
    errors.InvalidToken: Kind(400, "invalid"),
    errors.UnsupportedBounds: Kind(400, "unsupported"),
    errors.UnsupportedToken: Kind(400, "unsupported"),
    errors.Contention: _BUSY,
    errors.RetryTransaction: _BUSY,
    errors.CounterUnavailable: _AWAY,
    errors.ReadOnlyDatabase: _AWAY,
    errors.PartitionMissing: _AWAY,
    errors.LedgerFenced: _AWAY,
    errors.OutcomeUnknown: _UNKNOWN,
}
_FIELDS: Mapping[type[Exception], str] = {
    errors.InvalidKey: "key",
    errors.InvalidDelta: "by",
    errors.InvalidPeriod: "by",
    errors.InvalidToken: "Idempotency-Key",
    errors.InvalidTags: "tags",
    errors.InvalidMoment: "at",
}


class Refused(drf.APIException):
    """One error of the API itself, with what a client is told of it."""

    def __init__(self, status: int, name: str, says: str, **data: Any) -> None:
        super().__init__(says)
        self.status_code = status
        self.name = name
        self.retry_after: int | None = data.pop("retry_after", None)
        self.data = data


class TooLarge(Refused):
    """A body that nobody needs."""

    def __init__(self, most: int) -> None:
        super().__init__(413, "too-large", f"A body may have {most} bytes.", most=most)


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:  # noqa: ARG001
    """The exception handler of the views. What it does not know is an error of the server."""
    if isinstance(error, Http404):
        error = drf.NotFound()
    elif isinstance(error, DjangoPermissionDenied):
        error = drf.PermissionDenied()
    elif isinstance(error, TooManyFieldsSent):
        error = drf.ParseError("There are too many parameters.")
    elif isinstance(error, RequestDataTooBig):
        error = TooLarge(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
    kind = _kind_of(error)
    if kind is not None:
        return _response(kind.status, kind.name, kind.says or str(error), **_data(kind, error))
    if isinstance(error, drf.APIException):
        return _of_framework(error)
    return None


def _kind_of(error: Exception) -> Kind | None:
    for kind in type(error).__mro__:
        if kind in _KINDS:
            return _KINDS[kind]
    # Of our own statements it is said what became of them: this is one of another app's.
    return _AWAY if isinstance(error, _DATABASE_AWAY) else None


def _data(kind: Kind, error: Exception) -> dict[str, Any]:
    data = {name: _plain(getattr(error, name)) for name in kind.data}
    for known, field in _FIELDS.items():
        if isinstance(error, known):
            data["errors"] = [{"field": field, "detail": str(error)}]
    if kind.retry_after is not None:
        data["retry_after"] = kind.retry_after
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [part._asdict() for part in value]
    return value if isinstance(value, int | str) or value is None else value.isoformat()


def _of_framework(error: drf.APIException) -> Response:
    headers = {}
    if header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = header
    data: dict[str, Any] = {}
    if isinstance(error, drf.ValidationError):
        data["errors"] = list(_flat("", error.detail))
        response = _response(400, "invalid", "The request is not valid.", **data)
    elif isinstance(error, Refused):
        says = str(error.detail)
        response = _response(
            error.status_code, error.name, says, retry_after=error.retry_after, **error.data
        )
    else:
        wait = getattr(error, "wait", None)
        if wait is not None:
            data["retry_after"] = max(1, -int(-wait // 1))
        elif error.status_code == 503:
            data["retry_after"] = RETRY_AFTER
        response = _response(error.status_code, "", _in_words(error), **data)
    for name, value in headers.items():
        response[name] = value
    return response


def _in_words(error: drf.APIException) -> str:
    """What it says; those of simplejwt say it beside data of their own."""
    detail: Any = error.detail
    if isinstance(detail, Mapping):
        detail = detail.get("detail", error.default_detail)
    return " ".join(map(str, detail)) if isinstance(detail, list) else str(detail)


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


def _response(status: int, name: str, detail: str, **data: Any) -> Response:
    retry_after = data.get("retry_after")
    if retry_after is None:
        data.pop("retry_after", None)
    body = {
        "type": f"{_TYPES}{name}" if name else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **data,
    }
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    headers["Cache-Control"] = "no-store"
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)
