"""Requests that are sent when a transaction commits, and never if it does not."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from django.db import connections, transaction

from django_counters.stores.sql.session import is_of_a_test_case
from django_counters.stores.sql.totals import SqlReads
from django_counters.tenants import acting_for, for_this_tenant, tenant
from django_counters.types import Cell, Sums, merged

Send = Callable[[Sums[Hashable]], None]


class Outbox:
    """The increments of one transaction, or of one savepoint in it, for one way of sending.

    Django delivers it after COMMIT, and forgets it with the savepoint that is rolled back.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._tenant = tenant()
        self._sums: dict[tuple[Hashable, Cell | None], int] = {}

    def add(self, sums: Sums[Hashable]) -> None:
        """Keep increments until the transaction commits."""
        for where, by in sums.items():
            self._sums[where] = self._sums.get(where, 0) + by

    def deliver(self) -> None:
        """Send what was kept."""
        sums = merged([self._sums])
        if sums:
            with acting_for(self._tenant):
                self.send(sums)


class SqlLanded(SqlReads):
    """Reads what has landed, and keeps increments until the caller's transaction commits."""

    def waits_for_commit(self) -> bool:
        """Whether the caller has a transaction open: its increments are sent when it commits."""
        return not self.commits_at_once() and not is_of_a_test_case(self._session.using)

    def sees_settled(self) -> bool:
        """Whether a read sees all committed changes, and none that may be rolled back."""
        if self.commits_at_once():
            return True
        if is_of_a_test_case(self._session.using, outermost=True):
            # No hook of it would tell others that a total has changed.
            return False
        dialect = self._session.dialect
        if not dialect.tells_isolation:
            return False
        return bool(self._session.run(dialect.landing.settled, (), writes=False)[0][0])

    def call_after_commit(self, call: Callable[[], object]) -> None:
        """Call a function when the caller's transaction commits; else never."""
        self._after_commit(for_this_tenant(call))

    def _after_commit(self, call: Callable[[], object]) -> None:
        # An error there must not keep other hooks from running: the transaction is committed.
        transaction.on_commit(call, using=self._session.using, robust=True)

    def after_commit(self, sums: Sums[Hashable], send: Send, *, merge: bool) -> None:
        """Send sums when the caller's transaction commits; else never.

        ``merge``: together with others that go the same way, in one round trip.
        """
        outbox = self._present(send) if merge else None
        if outbox is None:
            outbox = Outbox(send)
            self._after_commit(outbox.deliver)
        outbox.add(sums)

    def _present(self, send: Send) -> Outbox | None:
        """The outbox of this savepoint, if there is one already."""
        connection: Any = connections[self._session.using]
        here = set(connection.savepoint_ids)
        for savepoints, hook, _ in reversed(connection.run_on_commit):
            outbox = getattr(hook, "__self__", None)
            if isinstance(outbox, Outbox) and outbox.send == send and savepoints == here:
                return outbox
        return None
