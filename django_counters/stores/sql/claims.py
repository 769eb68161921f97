"""Exactly once: the transaction that claims a name first does the named work, and no other
transaction ever does.

A claim is a row, and its primary key is the name. The name is inserted in the transaction of the
work, so both are there or neither. This is the only mechanism of that kind; each table of claims is
described by a `ClaimTable`, and has no statements of its own:

- tokens of changes (`SqlTokens`), which also keep what the first use returned,
- parcels that landed (`SqlBatches.claim`): generations of Redis, and other things with an id,
- the seen state of sources (`SqlBatches.remember`), which is put again and again.

Each has a table, not all of them one: tokens are looked up by functions of the ledger, are kept for
two days and are as many as the changes; parcels are few, are kept for a month, and their sums are
asked for by age. One table would have the columns of all, and a wider index for each.

Positions (`SqlPositions`) are claims of another kind: one row moves on and on, by compare-and-set.

Two more rows are their own claims, and stay that: an entry of the ledger, whose primary key is its
token, and an adjustment. Adjustments of a case are written one after the other by the transaction
that holds
the chain, and are kept for ever: a second row for each would repeat the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.transaction import TransactionManagementError

from django_counters.stores.sql.dialects.claims import ClaimTable
from django_counters.stores.sql.session import Session

_PAGE = 1000


class Claims:
    """Claims names in one table. Holds no connection."""

    def __init__(self, session: Session, table: ClaimTable) -> None:
        self._session = session
        self._sql = session.dialect.claims(table)

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
