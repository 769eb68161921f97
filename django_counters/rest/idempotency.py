"""The Idempotency-Key of a request: its work is done once, however often it is sent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error, InterfaceError, OperationalError
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from django_counters import clock
from django_counters.exceptions import CounterError, OutcomeUnknown
from django_counters.principal import principal_of
from django_counters.registry import registry
from django_counters.rest.problems import ApiError
from django_counters.stores.sql.tokens import SqlTokens
from django_counters.tokens import Token, check_token, mint

HEADER = "HTTP_IDEMPOTENCY_KEY"
# A string of RFC 8941.
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPED = re.compile(r'\\(["\\])')
# How long a request may take that changes something outside of the database.
_LEASE = timedelta(seconds=10)
# The end of a lease whose holder has counted nothing.
_NOT_COUNTED = 0
Body = dict[str, Any]
Work = Callable[[UUID | None], Body]


class ReplayableAnswer(NamedTuple):
    """An answer, and whether it is that of an earlier request."""

    body: Body
    replayed: bool


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

    def do(self, work: Work) -> ReplayableAnswer:
        """Do the work, or return the answer of the request that did it.

        Raises:
            Refused: another request is doing it (409).
            TokenConflict: the key was used for another request.
            OutcomeUnknown: another request did not finish it, and may have counted.
        """
        return self._within_transaction(work) if self.joins else self._claimed_first(work)

    def _within_transaction(self, work: Work) -> ReplayableAnswer:
        tokens = registry.tokens(self.using)
        with tokens.all_or_nothing():
            kept = self._claim(tokens)
            if kept is not None and "body" in kept:
                return ReplayableAnswer(kept["body"], True)
            if kept is not None and kept["until"]:
                # Another request began it when the counter was still outside of the database.
                raise OutcomeUnknown(using=self.using)
            body = work(None)
            tokens.keep(self.token, {"body": body})
        return ReplayableAnswer(body, False)

    def _claimed_first(self, work: Work) -> ReplayableAnswer:
        tokens = registry.tokens(self.using)
        with tokens.all_or_nothing():
            kept = self._claim(tokens)
            if kept is not None and "body" in kept:
                return ReplayableAnswer(kept["body"], True)
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
        self._keep(tokens, body)
        return ReplayableAnswer(body, False)

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

    def _keep(self, tokens: SqlTokens, body: Body) -> None:
        # It is counted, also if this fails. Then the same key is answered that the outcome is
        # unknown, and it is never counted again.
        with suppress(CounterError, Error):
            tokens.keep(self.token, {"body": body})

    def _release(
        self, tokens: SqlTokens, left: Mapping[str, Any], attempt: Mapping[str, Any]
    ) -> None:
        """Return the lease early."""
        with suppress(CounterError, Error), tokens.all_or_nothing():
            if self._is_ours(tokens, attempt):
                tokens.keep(self.token, left)

    def _is_ours(self, tokens: SqlTokens, attempt: Mapping[str, Any]) -> bool:
        """Whether no other request has taken over after the end of the lease."""
        if not self.resumes:
            return True
        return (
            tokens.is_alone(self.token)
            and tokens.claim(self.token, self.fingerprint, _no_entry) == attempt
        )


def once_of(
    request: Request, asked: Mapping[str, Any], using: str, *, joins: bool, resumes: bool
) -> IdempotentRequest | None:
    """The idempotency of a request; None without a key.

    A key belongs to the principal, the method and the path of the request.

    Raises:
        InvalidToken: the key is empty, or longer than 255 characters.
    """
    given = request.META.get(HEADER)
    if given is None:
        return None
    route = "\n".join((principal_of(request), str(request.method), request.path))
    scope = hashlib.sha256(route.encode("utf-8", "surrogatepass")).hexdigest()
    text = json.dumps(asked, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return IdempotentRequest(
        check_token(Token(_unquoted(given), scope)), fingerprint, using, joins, resumes
    )


def key_of(request: Request) -> str | None:
    """The Idempotency-Key of a request, if it has one."""
    given = request.META.get(HEADER)
    return None if given is None else _unquoted(given)


def _unquoted(given: str) -> str:
    """The key without the quotes of a structured field, which some clients leave out."""
    found = _QUOTED.fullmatch(given.strip())
    return _ESCAPED.sub(r"\1", found[1]) if found else given


def _in_progress() -> ApiError:
    says = "A request with this Idempotency-Key is being worked on."
    return ApiError(409, "in-progress", says, retry_after=1)


def _no_entry(key: str, delta: int) -> bytes:  # noqa: ARG001
    return b""
