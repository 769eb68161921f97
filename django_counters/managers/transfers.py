"""The public API: stock that moves between regions."""

from __future__ import annotations

from uuid import UUID

from asgiref.sync import sync_to_async

from django_counters.managers.buffers import BufferManager
from django_counters.managers.rows import Row
from django_counters.tokens import Token
from django_counters.values import Result
from django_counters.write import transfers


class TransferManager(BufferManager[Row]):
    """Sends stock to other regions."""

    def transfer(
        self,
        key: str,
        amount: int,
        *,
        to: str,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> Result:
        """Send stock to another region, in the caller's transaction, and return what is left here.

        The namespace declares ``REGIONAL`` and ``FLOOR: 0``: each region takes from its own stock.
        This one falls at once. The other one grows when it has copied that, after the next
        ``publish`` here and ``pull`` there. Until then it cannot be taken. So all regions together
        never give more than there was, whether or not they can talk.

        With a ``token`` it is sent once, however often the call is repeated; see `increment`.

        Raises:
            InsufficientCount: this region has less.
            UnsupportedRegions: the namespace has no such stock, or there is no such region.
            RegionAway: this server was started, and has not published since: it may have been
                restored from a backup.
            InvalidKey, InvalidDelta: it is no key (100 characters are left for one beside the names
                of regions), or ``amount`` is no integer above zero.
            InvalidToken, TokenConflict, TokenExpired: as `increment`.
        """
        return transfers.transfer(key, amount, to, token, using or self._db)

    async def atransfer(
        self,
        key: str,
        amount: int,
        *,
        to: str,
        token: str | UUID | Token | None = None,
        using: str | None = None,
    ) -> Result:
        """`transfer` for async code."""
        return await sync_to_async(self.transfer)(key, amount, to=to, token=token, using=using)

    # Templates do not call what changes data.
    transfer.alters_data = True  # type: ignore[attr-defined]
    atransfer.alters_data = True  # type: ignore[attr-defined]
