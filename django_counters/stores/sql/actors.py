"""The actors of one database: rows that are made and deleted with the change.

The row comes first, then the total, then its cells: in one order for all writers, so that no two of
them wait for each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.session import Owner, Session
from django_counters.types import Claim


class Difference(NamedTuple):
    """A counter that has not as many rows of actors as it counts."""

    key: str
    rows: int
    value: int


class SqlActors:
    """Makes and deletes rows, within the transaction of the change that they belong to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.dialect.actors

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._session.all_or_nothing()

    def hold(self, table: Table, key: Hashable) -> bool:
        """Keep others from deleting the record of a counter; whether it is there.

        True where no transaction could delete it anyway, or no record is needed.
        """
        sql = self._sql.hold(table.quoted(self._session.quote))
        return not sql or bool(self._session.run(sql, (key,)))

    def claim(self, key: Hashable, claim: Claim) -> bool:
        """Make the row of an actor; whether the actor counts now.

        Waits for the transaction that just makes or deletes the same.
        """
        row = self.row(key, claim)
        if claim.time is None:
            return bool(self._changed(self._sql.claim, row))
        return bool(self._changed(self._sql.renew, (*row, self.shown(claim.at - claim.time))))

    def release(self, key: Hashable, claim: Claim) -> bool:
        """Delete the row of an actor; whether there was one."""
        return bool(self._changed(self._sql.release, self.row(key, claim)[:3]))

    def rename(self, key: Hashable, claim: Claim, actor: str) -> bool:
        """Let the row of an actor be that of another one, who has none; whether there was one."""
        return bool(self._changed(self._sql.rename, (actor, *self.row(key, claim)[:3])))

    def differing(self, measure: int, table: Table) -> list[Difference]:
        """The counters of a table that have not as many rows as they count, of one moment."""
        session = self._session
        kind = Owner(table.pending, session).kind()
        sql = self._sql.differing(table.quoted(session.quote))
        rows = session.run(sql, (measure, *kind), writes=False)
        return [Difference(str(key), int(found), int(value)) for key, found, value in rows]

    def row(self, key: Hashable, claim: Claim) -> tuple[Any, ...]:
        """The columns of a row: measure, key, actor, moment."""
        return claim.measure, str(key), claim.actor, self.shown(claim.at)

    def shown(self, moment: datetime) -> str:
        """A moment as the database takes it: as a text, which the driver takes less time for."""
        shown = clock.shown(moment)
        if self._session.dialect.knows_time_zones:
            return str(shown)
        return str(connections[self._session.using].ops.adapt_datetimefield_value(shown))

    def explained(self) -> AbstractContextManager[None]:
        """Say what an error means of a statement that makes or deletes a row."""
        return self._session.serializable("the change of an actor")

    def _changed(self, sql: str, params: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        if self._session.commits_at_once():
            message = "The row of an actor needs the transaction of its change."
            raise TransactionManagementError(message)
        with self.explained():
            return self._session.run(sql, params)
