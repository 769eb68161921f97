"""The public API: named counters in shards, for any strategy of their namespace."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar, Unpack
from uuid import UUID

from django.db import models

from django_counters.projections.event import ShardOptions, Tags, Who, event_of
from django_counters.reading import value_of
from django_counters.tables.core import ShardColumns
from django_counters.tokens import Token, optional_token
from django_counters.twins import twin
from django_counters.types import check_integer
from django_counters.values import Result
from django_counters.write.changes import Change, in_shards
from django_counters.write.pipeline import change

_Row = TypeVar("_Row", bound=ShardColumns)


class ShardManager(models.Manager[_Row]):
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
        ref = in_shards(key, using or self._db)
        return change(
            Change(ref, delta, route=shard_key, token=given, event=event_of(at, tags, who))
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
