"""The base of the API's views: idempotent requests, and the admission of counters they create."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple, NoReturn
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError, connections
from django.http import HttpRequest, HttpResponseBase
from django.urls import register_converter
from django.urls.converters import StringConverter
from django.utils import timezone
from django.utils.cache import get_conditional_response
from rest_framework import exceptions as drf
from rest_framework import permissions, renderers, views
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import clock, features, types
from django_counters.access import ANYONE, BEACON, Access, created_key
from django_counters.adjustments.adjustment import request_id_of
from django_counters.errors import CounterError, OutcomeUnknown
from django_counters.event import PLAIN, Event
from django_counters.principal import principal_of
from django_counters.registry import registry
from django_counters.rest.bodies import Body, OnlyJSON, StrictJSONParser, check_carried, checker
from django_counters.rest.permissions import CounterPermission, MayRead, is_anonymous, is_user
from django_counters.rest.problems import ApiError, answer
from django_counters.rest.targets import NamedTarget, Target, access_to, targets_of
from django_counters.stores.sql.claims import SqlTokens
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import Token, check_token, mint
from django_counters.write import pipeline

# Requests with an Idempotency-Key: they are done once, however often they are sent.

HEADER = "HTTP_IDEMPOTENCY_KEY"
# A string of RFC 8941.
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPED = re.compile(r'\\(["\\])')
# How long a request may take that changes something outside of the database.
_LEASE = timedelta(seconds=10)
# The end of a lease whose holder has counted nothing.
_NOT_COUNTED = 0
Answer = dict[str, Any]
Work = Callable[[UUID | None], Answer]


class IdempotentRequest(NamedTuple):
    """One request with an Idempotency-Key.

    ``joins``: its change is part of a transaction of the database ``using``.
    ``resumes``: otherwise, the change counts once with the token that the work is given.
    """

    token: Token
    fingerprint: bytes
    using: str
    joins: bool
    resumes: bool

    def do(self, work: Work) -> tuple[Answer, bool]:
        """Do the work, or return the answer of the request that did it, and whether it's that.

        Raises:
            Refused: another request is doing it (409).
            TokenConflict: the key was used for another request.
            OutcomeUnknown: another request did not finish it, and may have counted.
        """
        return self._within_transaction(work) if self.joins else self._claimed_first(work)

    def _within_transaction(self, work: Work) -> tuple[Answer, bool]:
        tokens = registry.tokens(self.using)
        with tokens.all_or_nothing():
            kept = self._claim(tokens)
            if kept is not None and "body" in kept:
                return kept["body"], True
            if kept is not None and kept["until"]:
                # Another request began it when the counter was still outside of the database.
                raise OutcomeUnknown(using=self.using)
            body = work(None)
            tokens.keep(self.token, {"body": body})
        return body, False

    def _claimed_first(self, work: Work) -> tuple[Answer, bool]:
        tokens = registry.tokens(self.using)
        with tokens.all_or_nothing():
            kept = self._claim(tokens)
            if kept is not None and "body" in kept:
                return kept["body"], True
            attempt = self._attempt(kept)
            tokens.keep(self.token, attempt)
        try:
            body = work(UUID(attempt["token"]) if self.resumes else None)
        except OutcomeUnknown:
            if self.resumes:
                # With its token it counts once, so the next request need not wait.
                self._release(tokens, {**attempt, "until": clock.utc().timestamp()}, attempt)
            raise
        except (CounterError, APIException, OperationalError, InterfaceError):
            # After these errors nothing was counted; after any other, it is unknown.
            self._release(tokens, {**attempt, "until": _NOT_COUNTED}, attempt)
            raise
        # It is counted, also if this fails. Then the same key is answered that the outcome is
        # unknown, and it is never counted again.
        with suppress(CounterError, Error):
            tokens.keep(self.token, {"body": body})
        return body, False

    def _claim(self, tokens: SqlTokens) -> Mapping[str, Any] | None:
        if not tokens.is_alone(self.token):
            raise _in_progress()
        return tokens.claim(self.token, self.fingerprint, _no_entry)

    def _attempt(self, kept: Mapping[str, Any] | None) -> Mapping[str, Any]:
        now = clock.utc()
        if kept is None:
            token = mint(now).hex
        elif kept["until"] > now.timestamp():
            raise _in_progress()
        elif kept["until"] and not self.resumes:
            raise OutcomeUnknown(using=self.using)
        else:
            token = kept["token"]
        return {"token": token, "until": (now + _LEASE).timestamp()}

    def _release(
        self, tokens: SqlTokens, left: Mapping[str, Any], attempt: Mapping[str, Any]
    ) -> None:
        """Return the lease early, unless another request has taken over after its end."""
        with suppress(CounterError, Error), tokens.all_or_nothing():
            if not self.resumes or (
                tokens.is_alone(self.token)
                and tokens.claim(self.token, self.fingerprint, _no_entry) == attempt
            ):
                tokens.keep(self.token, left)


def once_of(
    request: Request, asked: Mapping[str, Any], using: str, *, joins: bool, resumes: bool
) -> IdempotentRequest | None:
    """The idempotency of a request; None without a key.

    A key belongs to the principal, the method and the path of the request.

    Raises:
        InvalidToken: the key is empty, or longer than 255 characters.
    """
    key = key_of(request)
    if key is None:
        return None
    route = "\n".join((principal_of(request), str(request.method), request.path))
    scope = hashlib.sha256(route.encode("utf-8", "surrogatepass")).hexdigest()
    text = json.dumps(asked, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    token = check_token(Token(key, scope))
    return IdempotentRequest(token, fingerprint, using, joins, resumes)


def key_of(request: Request) -> str | None:
    """The Idempotency-Key of a request, if it has one.

    It has none of the quotes of a structured field, which some clients leave out.
    """
    given = request.META.get(HEADER)
    if given is None:
        return None
    found = _QUOTED.fullmatch(given.strip())
    return _ESCAPED.sub(r"\1", found[1]) if found else given


def _in_progress() -> ApiError:
    says = "A request with this Idempotency-Key is being worked on."
    return ApiError(409, "in-progress", says, retry_after=1)


def _no_entry(key: str, delta: int) -> bytes:  # noqa: ARG001
    return b""


# The admission of new counters.


logger = logging.getLogger("django_counters")


class AdmissionRefusal(Enum):
    """Why counters may not be created."""

    NAME = auto()
    ROOM = auto()


def admit(keys: Iterable[str], access: Access) -> AdmissionRefusal | None:
    """Create counters of one namespace that have no row, all or none; why not, if they may not be.

    A process asks once for the row of a counter, so that counting an existing counter costs
    nothing more. Creating any number of counters is one transaction of a few statements, none of
    which counts rows.

    Raises:
        CounterUnavailable, ReadOnlyDatabase: the database cannot be asked.
        RetryTransaction: the caller's transaction does not see what others have created.
    """
    alias = COUNTERS.writing()
    known = registry.admitted(alias)
    unknown = {key for key in keys if key not in known}
    if not unknown:
        return None
    with pipeline.all_or_nothing(alias):
        absent = _absent(unknown, alias)
    if not all(map(access.admits_name, absent)):
        return AdmissionRefusal.NAME
    if absent and not _made(absent, access.max_counters, alias):
        return AdmissionRefusal.ROOM
    known.update(unknown)
    return None


def _absent(keys: set[str], alias: str) -> set[str]:
    rows = COUNTERS.rows(alias).filter(key__in=keys)
    return keys.difference(rows.values_list("key", flat=True))


def _made(keys: set[str], most: int, alias: str) -> bool:
    """Create counters, unless the namespace would have more than ``most`` of them.

    Concurrent callers wait for each other: they hold the counter of created counters first.
    """
    namespace = types.namespace_of(next(iter(keys)))
    counted = created_key(namespace)
    corrections = registry.corrections(NAMED, alias)
    with corrections.correcting("the admission"):
        held = corrections.hold([counted]).found[counted]
        absent = _absent(keys, alias)
        if held.value + len(absent) > most:
            return False
        # The project may just have created some of them, which take no room.
        made = corrections.make(sorted(absent))
        corrections.correct({counted: made})
    if made and held.value + made == most:
        says = "The namespace %r is full: %s counters were created over HTTP, as max_counters says."
        logger.warning(says, namespace, most)
    return True


# The views.

NO_SUCH = "There is no such counter."
NO_SLASH = (
    "The address of a counter has no slash at its end; a bulk takes a key that ends with one."
)


class KeyConverter(StringConverter):
    """Any text, also with slashes. The view validates it, so that its error is one of the API."""

    regex = r"[\s\S]+"


register_converter(KeyConverter, "counter_key")


class CounterView(views.APIView):
    """A view of counters. Its one `CounterPermission` says what its requests do with them."""

    parser_classes = (StrictJSONParser,)
    renderer_classes = (renderers.JSONRenderer,)
    content_negotiation_class = OnlyJSON
    metadata_class = None
    # Without OPTIONS.
    http_method_names = ["get", "head", "post"]
    # Permissions of models in the settings only ask for a login here: there is no model.
    _ignore_model_permissions = True
    may: ClassVar[type[CounterPermission]]
    #: Names the request in its answer, and in the audit of an adjustment.
    request_id: str

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        view: Any = super().as_view(**initkwargs)
        # Commit before the answer, also with ATOMIC_REQUESTS.
        view._non_atomic_requests = set(connections)
        return view

    def get_permissions(self) -> list[Any]:
        """The default permissions of the project, and that of the counter."""
        return [*super().get_permissions(), self.may()]

    def kept(self, target: Target, lasts: str) -> dict[str, str]:
        """The headers of a read: shared caches may keep it only if anyone may read it."""
        *by_default, _ = self.get_permissions()
        # Other classes may admit one client and not another.
        is_open = all(type(permission) is permissions.AllowAny for permission in by_default)
        is_public = is_open and target.access.rule(self.may.action) == ANYONE
        whose = "public" if is_public else "private"
        return {"Cache-Control": f"{whose}, {lasts}", "Vary": "Authorization, Cookie"}

    def answered(
        self, target: Target, body: Mapping[str, Any], mark: object, lasts: str
    ) -> HttpResponseBase:
        """The answer to a read; 304 if the client has the one with this mark."""
        etag = f'W/"{mark}"'
        answer: Any = Response(body, headers={"ETag": etag, **self.kept(target, lasts)})
        found: Any = get_conditional_response(self.request, etag, response=answer)
        return found  # type: ignore[no-any-return]

    def get_exception_handler(self) -> Any:
        return answer

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        self.request_id = request_id_for(request)
        return super().initialize_request(request, *args, **kwargs)

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        # A shared cache would tell others the id of the one who asked first.
        if "public" not in response.get("Cache-Control", ""):
            self.headers["X-Request-ID"] = self.request_id
        if getattr(response, "exception", False):
            response.data["request_id"] = self.request_id
        return super().finalize_response(request, response, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if kwargs.get("key", "").endswith("/"):
            # Some clients add a slash to addresses, and would count something else.
            raise drf.ValidationError({"key": [NO_SLASH]})

    def target(self, key: str) -> Target:
        """The counter of the URL; see `targets`."""
        return self.targets([key])[key]

    def targets(self, keys: Sequence[str]) -> dict[str, Target]:
        """All of these counters.

        An unknown counter cannot be told from a forbidden one, not even by the time it takes.

        Raises:
            InvalidKey: a key is invalid.
            NotAuthenticated, PermissionDenied, NotFound: the request may not act on one of them.
        """
        permission = self.may()
        for access in dict.fromkeys(map(access_to, keys)):
            if not permission.admits(self.request, self, access):
                self.refuse(access)
        found = targets_of(keys)
        for target in found.values():
            self.admit(permission, target)
        if len(found) < len(keys):
            raise drf.NotFound(NO_SUCH)
        return found

    def admit(self, permission: CounterPermission, target: Target) -> None:
        """Refuse a counter that a permission of the project does not admit the request to.

        Raises:
            PermissionDenied: the request may read it.
            NotFound: it may not know of it.
        """
        if not permission.has_object_permission(self.request, self, target):
            if MayRead().has_object_permission(self.request, self, target):
                raise drf.PermissionDenied
            raise drf.NotFound(NO_SUCH)

    def visible(self, keys: Sequence[str]) -> dict[str, Target]:
        """Those of the counters that the request may act on.

        Raises:
            InvalidKey: a key is invalid.
        """
        permission = self.may()
        accesses = {key: access_to(key) for key in keys}
        admitted = {
            access: permission.admits(self.request, self, access)
            for access in set(accesses.values())
        }
        return {
            key: target
            for key, target in targets_of(key for key in keys if admitted[accesses[key]]).items()
            if permission.has_object_permission(self.request, self, target)
        }

    def admit_namespace(self, name: str) -> None:
        """Refuse a request that may not act on counters of a namespace, or where there is none.

        Raises:
            NotAuthenticated, PermissionDenied, NotFound: the request may not.
        """
        access = access_to(f"{name}:")
        if not self.may().admits(self.request, self, access):
            self.refuse(access)
        if name not in registry.policies():
            # Fields are no namespaces: their records are somebody's.
            raise drf.NotFound(NO_SUCH)

    def refuse(self, access: Access) -> NoReturn:
        """Refuse in the same way whether or not the counter exists.

        Raises:
            NotAuthenticated, PermissionDenied, NotFound: always one of them.
        """
        if is_anonymous(self.request):
            raise drf.NotAuthenticated
        if MayRead().admits(self.request, self, access):
            raise drf.PermissionDenied
        raise drf.NotFound(NO_SUCH)

    def checked(self, body: type[Body]) -> dict[str, Any]:
        """The validated body of the request.

        Raises:
            ValidationError: the body is invalid.
        """
        check_carried(self.request)
        valid: dict[str, Any] = checker(body).run_validation(self.request.data)
        return valid

    def admit_changes(
        self, changes: Mapping[str, tuple[Target, int]], events: Mapping[str, Event]
    ) -> None:
        """Check the amounts, origins and limits of permitted changes, and create new counters.

        Raises:
            ValidationError, Refused, Throttled, NotFound: the changes are refused.
        """
        for key, (target, by) in changes.items():
            target.check(events.get(key, PLAIN))
            most = target.access.max_delta if is_user(self.request) else 1
            if abs(by) > most:
                raise drf.ValidationError({"by": [f"{key}: at most {most} at once."]})
            self._admit_origin(target.access)
        groups: dict[str, list[Target]] = {}
        for key, (target, _) in changes.items():
            groups.setdefault(types.namespace_of(key), []).append(target)
        for namespace, group in groups.items():
            access = group[0].access
            self.charge_changes(namespace, access, len(group))
            named = [target.key for target in group if isinstance(target, NamedTarget)]
            refusal = admit(named, access)
            if refusal is AdmissionRefusal.NAME:
                raise drf.NotFound(NO_SUCH)
            if refusal is AdmissionRefusal.ROOM:
                says = "There is no room for more counters of this namespace."
                raise ApiError(409, "namespace-full", says, limit=access.max_counters)

    def charge_changes(self, namespace: str, access: Access, number: int = 1) -> None:
        """Have other apps refuse changes of a namespace, such as too many in a time.

        Raises:
            ValidationError, Throttled: one of them refuses.
        """
        for charge in features.charges():
            charge(self.request, namespace, access, number)

    def _admit_origin(self, access: Access) -> None:
        if access.increment != BEACON or is_user(self.request):
            return
        if self.request.META.get("HTTP_ORIGIN", "").lower() not in access.origins:
            raise ApiError(403, "origin", "Beacons are taken from declared sites only.")


class PersonView(CounterView):
    """A view that keeps who it was, so a user has to be logged in."""

    def get_permissions(self) -> list[Any]:
        """Without `AllowAny`: from it, the schema would say that no login is needed."""
        return [one for one in super().get_permissions() if type(one) is not permissions.AllowAny]

    def need_person(self) -> None:
        """Refuse a request without a user.

        Raises:
            NotAuthenticated: nobody is logged in. A token without a user is nobody.
        """
        if not is_user(self.request):
            raise drf.NotAuthenticated


def request_id_for(request: HttpRequest) -> str:
    """The ``X-Request-ID`` that was sent; a new one where there is none that a header can have."""
    sent = request_id_of(request.META.get("HTTP_X_REQUEST_ID", ""))
    return sent if sent and sent.isascii() else str(mint(clock.utc()))


def mark(body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
    """The answer, which says whether nothing was counted: the request repeats an earlier one.

    Or the actor had counted before, as the body knows.
    """
    return {**body, "replayed": replayed or body["replayed"]}


def answer_once(
    request: Request,
    asked: Mapping[str, Any],
    work: Work,
    using: str,
    *,
    joins: bool,
    resumes: bool = False,
    mark: Callable[..., Mapping[str, Any]] = mark,
) -> Response:
    """Do the work and answer. With an Idempotency-Key, do it once and repeat the answer."""
    once = once_of(request, asked, using, joins=joins, resumes=resumes)
    headers = {"Cache-Control": "no-store"}
    if once is None:
        return Response(work(None), headers=headers)
    body, replayed = once.do(work)
    if replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(mark(body, replayed=replayed), headers=headers)


def iso(moment: datetime) -> str:
    """A moment as RFC 3339 has it, in UTC."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def reading_body(key: str, reading: types.Reading) -> Mapping[str, Any]:
    """The answer to a read."""
    return {
        "key": key,
        "value": reading.value,
        "as_of": iso(reading.as_of),
        "consistency": reading.consistency,
    }
