"""Describes each view in the schema of the API, for drf-spectacular."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)

from django_counters.adjustments.orders import LONGEST_REQUEST_ID
from django_counters.rest import bodies, parameters, request_bodies, values
from django_counters.rest.problems import CONTENT_TYPE

_View = TypeVar("_View", bound=type[Any])

KEY = parameters.EXAMPLE
_MOMENT = "2026-03-01T12:00:00.000000Z"
_READING = {"key": KEY, "value": 42, "as_of": _MOMENT, "consistency": "cached"}
_CHANGE = {**_READING, "value": 45, "applied": 3, "consistency": "exact", "replayed": False}
_POINTS = [{"moment": _MOMENT, "value": 42, "change": 3}]
_DAY = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z", "value": 42}
_SERIES = {"key": KEY, "per": "day", "tz": "UTC", "as_of": _MOMENT, "total": 42, "points": [_DAY]}
_RANKED = {"key": "views:home", "value": 42, "before": 17}
_SPLIT = {"tags": {"country": "DE"}, "total": 42, "points": [_DAY]}
_DISTINCT = {"value": 42, "exact": True, "error": 0.0}
_UNIQUE = {"key": KEY, "per": "day", "tz": "UTC", "as_of": _MOMENT, **_DISTINCT}

_HOLD = {
    **{"key": "stock:SKU-1", "token": "basket-17", "quantity": 2, "sold": 0, "state": "held"},
    **{"expires_at": _MOMENT, "available": 8, "replayed": False},
}
_WANTED = {"id": 17, "key": KEY, "to": 500, "by": None, "expected": 42}
_REQUEST = {
    **_WANTED,
    **{"reason": "Bots, found by hand.", "case": "TRUST-81", "allow_below_floor": False},
    **{
        "requester": "clerk",
        "created_at": _MOMENT,
        "state": "waiting",
        "decider": None,
        "decided_at": None,
    },
    **{"note": "", "adjustment": None},
}
_DECIDED = {**_REQUEST, "decider": "boss", "decided_at": _MOMENT, "replayed": False}


def _header(
    name: str, says: str, statuses: list[int], *, always: bool = True, **schema: Any
) -> OpenApiParameter:
    schema.setdefault("type", "string")
    return OpenApiParameter(name, schema, OpenApiParameter.HEADER, always, says, response=statuses)


class Problem(NamedTuple):
    """The meaning of a status, and its types of problems."""

    says: str
    types: tuple[str, ...] = ()


PROBLEMS: Mapping[int, Problem] = {
    400: Problem("Something is wrong with the request.", ("invalid", "unsupported")),
    401: Problem("Say who you are first."),
    403: Problem("You may not do this.", ("approval-required", "own-request", "origin")),
    404: Problem(
        "There is no such counter, or none that you may know of.",
        ("not-found", "history-not-kept"),
    ),
    409: Problem(
        "A bound or the value does not admit it, or another request has this Idempotency-Key and"
        " is not done. Nothing was changed.",
        (
            *("insufficient-count", "ceiling-exceeded", "overflow", "value-changed"),
            *("hold-expired", "hold-ended", "unsupported-hold"),
            *("request-decided", "in-progress", "namespace-full"),
        ),
    ),
    411: Problem("A body needs a Content-Length.", ("length-required",)),
    413: Problem("The body is too large.", ("too-large",)),
    415: Problem("The body is not JSON."),
    422: Problem(
        "The Idempotency-Key was used for another request.",
        ("idempotency-key-reused", "idempotency-key-expired"),
    ),
    429: Problem(
        "Too many requests, or a period has counted what it may. Nothing was changed.",
        ("quota-exceeded",),
    ),
    503: Problem("A server is away or busy. Nothing was changed.", ("unavailable", "busy")),
    504: Problem(
        "A server was lost before its answer: it is counted, or not. Send it again with its"
        " Idempotency-Key; without one, it may count twice.",
        ("outcome-unknown",),
    ),
}
_ANY = (400, 401, 403, 429, 503)
_ONE = (*_ANY, 404)
_MANY = (*_ANY, 411, 413, 415)
_CHANGES = (*_MANY, 404, 409, 422, 504)
_LATER = [409, 429, 503]
_OF_LIMITS = (
    (
        "RateLimit-Policy",
        "The limit that is nearest, where one was asked: `q` requests in `w` seconds. Not in"
        " answers that caches may share.",
        '^"[^"]+";q=[0-9]+;w=[0-9]+$',
    ),
    (
        "RateLimit",
        "The rest of the limit: `r` requests, and no more within `t` seconds.",
        '^"[^"]+";r=[0-9]+;t=[0-9]+$',
    ),
)


class Operation(NamedTuple):
    """One view: what it does, its parameters and body, and its answer."""

    summary: str
    promise: str
    statuses: tuple[int, ...]
    answer: type[Any]
    example: Mapping[str, Any]
    parameters: tuple[OpenApiParameter, ...] = ()
    body: type[Any] | None = None
    sent: Mapping[str, Any] | None = None
    #: The answer where a second person is asked instead.
    asks: type[Any] | None = None


OPERATIONS: Mapping[str, Operation] = {
    "read": Operation(
        "Read a counter, from a cache where it has one.",
        "As old as Cache-Control says, at most. Counts nothing.",
        _ONE,
        bodies.ReadingAnswer,
        _READING,
        (parameters.KEY, parameters.SEEN),
    ),
    "read_exact": Operation(
        "Read the exact value of a counter.",
        "Misses nothing that was answered before `as_of`. Counts nothing.",
        _ONE,
        bodies.ReadingAnswer,
        {**_READING, "consistency": "exact"},
        (parameters.KEY, parameters.SEEN),
    ),
    "history": Operation(
        "Read how a named counter went.",
        "The last 24 hours, 30 days, 26 weeks or 12 months.",
        _ONE,
        bodies.HistoryAnswer,
        {"key": KEY, "by": "hour", "source": "ledger", "points": _POINTS},
        (parameters.KEY, parameters.PERIOD),
    ),
    "series": Operation(
        "Read what was counted over time and by tag.",
        f"Without a time, all that is kept. At most {parameters.MOST_POINTS} points times splits."
        " Cached counters are told as of the last flush, and `as_of` is null before it.",
        _ONE,
        bodies.SeriesAnswer,
        {**_SERIES, "splits": [_SPLIT]},
        (parameters.KEY, *parameters.OF_SERIES, parameters.SEEN),
    ),
    "unique": Operation(
        "Read how many distinct actors there were.",
        "With `per`, of each period, too: an actor of two periods is one in `value`."
        " Exact up to 512, else an estimate with its relative standard error. Without a time, of"
        " all that is kept.",
        _ONE,
        bodies.UniqueAnswer,
        {**_UNIQUE, "points": [{**_DISTINCT, "start": _DAY["start"], "end": _DAY["end"]}]},
        (parameters.KEY, *parameters.OF_SERIES, parameters.SEEN),
    ),
    "top": Operation(
        "Read which counters of a namespace have counted most.",
        "In the present period, or, with `against`, which have risen most since an earlier one. The"
        " namespace names the period in `TOP`. Cached counters are ranked as of the last flush.",
        _ONE,
        bodies.TopAnswer,
        {"namespace": "views", "per": "week", "as_of": _MOMENT, "counters": [_RANKED]},
        parameters.OF_TOP,
    ),
    "list": Operation(
        "Read the counters of a namespace, page by page.",
        "In the order of their keys, with exact values. A counter that was there before the first"
        " page and still is at the last one is in one of them, once. It is listed once it has a"
        " row: at once where the API has counted it, else from the next flush or rollup on.",
        _ONE,
        bodies.ListAnswer,
        {
            "next": "https://example.org/api/v1/counters?namespace=likes&cursor=bGlrZXM6cG9zdDo0NTY",
            "previous": None,
            "results": [{**_READING, "consistency": "exact"}],
        },
        parameters.OF_LIST,
    ),
    "increment": Operation(
        "Add to a counter.",
        "By one, where nothing is said. It is never above its ceiling.",
        _CHANGES,
        bodies.ChangeAnswer,
        _CHANGE,
        (parameters.KEY, parameters.ONCE),
        bodies.ChangeBody,
        {"by": 3},
    ),
    "decrement": Operation(
        "Take from a counter.",
        "By one, where nothing is said. It is never below its floor.",
        _CHANGES,
        bodies.ChangeAnswer,
        {**_CHANGE, "value": 39, "applied": -3},
        (parameters.KEY, parameters.ONCE),
        bodies.ChangeBody,
        {"by": 3},
    ),
    "hold": Operation(
        "Hold a quantity of a counter for a while.",
        "The Idempotency-Key is needed: it names the hold. Without a commit it comes back.",
        _CHANGES,
        bodies.HoldAnswer,
        _HOLD,
        (parameters.KEY, parameters.HOLD),
        bodies.HoldBody,
        {"quantity": 2, "minutes": 15},
    ),
    "commit_hold": Operation(
        "Sell what you hold.",
        "All of it, or a part: the rest goes back. Sent again, it changes nothing.",
        _CHANGES,
        bodies.HoldAnswer,
        {**_HOLD, "state": "committed", "sold": 1, "available": None},
        (parameters.KEY,),
        bodies.CommitBody,
        {"token": "basket-17", "quantity": 1},
    ),
    "release_hold": Operation(
        "Give back what you hold.",
        "Sent again, it changes nothing.",
        _CHANGES,
        bodies.HoldAnswer,
        {**_HOLD, "state": "released", "available": None},
        (parameters.KEY,),
        bodies.ReleaseBody,
        {"token": "basket-17"},
    ),
    "extend_hold": Operation(
        "Hold it for longer.",
        "For at least so many minutes from now, and never for less than before.",
        _CHANGES,
        bodies.HoldAnswer,
        {**_HOLD, "available": None},
        (parameters.KEY,),
        bodies.ExtendBody,
        {"token": "basket-17", "minutes": 30},
    ),
    "adjust": Operation(
        "Correct a counter.",
        "The change, its reason and who made it are kept together, for ever. One that needs a"
        " second person is not made: it is answered with 202, and with a request that waits.",
        _CHANGES,
        bodies.AdjustAnswer,
        {**_CHANGE, "value": 40, "applied": -2, "number": 17, "before": 42},
        (parameters.KEY, parameters.ONCE),
        bodies.AdjustBody,
        {"to": 40, "expected": 42, "reason": "Two were counted twice."},
        request_bodies.RequestAnswer,
    ),
    "requests": Operation(
        "Read the requests for adjustments of a namespace, page by page.",
        "The latest first. Who may approve sees all of them, and who may adjust their own. A page"
        " may have fewer than `limit`, also where `next` is not null.",
        _ONE,
        request_bodies.RequestListAnswer,
        {
            "next": "https://example.org/api/v1/requests?namespace=likes&cursor=MTc",
            "previous": None,
            "results": [_REQUEST],
        },
        parameters.OF_REQUESTS,
    ),
    "request": Operation(
        "Read a request for an adjustment.",
        "While it waits, `value` and `last` are what an approver has to have seen.",
        _ONE,
        request_bodies.RequestReadAnswer,
        {**_REQUEST, "value": 43, "last": 0},
        (parameters.NUMBER,),
    ),
    "approve": Operation(
        "Approve the request of somebody else.",
        "One step decides and adjusts. Of several people who decide at once, one does.",
        _CHANGES,
        request_bodies.ApprovedAnswer,
        {
            **{**_DECIDED, "state": "approved", "adjustment": 17},
            **{"before": 43, "value": 500, "applied": 457},
        },
        (parameters.NUMBER, parameters.ONCE),
        request_bodies.ApproveBody,
        {"expected": 43, "last": 0},
    ),
    "reject": Operation(
        "Reject the request of somebody else.",
        "Changes no counter.",
        _CHANGES,
        request_bodies.RequestAnswer,
        {**_DECIDED, "state": "rejected", "note": "They were no bots."},
        (parameters.NUMBER, parameters.ONCE),
        request_bodies.RejectBody,
        {"note": "They were no bots."},
    ),
    "read_many": Operation(
        f"Read up to {bodies.MOST_ITEMS} counters.",
        "Those that are not there and those that you may not know of are listed alike.",
        _MANY,
        bodies.ReadManyAnswer,
        {"counters": [_READING], "unknown": ["likes/nothing"]},
        (),
        bodies.ReadManyBody,
        {"keys": [KEY, "likes/nothing"]},
    ),
    "increment_many": Operation(
        f"Add to up to {bodies.MOST_ITEMS} counters.",
        "All or none. No counter may be there twice.",
        _CHANGES,
        bodies.ChangeManyAnswer,
        {"counters": [_CHANGE], "replayed": False},
        (parameters.ONCE,),
        bodies.ChangeManyBody,
        {"counters": [{"key": KEY, "by": 3}]},
    ),
}


def described(name: str) -> Callable[[_View], _View]:
    """Describe a view in the schema."""
    operation = OPERATIONS[name]
    examples = [OpenApiExample("answer", operation.example, response_only=True)]
    if operation.sent:
        examples.append(OpenApiExample("request", operation.sent, request_only=True))
    schema = extend_schema(
        operation_id=f"counters_{name}",
        summary=operation.summary,
        description=operation.promise,
        tags=["counters"],
        request={"application/json": operation.body} if operation.body else None,
        parameters=[*operation.parameters, parameters.REQUEST_ID, *_headers(operation)],
        responses=dict(_responses(operation)),
        examples=examples,
    )
    method = "post" if operation.body else "get"
    decorate: Callable[[_View], _View] = extend_schema_view(**{method: schema})
    return decorate


def _responses(operation: Operation) -> Iterable[tuple[Any, Any]]:
    yield (200, "application/json"), OpenApiResponse(operation.answer, "It is done.")
    if operation.asks:
        says = "Nothing is changed yet: a second person has to approve it."
        yield (202, "application/json"), OpenApiResponse(operation.asks, says)
    if parameters.SEEN in operation.parameters:
        yield 304, OpenApiResponse(description="The value is the one that you have.")
    for status in sorted(operation.statuses):
        says, types = PROBLEMS[status]
        listed = f" Types: {', '.join(f'`{name}`' for name in types)}." if types else ""
        yield (status, CONTENT_TYPE), OpenApiResponse(bodies.Problem, says + listed)


def _headers(operation: Operation) -> Iterable[OpenApiParameter]:
    done = [200, 202] if operation.asks else [200]
    everywhere = [*done, *operation.statuses]
    if operation.asks:
        yield _header("Location", "The address of the request.", [202], format="uri-reference")
    if parameters.SEEN in operation.parameters:
        everywhere.append(304)
        says = "Stands for the value, whenever it was read."
        yield _header("ETag", says, [200, 304], pattern='^W/"-?[0-9]+"$')
    pattern = f"^[ -~]{{1,{LONGEST_REQUEST_ID}}}$"
    says = "Names the request. Not in answers that shared caches may keep."
    yield _header("X-Request-ID", says, everywhere, always=False, pattern=pattern)
    yield _header("Cache-Control", "Who may keep the answer, and for how long.", everywhere)
    if {parameters.ONCE, parameters.HOLD} & set(operation.parameters):
        says = "The answer is that of an earlier request with this Idempotency-Key."
        yield _header("Idempotent-Replayed", says, done, always=False, enum=["true"])
    says = "Seconds after which it is worth while to ask again, where that is known."
    yield _header("Retry-After", says, _LATER, always=False, type="integer", minimum=1)
    for name, says, pattern in _OF_LIMITS:
        yield _header(name, says, [*done, 429], always=False, pattern=pattern)
    yield _header("WWW-Authenticate", "How to say it.", [401], always=False)


class _OfObjects(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Prefixes the names of components, which share a document with those of the project."""

    target_class = bodies.Described
    match_subclasses = True

    def get_name(self, *_: Any, **__: Any) -> str:
        return f"Counter{type(self.target).__name__}"

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        found = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        for name, more in self.target.of_fields.items():
            found["properties"][name].update(more)
        return {**found, **self.target.says}


class _OfWords(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Inlines enumerations, which Spectacular would name after their fields."""

    target_class = values.Word

    def get_name(self) -> str:
        field = self.target
        return f"Counter{type(field.parent).__name__}{field.field_name.capitalize()}"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"type": "string", "enum": list(self.target.choices)}
