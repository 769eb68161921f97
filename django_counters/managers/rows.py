"""Managers of rows that aren't counters themselves: shards, slots, ledger entries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack
from uuid import UUID

from django.db import connections, models

from django_counters import clock
from django_counters.adjustments import AdjustOptions, ResetOptions
from django_counters.adjustments.models import CounterAdjustment
from django_counters.event import OnceOptions, ShardOptions, Tags, Who, event_of
from django_counters.reading import read_record, record_values_of, value_of
from django_counters.tables.schema import CounterColumns, DeltaColumns, ShardColumns, SlotColumns
from django_counters.tokens import Token, moment_of, optional_token
from django_counters.twins import alters_data, twin
from django_counters.types import (
    Appended,
    AppendedMany,
    LedgerPage,
    Reading,
    Result,
    check_delta,
    check_integer,
)
from django_counters.write import changes, pipeline, records

if TYPE_CHECKING:
    from django_counters.ledger.inquiry import Passed

# -- Rows of named counters, for those who change many at once.

Row = TypeVar("Row", bound=CounterColumns)


class CounterRows(models.QuerySet[Row]):
    """Rows of named counters."""

    @alters_data
    def increment(
        self, by: int = 1, *, at: datetime | None = None, tags: Tags | None = None, who: Who = None
    ) -> int:
        """Add ``by`` to every counter of the queryset, all or none, and return how many there were.

        The rows are locked in the order of their keys, then changed by one statement. Bounds of
        the namespaces hold. Counters that come into the queryset meanwhile are left alone. ``at``
        and ``tags`` say what all of them are counted by.

        Raises:
            InsufficientCount, CeilingExceeded: a bound would be crossed; the error lists each key.
            CounterOverflow: a sum does not fit.
            InvalidMoment, InvalidTags, UnsupportedSeries: as `CounterManager.increment`.
        """
        delta = check_integer(by)
        if not delta:
            return self.count()
        # Locking makes the router name the database for writing.
        rows = self.select_for_update().order_by("key").values_list("key", flat=True)
        with pipeline.all_or_nothing(rows.db):
            if not connections[rows.db].features.has_select_for_update:
                # SQLite gives up at once where a reader becomes a writer: be one from the start.
                self.model._base_manager.using(rows.db).filter(key="").update(value=0)
            keys = list(rows)
            pipeline.change_many(dict.fromkeys(keys, delta), rows.db, None, event_of(at, tags, who))
        return len(keys)

    @alters_data
    def decrement(
        self, by: int = 1, *, at: datetime | None = None, tags: Tags | None = None, who: Who = None
    ) -> int:
        """Subtract ``by`` from every counter of the queryset; see `increment`."""
        return self.increment(check_integer(-check_integer(by)), at=at, tags=tags, who=who)

    aincrement = twin(increment)
    adecrement = twin(decrement)


RowsManager = models.Manager.from_queryset(CounterRows)

_ShardRow = TypeVar("_ShardRow", bound=ShardColumns)


# -- The public API: named counters in shards, for any strategy of their namespace.


class ShardManager(models.Manager[_ShardRow]):
    """Counts in shards, in any namespace; `Counter.objects` reads the same values.

    A writer takes a shard that no transaction has locked, so no transaction waits for another one.
    """

    def increment(
        self,
        key: str,
        by: int = 1,
        *,
        shard_key: object = None,
        token: str | UUID | Token | None = None,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """Add ``by`` to a counter and return its value: this statement's snapshot and ``by``.

        ``shard_key`` (a user, a request) always leads to the same shard, and waits for it; without
        it a shard is taken that no transaction has locked. ``at`` and ``tags`` say what it is
        counted by.

        Raises:
            InvalidKey, InvalidDelta, InvalidMoment, InvalidTags, UnsupportedSeries,
            CounterOverflow, CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as
            `CounterManager.increment`.
        """
        delta, given = check_integer(by), optional_token(token)
        ref, event = changes.in_shards(key, using or self._db), event_of(at, tags, who)
        return pipeline.change(
            changes.Change(ref, delta, route=shard_key, token=given, event=event)
        )

    def decrement(self, key: str, by: int = 1, **options: Unpack[ShardOptions]) -> Result:
        """Subtract ``by`` from a counter; see `increment`."""
        return self.increment(key, -check_integer(by), **options)

    def value(self, key: str, *, using: str | None = None) -> int:
        """The exact value of a counter: its total and its shards, in one statement."""
        return value_of(key, using or self._db)

    aincrement = twin(increment)
    adecrement = twin(decrement)
    avalue = twin(value)


_SlotRow = TypeVar("_SlotRow", bound=SlotColumns)


# -- The public API: counters of records, in slots.


class SlotManager(models.Manager[_SlotRow]):
    """Counts for records, in slots: any record of any model, under any name, without a column.

    A name that is a `CounterField` of the model means that field: both count the same.
    """

    def increment(
        self,
        record: models.Model,
        name: str,
        by: int = 1,
        *,
        token: str | UUID | Token | None = None,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """Add ``by`` to a counter of a record; its value is that of this statement and ``by``.

        ``at`` and ``tags`` say what it is counted by, where the name is a field with ``per``.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
            InvalidKey: the record is none, or the name cannot be one.
            InvalidDelta, InvalidMoment, InvalidTags, UnsupportedSeries, CounterOverflow,
            CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as `CounterManager.increment`.
        """
        delta, given = check_integer(by), optional_token(token)
        ref, event = records.in_slots(record, name, using or self._db), event_of(at, tags, who)
        return pipeline.change(changes.Change(ref, delta, token=given, event=event))

    def decrement(
        self, record: models.Model, name: str, by: int = 1, **options: Unpack[OnceOptions]
    ) -> Result:
        """Subtract ``by`` from a counter of a record; see `increment`."""
        return self.increment(record, name, -check_integer(by), **options)

    def value(self, record: models.Model, name: str, *, using: str | None = None) -> int:
        """The exact value of a counter of a record; zero if it was never counted."""
        return self.read(record, name, using=using).value

    def values_of(
        self, records: Iterable[models.Model], name: str, *, using: str | None = None
    ) -> dict[Any, int]:
        """The exact values of one counter of many records by primary key, in one query a model."""
        return record_values_of(records, name, using or self._db)

    def read(
        self,
        record: models.Model,
        name: str,
        *,
        consistency: str = "exact",
        using: str | None = None,
    ) -> Reading:
        """The value of a counter of a record, and its parts."""
        return read_record(record, name, consistency, using or self._db)

    def adjust(
        self, record: models.Model, name: str, **options: Unpack[AdjustOptions]
    ) -> CounterAdjustment:
        """Set a counter of a record right, and keep for ever who did it and why.

        As `CounterManager.adjust`, with its arguments and its errors.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
        """
        from django_counters.adjustments.adjustment import adjust

        using = options.pop("using", None) or self._db
        return adjust(records.of_record(record, name, using), **options)

    def reset(
        self, record: models.Model, name: str, **options: Unpack[ResetOptions]
    ) -> CounterAdjustment:
        """Set a counter of a record to zero, and keep for ever who did it and why.

        As `CounterManager.reset`, with its arguments and its errors.

        Raises:
            UnsavedInstance: the record has no row yet.
            RecordMissing: the name is a field, and the row of the record is gone.
        """
        return self.adjust(record, name, to=0, **options)

    aadjust = twin(adjust)
    areset = twin(reset)
    aincrement = twin(increment)
    adecrement = twin(decrement)
    avalue = twin(value)
    avalues_of = twin(values_of)
    aread = twin(read)


# -- The public API: entries of the ledger, for any strategy of their namespace.

Pair = tuple[str, int]
Tokened = tuple[str, int, UUID | str | None]

_DeltaRow = TypeVar("_DeltaRow", bound=DeltaColumns)


class DeltaRows(models.QuerySet[_DeltaRow]):
    """Entries to look at. Nothing alters one, so what would do it raises an error."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("Entries of the ledger stay as they are; append one that corrects them.")

    update = delete = create = bulk_create = bulk_update = _refuse
    get_or_create = update_or_create = _refuse


_RowsManager = models.Manager.from_queryset(DeltaRows)


class DeltaManager(_RowsManager[_DeltaRow]):
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
    ) -> LedgerPage[_DeltaRow]:
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

    def _passed(self, found: Passed, using: str | None) -> _DeltaRow:
        # In the order of the columns.
        names = ("token", "created_at", *found._fields[1:])
        values = (found.token, clock.shown(moment_of(found.token)), *found[1:])
        return self.model.from_db(using or self.db, names, values)

    asince = twin(since)
    aend = twin(end)
    aappend = twin(append)
    aappend_many = twin(append_many)
