"""Rows that are written once and decide whether a change counts: claims, tokens, conditions."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.errors import RetryTransaction, TokenConflict, TokenExpired
from django_counters.measure import Condition
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.dialects.claims import TOKENS_USED, ClaimTable
from django_counters.stores.sql.session import Session
from django_counters.tables.schema import ENTRIES, horizon_of
from django_counters.tokens import AHEAD, Token, moment_of

# -- Exactly once: the transaction that claims a name first does the named work, and no other
# transaction ever does.
# A claim is a row, and its primary key is the name. The name is inserted in the transaction of the
# work, so both are there or neither. This is the only mechanism of that kind; each table of claims
# is described by a `ClaimTable`, and has no statements of its own:
# - tokens of changes (`SqlTokens`), which also keep what the first use returned,
# - parcels that landed (`SqlBatches.claim`): generations of Redis, and other things with an id,
# - the seen state of sources (`SqlBatches.remember`), which is put again and again.
# Each has a table, not all of them one: tokens are looked up by functions of the ledger, are kept
# for two days and are as many as the changes; parcels are few, are kept for a month, and their sums
# are asked for by age. One table would have the columns of all, and a wider index for each.
# Positions (`SqlPositions`) are claims of another kind: one row moves on and on, by
# compare-and-set.
# Two more rows are their own claims, and stay that: an entry of the ledger, whose primary key is
# its token, and an adjustment. Adjustments of a case are written one after the other by the
# transaction that holds the chain, and are kept for ever: a second row for each would repeat the
# first one.

_PAGE = 1000


class Claims:
    """Claims names in one table. Holds no connection."""

    def __init__(self, session: Session, table: ClaimTable) -> None:
        self._session = session
        self._sql = session.dialect.claims(table, session.dialect)

    def claim(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Claim names, in one order; those that are new. Only what they stand for is to be done.

        Waits for others who are just claiming the same: theirs are new here if they roll back.

        Args:
            rows: the columns of the table, the name first; 5,000 at most. No name is there twice.

        Raises:
            TransactionManagementError: no transaction is open. The claim would be committed before
                what it stands for, or without it.
        """
        if self._session.commits_at_once():
            raise TransactionManagementError("A claim needs the transaction of its change.")
        if not rows:
            return []
        return [name for (name,) in self._session.run(*self._sql.claim(rows))]

    def put(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows, also where their names are claimed: the last values hold."""
        if rows:
            self._session.run(*self._sql.put(rows))

    def known(self, names: Iterable[Any]) -> list[Any]:
        """Those among some names that are claimed, as far as their rows are kept."""
        if not (asked := list(names)):
            return []
        params = (self._session.dialect.keys(asked),)
        return [name for (name,) in self._session.run(self._sql.known, params, writes=False)]

    def found(self, name: Any, *, hold: bool = False) -> Sequence[tuple[Any, ...]]:
        """The rows of a name, or of its first column; held until the transaction ends."""
        sql = self._sql.held if hold else self._sql.found
        return self._session.run(sql, (name,), writes=hold)

    def answer(self, name: Any, answer: Any) -> None:
        """Keep what came of a claim, in its last column."""
        self._session.run(self._sql.answer, (answer, name))

    def taken_back(self, row: Sequence[Any]) -> bool:
        """Undo the claim to a token that an entry of the ledger has; whether it was undone.

        An entry that was written while the claim waited is seen by this, and not by the claim.
        """
        if not self._sql.take_back:
            return False
        name, token, moment = row[0], *row[-2:]
        return bool(self._session.run(self._sql.take_back, (name, token, moment)))

    def is_alone(self, text: str) -> bool:
        """Hold a text until the transaction ends, unless another transaction does; whether we
        do."""
        if not self._sql.try_alone:
            return True
        ((alone,),) = self._session.run(self._sql.try_alone, (text,))
        return bool(alone)

    def prune(self, before: datetime) -> int:
        """Forget claims of before a moment, some at once; how many. They can be claimed again."""
        gone = 0
        params = self._sql.values([(before, _PAGE)])
        while rows := len(self._session.run(self._sql.prune, params)):
            gone += rows
        return gone


# -- Tokens of counters that have no ledger, and tokens that are texts.


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
        if not rows:
            raise RetryTransaction(what="the token")
        ((_, used_for, result),) = rows
        if bytes(used_for) != fingerprint or not result:
            raise TokenConflict(token=token.text)
        kept: Mapping[str, Any] = json.loads(result)
        return kept

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


# -- The conditions of one database: rows that are made and deleted with the change.
# The row comes first, then the total, then its cells: in one order for all writers, so that no two
# of them wait for each other.


class SqlConditions:
    """Makes and deletes rows, within the transaction of the change that they belong to."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._sql = self._session.dialect.conditions

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def hold(self, table: Table, key: Hashable) -> bool:
        """Keep others from deleting the record of a counter; whether it is there.

        True if no transaction could delete it anyway, or no record is needed.
        """
        sql = self._sql.hold(table.quoted(self._session.quote))
        return not sql or bool(self._session.run(sql, (key,)))

    def met(self, condition: Condition) -> bool:
        """Make or delete the row of a condition; whether the change counts.

        Waits for the transaction that just makes or deletes the same.
        """
        kind, row = condition.kind, self.row(condition)
        if condition.takes_back:
            return bool(self.run(self._sql.release(kind), row[:-1]))
        if condition.older_than is None:
            return bool(self.run(self._sql.claim(kind), row))
        return bool(self.run(self._sql.renew(kind), (*row, self._shown(condition.older_than))))

    def row(self, condition: Condition) -> tuple[Any, ...]:
        """The columns of a row, as parameters."""
        *key, made = condition.row
        return (*key, self._shown(made))

    def _shown(self, moment: datetime) -> str:
        """A moment as the database takes it: as a text, which the driver takes less time for."""
        shown = clock.shown(moment)
        if self._session.dialect.knows_time_zones:
            return str(shown)
        return str(connections[self._session.using].ops.adapt_datetimefield_value(shown))

    def explained(self) -> AbstractContextManager[None]:
        """Say what an error means of a statement that makes or deletes a row."""
        return self._session.serializable("the change")

    def run(self, sql: str, params: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        """Execute a statement that changes rows.

        Raises:
            TransactionManagementError: no transaction is open: it would end at once.
        """
        if self._session.commits_at_once():
            message = "The row of a condition needs the transaction of its change."
            raise TransactionManagementError(message)
        with self.explained():
            return self._session.run(sql, params)
