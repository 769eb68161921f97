"""The public API: entries of the ledger, for any strategy of their namespace."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from uuid import UUID

from django.db import models

from django_counters import clock
from django_counters.projections.event import Tags, Who, event_of
from django_counters.tables.core import DeltaColumns
from django_counters.tokens import Token, moment_of
from django_counters.twins import twin
from django_counters.types import check_delta
from django_counters.values import Appended, AppendedMany, LedgerPage

if TYPE_CHECKING:
    from django_counters.ledger.inquiry import Passed

Pair = tuple[str, int]
Tokened = tuple[str, int, UUID | str | None]

_Row = TypeVar("_Row", bound=DeltaColumns)


class DeltaRows(models.QuerySet[_Row]):
    """Entries to look at. Nothing alters one, so what would do it raises an error."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("Entries of the ledger stay as they are; append one that corrects them.")

    update = delete = create = bulk_create = bulk_update = _refuse
    get_or_create = update_or_create = _refuse


_RowsManager = models.Manager.from_queryset(DeltaRows)


class DeltaManager(_RowsManager[_Row]):
    """Appends entries to the ledger. Nothing alters one, and none is deleted alone."""

    def append(
        self,
        key: str,
        delta: int,
        *,
        token: str | UUID | Token | None = None,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Appended:
        """Append an entry: ``delta`` is added to the counter, in the caller's transaction.

        It never waits, but the first entry of a counter does for another first one. With a token
        the entry counts once; see `CounterManager.increment`. ``at`` and ``tags`` say what it is
        counted by, where its namespace has ``PER``; the entry has the time of its token.

        Returns:
            The token of the entry, and whether it was there already. No value: nothing is read.

        Raises:
            InvalidKey, InvalidDelta, InvalidToken: the arguments are wrong.
            UnsupportedBounds: the namespace has a floor, a ceiling or a quota.
            TokenConflict, TokenExpired, RetryTransaction, PartitionMissing, LedgerFenced,
            InvalidMoment, InvalidTags, UnsupportedSeries, CounterOverflow, CounterUnavailable,
            ReadOnlyDatabase, OutcomeUnknown: as `CounterManager.increment`. Overflow is judged on
            the total, without what waits.
        """
        from django_counters.ledger import entries

        return entries.append(
            key, check_delta(delta), token, using or self._db, event_of(at, tags, who)
        )

    def append_many(
        self,
        deltas: Iterable[Pair | Tokened],
        *,
        copy: bool = False,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> AppendedMany:
        """Append many entries, all or none: pairs of key and delta, or with a token each.

        Tokens have to be UUIDv7; `token_of` makes one of a text and a time. Entries whose token was
        used before are left out and counted as ``replayed``. ``copy`` sends them by COPY, which is
        faster for a thousand and more, and cannot honour tokens. ``at`` and ``tags`` are those of
        all of them.

        Raises:
            UnsupportedToken: a token together with ``copy``.
            TokenConflict, TokenExpired: of one token; nothing was appended.
        """
        from django_counters.ledger import entries

        return entries.append_many(deltas, copy, using or self._db, event_of(at, tags, who))

    def since(
        self, position: str = "", *, most: int = 1000, using: str | None = None
    ) -> LedgerPage[_Row]:
        """The next entries after a position: the ledger as an outbox.

        Waits for no other transaction, and locks nothing. Entries come by the transaction that
        wrote them, and within it as they were written. Nothing can appear before an entry that was
        read, however late it is committed: entries wait until every transaction that began to write
        before them has ended. So a reader who keeps the position in the transaction of what he does
        with the page has each entry once. An entry is never altered, only ``xid`` may differ in the
        table.

        Args:
            position: that of the last page; empty: after the last entry that was dropped, which is
                the beginning where none was.
            most: how many entries at most. Fewer come where no more are complete now.
            using: the database.

        Returns:
            The entries, and the position after them: the same as before where there are none.

        Raises:
            PositionGone: what follows was dropped, a rebase came, or it is of another database.
            LedgerFenced: the ledger was restored elsewhere.
            ValueError: ``position`` is none, or ``most`` is not positive.
        """
        if most < 1:
            raise ValueError("A page has one entry at least.")
        from django_counters.ledger.inquiry import page

        found, place = page(position, most, using or self.db)
        return LedgerPage(tuple(self._passed(one, using) for one in found), place)

    def end(self, *, using: str | None = None) -> str:
        """The position after all entries that are complete now: to follow what comes."""
        from django_counters.ledger.inquiry import SqlFollowing

        return str(SqlFollowing(using or self.db).end())

    def _passed(self, found: Passed, using: str | None) -> _Row:
        # In the order of the columns.
        names = ("token", "created_at", *found._fields[1:])
        values = (found.token, clock.shown(moment_of(found.token)), *found[1:])
        return self.model.from_db(using or self.db, names, values)

    asince = twin(since)
    aend = twin(end)
    aappend = twin(append)
    aappend_many = twin(append_many)
