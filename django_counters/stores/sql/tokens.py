"""Tokens of counters that have no ledger, and tokens that are texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from django_counters import clock
from django_counters.errors import RetryTransaction, TokenConflict, TokenExpired
from django_counters.stores.sql.claims import Claims
from django_counters.stores.sql.dialects.claims import TOKENS_USED
from django_counters.stores.sql.session import Session
from django_counters.tables.core import ENTRIES, horizon_of
from django_counters.tokens import AHEAD, Token, moment_of


class SqlTokens:
    """Keeps what a token was used for, in the transaction that uses it."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._claims = Claims(self._session, TOKENS_USED)

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def claim(
        self, token: Token, fingerprint: bytes, of_entry: Callable[[str, int], bytes]
    ) -> Mapping[str, Any] | None:
        """Use a token; the kept result of its first use, if it was used before. Waits for others.

        ``of_entry``: the fingerprint of an entry of the ledger that has the token.

        Raises:
            TokenConflict: it was used for something else.
            TokenExpired: it is out of its window, and was not used within it.
            RetryTransaction: it was used by a transaction that this one does not see.
        """
        digest, found = token.digest, token.uuid
        with self._session.serializable("the token"):
            row = digest, fingerprint, "", found, found and moment_of(found)
            if self._claims.claim([row]) and not (found and self._claims.taken_back(row)):
                return None
        rows = self._claims.found(digest)
        if not rows and found:
            return self._entry(token, found, fingerprint, of_entry)
        return _kept(token, fingerprint, rows)

    def _entry(
        self, token: Token, found: UUID, fingerprint: bytes, of_entry: Callable[[str, int], bytes]
    ) -> Mapping[str, Any]:
        """The entry that has the token; the ledger kept it while the counter was there."""
        # The moment of a token is that of its entry, and names the one partition to look at.
        moment = clock.shown(moment_of(found))
        entries = ENTRIES.rows(self._session.using).filter(token=found, created_at=moment)
        entry = entries.values_list("key", "delta").first()
        if entry is None:
            raise TokenExpired(token=token.text, created_at=moment_of(found))
        key, delta = entry
        if of_entry(key, delta) != fingerprint:
            raise TokenConflict(token=token.text)
        return {key: str(found)}

    def is_alone(self, token: Token) -> bool:
        """Whether no other transaction uses a token just now; until the transaction ends no
        transaction will."""
        return self._claims.is_alone(token.digest.hex())

    def is_used_for(self, token: Token, fingerprint: bytes) -> bool:
        """Whether a token was used for just this call."""
        return any(bytes(row[1]) == fingerprint for row in self._claims.found(token.digest))

    def keep(self, token: Token, result: Mapping[str, Any]) -> None:
        """Keep what the call returned."""
        self._claims.answer(token.digest, json.dumps(result))

    def prune(self) -> int:
        """Forget tokens that no transaction may use any more; how many those were."""
        with self._session.translated():
            window = horizon_of(self._session.using).token_window
        return self._claims.prune(self._session.now() - window - 2 * AHEAD)


def _kept(token: Token, fingerprint: bytes, rows: Sequence[Any]) -> Mapping[str, Any]:
    if not rows:
        raise RetryTransaction(what="the token")
    ((_, used_for, result),) = rows
    if bytes(used_for) != fingerprint or not result:
        raise TokenConflict(token=token.text)
    kept: Mapping[str, Any] = json.loads(result)
    return kept
