"""The public API: counters whose increments wait in a buffer of their process."""

from __future__ import annotations

from asgiref.sync import sync_to_async

from django_counters.managers.maxima import MaximumManager
from django_counters.managers.rows import Row
from django_counters.stores.sql.block import refuse_transaction
from django_counters.write.buffers import buffers
from django_counters.write.change import named
from django_counters.write.handle import Handle


class BufferManager(MaximumManager[Row]):
    """Reaches the buffers of this process."""

    def handle(self, key: str, *, using: str | None = None) -> Handle:
        """A way to one counter that is as short as can be, for the hottest paths.

        Keep it: to make one takes longer than to count. It stays good in children of the process.

        Raises:
            InvalidKey: it is no key.
            InvalidConfiguration: its namespace declares no ``BUFFER``.
        """
        return Handle(named(key, using or self._db))

    def flush_buffers(self, *, using: str | None = None) -> int:
        """Land what waits in the buffers of this process, and return how many sums that were.

        ``using``: for one database; else for all. Other processes keep what they have.

        Raises:
            Busy, CounterUnavailable, OutcomeUnknown: it still waits; call it again, or leave it.
            RuntimeError: the caller has a transaction, which could take back what is landed.
        """
        alias = using or self._db
        for of, _ in buffers.those_of(alias):
            refuse_transaction(of.using)
        return buffers.flush(alias)

    async def aflush_buffers(self, *, using: str | None = None) -> int:
        """`flush_buffers` for async code."""
        return await sync_to_async(self.flush_buffers)(using=using)

    # Templates do not call what changes data.
    flush_buffers.alters_data = True  # type: ignore[attr-defined]
    aflush_buffers.alters_data = True  # type: ignore[attr-defined]
