"""Changes that count once: a token is used in the transaction of the change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from django_counters.registry import registry
from django_counters.tokens import Token
from django_counters.values import Appended, Result, Unknown, result_of

Work = Callable[[], Mapping[str, int | Unknown]]


class Call(NamedTuple):
    """The use of a token: the kind of counters, the change of each, and what was told of it."""

    subject: str
    deltas: Mapping[str, int]
    event: str = ""

    @property
    def fingerprint(self) -> bytes:
        """32 bytes that stand for the call, in any order of its counters."""
        told = [self.event] if self.event else []
        text = json.dumps([self.subject, sorted(self.deltas.items()), *told])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class ClaimResult(NamedTuple):
    """The result of the call that counted, and whether that was before."""

    values: Mapping[str, Result]
    replayed: bool


def once(token: Token, call: Call, using: str, work: Work) -> ClaimResult:
    """Do ``work`` unless the token was used for it before; its former result.

    Both are one transaction, or a savepoint in the caller's: where the work fails, the token is
    not used. Others with the same token wait for the outcome.
    """
    tokens = registry.tokens(using)
    with tokens.all_or_nothing():
        earlier = tokens.claim(token, call.fingerprint, _of_entry)
        if earlier is not None:
            return ClaimResult({key: _remembered(key, kept) for key, kept in earlier.items()}, True)
        values = work()
        tokens.keep(token, {key: _kept(value) for key, value in values.items()})
    return ClaimResult({key: result_of(value) for key, value in values.items()}, False)


def _of_entry(key: str, delta: int) -> bytes:
    return Call("", {key: delta}).fingerprint


def _kept(value: int | Unknown) -> int | str:
    return str(value.token or "") if isinstance(value, Appended) else int(value)


def _remembered(key: str, kept: int | str) -> Result:
    if isinstance(kept, str):
        return Appended(key, UUID(kept) if kept else None, replayed=True)
    return result_of(kept, replayed=True)
