"""The ledger: entries are appended, and read together with the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.db import Error

from django_counters import clock, errors
from django_counters.ledger.sql import AppendedEntry, Appends, LedgerStatements, Outcome, statements
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.session import aware
from django_counters.stores.sql.tables import NAMED
from django_counters.stores.sql.totals import SqlReads
from django_counters.tables.schema import beginning, horizon_of
from django_counters.tokens import AHEAD, Token, mint, moment_of
from django_counters.types import INT8, Delta

RESTORED = "stems from another server, or from a later state of this one"


class SqlDeltas(SqlReads):
    """Entries of named counters. An append never waits for another transaction but the first one of
    its counter."""

    def append(self, key: str, by: int) -> UUID:
        """Append an entry with a new token; return the token."""
        with self._explained(None):
            ((token,),) = self._session.run(self._appends.one, (key, by))
            if token is None:
                ((outcome, _),) = self._session.run(self._appends.check, ())
                self._check(outcome or Outcome.OVERFLOW, key, None)
        return token if isinstance(token, UUID) else UUID(token)

    def append_once(self, key: str, by: int, token: UUID) -> Outcome:
        """Append an entry, unless its token was used; return which of the two happened."""
        entry = self._entry(key, by, token)
        with self._explained(token):
            ((outcome,),) = self._session.run(self._appends.once, entry)
        return self._check(outcome, key, token)

    def append_many(self, entries: Sequence[tuple[str, int]]) -> None:
        """Append entries with new tokens, all or none, in one statement."""
        columns = tuple(list(column) for column in zip(*entries, strict=True))
        with self.all_or_nothing(), self._explained(None):
            ((outcome, key),) = self._session.run(self._appends.many, columns)
            self._check(outcome, key, None)

    def append_many_once(self, entries: Mapping[UUID, tuple[str, int]]) -> int | None:
        """Append the entries whose tokens weren't used; return how many were.

        None if a token was used before its counter was in the ledger. All or none: if a token was
        used for another entry, or is out of its window, nothing is appended.
        """
        given = [self._entry(key, by, token) for token, (key, by) in entries.items()]
        with self.all_or_nothing(), self._explained(min(entries)):
            ((outcome, what, replayed),) = self._session.run(
                self._appends.many_once, self._appends.arrange(given)
            )
            is_about_token = what and outcome in (Outcome.CONFLICT, Outcome.EXPIRED)
            token = UUID(what) if is_about_token else None
            if self._check(outcome, what, token) is Outcome.CLAIMED:
                return None
        return int(replayed)

    def copy(self, entries: Sequence[tuple[str, int]]) -> None:
        """Append entries with new tokens by COPY, all or none."""
        with self.all_or_nothing(), self._explained(None):
            ((outcome, moment),) = self._session.run(self._appends.check, ())
            self._check(outcome, "", None)
            self.open(sorted({key for key, _ in entries}))
            self._refuse_overflow(entries)
            lines = _lines(entries, aware(moment, local=True))
            self._session.copy(self._appends.copy, lines)

    def adjust(self, changes: Mapping[str, int]) -> Mapping[str, UUID]:
        """Append an entry that corrects each counter; return their tokens."""
        with self._explained(None):
            ((outcome, moment),) = self._session.run(self._appends.check, ())
            self._check(outcome, "", None)
            self.open(list(changes))
            tokens = {key: mint(aware(moment, local=True)) for key in changes}
            for key, token in tokens.items():
                entry = (token, moment_of(token), key, changes[key])
                self._session.run(self._appends.adjust, entry)
        return tokens

    def add_cells(self, deltas: Sequence[Delta]) -> None:
        """Add to the cells of entries, in the transaction that appends them.

        An append waits for no other transaction, so these cells are in a shard that none uses.
        """
        self._cells.add(deltas, apart=True)

    def open(self, keys: Sequence[str]) -> None:
        """Make the missing totals of entries, in the order of their keys."""
        self._session.run(self._appends.open, (self._session.dialect.keys(keys),))

    def _refuse_overflow(self, entries: Sequence[tuple[str, int]]) -> None:
        sums: dict[str, int] = {}
        for key, by in entries:
            sums[key] = sums.get(key, 0) + by
        params = self._session.dialect.sums(sums)
        for (key,) in self._session.run(self._appends.over, params, writes=False):
            self._check(Outcome.OVERFLOW, key, None)

    def rolled_up(self, key: str) -> tuple[int, datetime]:
        """Return the total alone, and the moment before which it lacks no entry."""
        ((total, as_of),) = self._session.run(self._ledger.inquiry.total, (key,), writes=False)
        return int(total or 0), aware(as_of or clock.meant(beginning()), local=True)

    @cached_property
    def _ledger(self) -> LedgerStatements:
        return statements(self._session.using)

    @property
    def _appends(self) -> Appends:
        return self._ledger.appends

    def _entry(self, key: str, by: int, token: UUID) -> AppendedEntry:
        return AppendedEntry(key, by, token, moment_of(token), Token(str(token)).digest)

    def _check(self, outcome: int, key: str, token: UUID | None) -> Outcome:
        """Raise the error of an outcome, if it is one."""
        if outcome == Outcome.FENCED:
            raise errors.LedgerFenced(using=self._session.using, reason=RESTORED)
        if outcome == Outcome.OVERFLOW:
            low, high = INT8
            raise errors.CounterOverflow(key=key, low=low, high=high)
        if outcome == Outcome.CONFLICT:
            raise errors.TokenConflict(token=str(token))
        if outcome == Outcome.EXPIRED and token is not None:
            raise errors.TokenExpired(token=str(token), created_at=moment_of(token))
        return Outcome(outcome)

    @contextmanager
    def _explained(self, token: UUID | None) -> Iterator[None]:
        """Turn errors of the database into those of the ledger."""
        try:
            yield
        except Error as error:
            dialect = self._session.dialect
            if dialect.unserializable(error):
                raise errors.RetryTransaction(what="the entry") from error
            refused_by = dialect.refused_by(error)
            moment = moment_of(token) if token else clock.utc()
            if refused_by == "":
                raise errors.PartitionMissing(created_at=moment) from error
            if refused_by == "django_counters_sealed" and token is not None:
                raise errors.TokenExpired(token=str(token), created_at=moment_of(token)) from error
            raise


def _lines(entries: Sequence[tuple[str, int]], moment: datetime) -> Iterator[bytes]:
    """Entries in the text format of COPY; a key has no white space, but may have a backslash."""
    created_at = moment_of(mint(moment)).isoformat()
    for key, by in entries:
        text = key.replace("\\", "\\\\") if "\\" in key else key
        yield f"{mint(moment)}\t{created_at}\t{text}\t{by}\n".encode()


class PlainDeltas(SqlDeltas):
    """Entries in a database without functions, which has one writer at a time."""

    def append(self, key: str, by: int) -> UUID:
        """Append an entry with a token of its own; the token."""
        token = mint(clock.utc())
        self.append_many_once({token: (key, by)})
        return token

    def append_once(self, key: str, by: int, token: UUID) -> Outcome:
        """Append an entry, unless its token was used: appended, replayed, or claimed elsewhere."""
        replayed = self.append_many_once({token: (key, by)})
        if replayed is None:
            return Outcome.CLAIMED
        return Outcome.REPLAYED if replayed else Outcome.APPENDED

    def append_many(self, entries: Sequence[tuple[str, int]]) -> None:
        """Append entries with tokens of their own, all or none."""
        now = clock.utc()
        # Databases with several writers insert entries in the order of their tokens.
        tokens = sorted(mint(now) for _ in entries)
        self.append_many_once(dict(zip(tokens, entries, strict=True)))

    def adjust(self, changes: Mapping[str, int]) -> Mapping[str, UUID]:
        """Append an entry that corrects each counter; the tokens, each of its own."""
        tokens = {key: mint(clock.utc()) for key in changes}
        self.open(list(changes))
        for key, token in tokens.items():
            entry = (token.hex, self._stored(moment_of(token)), key, changes[key])
            self._session.run(self._appends.adjust, entry)
        return tokens

    def copy(self, entries: Sequence[tuple[str, int]]) -> None:
        """As `append_many`: there is no COPY."""
        self.append_many(entries)

    def append_many_once(self, entries: Mapping[UUID, tuple[str, int]]) -> int | None:
        """Append the entries whose tokens weren't used, as `SqlDeltas.append_many_once`.

        The first statement makes this the only writer, so no transaction comes in between.
        """
        given = [self._entry(key, by, token) for token, (key, by) in entries.items()]
        sql, run = self._ledger.appends, self._session.run
        keys = self._session.dialect.keys
        with self.all_or_nothing():
            self.open(sorted({entry.key for entry in given}))
            if run(sql.claimed, (keys([e.digest.hex().upper() for e in given]),), writes=False):
                return None
            self._refuse_overflow([(entry.key, entry.delta) for entry in given])
            now = clock.utc()
            oldest, newest = now - horizon_of(self._session.using).token_window, now + AHEAD
            fresh = [entry for entry in given if oldest < moment_of(entry.token) < newest]
            added = {token for (token,) in run(sql.add, sql.arrange(fresh))} if fresh else set()
            old = [entry for entry in given if entry.token.hex not in added]
            self._compare(old)
        return len(old)

    def _compare(self, old: Sequence[AppendedEntry]) -> None:
        """Refuse entries whose token was used for another change."""
        if not old:
            return
        tokens = self._session.dialect.keys([entry.token.hex for entry in old])
        rows = self._session.run(self._ledger.appends.present, (tokens,), writes=False)
        present = {token: (key, delta) for token, key, delta in rows}
        for entry in old:
            found = present.get(entry.token.hex)
            if found is None:
                self._check(Outcome.EXPIRED, entry.key, entry.token)
            elif found != (entry.key, entry.delta):
                self._check(Outcome.CONFLICT, entry.key, entry.token)

    def _entry(self, key: str, by: int, token: UUID) -> AppendedEntry:
        return super()._entry(key, by, token)._replace(created_at=self._stored(moment_of(token)))

    def _stored(self, moment: datetime) -> str:
        return str(moment.replace(tzinfo=None))


def deltas_of(using: str) -> SqlDeltas:
    """Return the entries of a database."""
    return (SqlDeltas if dialect_of(using).appends_in_one_statement else PlainDeltas)(NAMED, using)
