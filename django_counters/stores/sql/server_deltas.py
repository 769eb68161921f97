"""Entries where many write at once, and no statement says what it has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django_counters.stores.sql.deltas import PlainDeltas
from django_counters.stores.sql.dialects.ledger import Entry
from django_counters.stores.sql.totals import hex_of
from django_counters.tokens import moment_of


class _Claimed(Exception):
    """A token was used by a counter that has no ledger."""


class ServerDeltas(PlainDeltas):
    """Entries of named counters. An append never waits for another transaction but one with the
    same token."""

    def append_many_once(self, entries: Mapping[UUID, tuple[str, int]]) -> int | None:
        """Append entries whose tokens were not used; how many were. None: one is claimed elsewhere.

        Raises:
            RetryTransaction: others append the same, in another order.
        """
        given = [self._entry(key, by, token) for token, (key, by) in entries.items()]
        try:
            with self._explained(min(entries)), self.all_or_nothing():
                return len(given) - self._added(given)
        except _Claimed:
            return None

    def _added(self, given: Sequence[Entry]) -> int:
        """Append entries, and compare those that were there; how many are new."""
        sql, run = self._appends, self._session.run
        digests = (self._session.dialect.keys([entry.digest.hex() for entry in given]),)
        self.open(sorted({entry.key for entry in given}))
        if run(sql.claimed, digests, writes=False):
            raise _Claimed
        self._refuse_overflow([(entry.key, entry.delta) for entry in given])
        oldest, newest = self._window()
        fresh = [entry for entry in given if oldest < moment_of(entry.token) < newest]
        added = int(run(sql.add, sql.arrange(fresh))[0][0]) if fresh else 0
        # A transaction may have claimed one since. A transaction that does so asks for entries
        # after that, too.
        if run(sql.claimed, digests):
            raise _Claimed
        if added < len(given):
            # Those that were added are there, too, and are what they should be.
            self._compare(given)
        return added

    def _compare(self, old: Sequence[Entry]) -> None:
        tokens = self._session.dialect.keys([entry.token for entry in old])
        rows = self._session.run(self._appends.present, (tokens,), writes=False)
        self._differ({hex_of(token): (key, delta) for token, key, delta in rows}, old)
