"""Partitions of the ledger's table: created ahead of time, sealed, and dropped as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django.db import Error, connections

from django_counters import clock
from django_counters.errors import LedgerIncomplete
from django_counters.ledger.inquiry import LedgerPosition, SqlFollowing
from django_counters.ledger.sql import Extent, statements
from django_counters.stores.base import PartitionBusy
from django_counters.stores.sql.dialects.spelling import DELTAS
from django_counters.stores.sql.session import Session, aware
from django_counters.tables import CounterPartition
from django_counters.tables.schema import ENTRIES, beginning

# Milliseconds to wait for a lock, because other transactions queue behind it.
HURRY = "200"


class SqlPartitions:
    """Creates, seals and drops partitions, each in one transaction with short waits for locks."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._using = using
        self._sql = statements(using).partitions
        self._following = SqlFollowing(using)

    @property
    def exist(self) -> bool:
        """Return whether the ledger of this database has partitions."""
        return self._session.dialect.partitions

    def now(self) -> datetime:
        """Return the present moment of the database."""
        return self._session.now()

    def made_plain(self) -> bool:
        """Return whether the table should have partitions and has none, as without migrations."""
        return [partitioned for partitioned, _ in self._table()] == [False]

    def present(self) -> list[Extent]:
        """Return the existing partitions, the oldest first."""
        rows = self._session.run(self._sql.present, (), writes=False)
        return [
            Extent(name, aware(since, local=True), aware(until, local=True))
            for name, since, until in rows
        ]

    def locks(self) -> tuple[int, int]:
        """Return how many locks all partitions take, and for how many the server has room."""
        ((taken, room),) = self._session.run(self._sql.locks, (), writes=False)
        return taken, room

    def create(self, since: datetime, until: datetime) -> str:
        """Create a partition, then attach it: no transaction that counts waits for that.

        Returns its name; empty if another transaction has just created it.
        """
        name = f"{DELTAS}_{since.astimezone(UTC):%Y%m%d}"
        if since.astimezone(UTC).time() != datetime.min.time():
            name += f"_{since.astimezone(UTC):%H%M%S}"
        with self._hurried():
            gone = set(self._records().exclude(dropped_at=None).values_list("name", flat=True))
            # A rebase drops tables whose records are dropped: a new table needs another name.
            if name in gone:
                name = next(other for n in count(2) if (other := f"{name}_{n}") not in gone)
            if name in {extent.name for extent in self.present()}:
                return ""
            for statement in (self._sql.create, self._sql.attach):
                self._session.execute(
                    statement.format(name=self._quote(name), since=since, until=until)
                )
        return name

    def seal(self, extent: Extent) -> bool:
        """Refuse further entries in a partition, and archive its sums.

        Returns False if some entries aren't rolled up yet, or another transaction has just sealed
        it.

        Raises:
            PartitionBusy: a transaction writes to it.
        """
        name = self._quote(extent.name)
        with self._hurried():
            if self._records().filter(name=extent.name).exists():
                return False
            self._session.execute(self._sql.still.format(name=name))
            quoted = name.replace("%", "%%")
            if self._session.run(self._sql.unfolded.format(name=quoted), (), writes=False):
                return False
            # Read now, so that neither a drop nor a follower has to read the partition for it.
            last = self._session.run(self._sql.last.format(name=quoted), (), writes=False)
            ((fence, first_xid, last_xid, last_seq),) = last or ((None,) * 4,)
            # Sums without a record remain if the record was deleted to accept a loss.
            self._session.run(self._sql.forget, (extent.name,))
            ((entries, delta_sum),) = self._session.run(
                self._sql.archive.format(name=quoted), (extent.name,)
            )
            self._records().create(
                name=extent.name,
                since=clock.shown(extent.since),
                until=clock.shown(extent.until),
                entries=entries,
                delta_sum=delta_sum,
                fence=fence,
                first_xid=first_xid,
                last_xid=last_xid,
                last_seq=last_seq,
                sealed_at=clock.now(),
            )
            # Last, because readers wait from here on.
            self._close(name)
        return True

    def _close(self, name: str) -> None:
        numbered = self._sql.numbered.format(name=name.replace("%", "%%"))
        ((number, fence, horizon),) = self._session.run(numbered, (), writes=False)
        bounds = {"number": number, "fence": fence, "horizon": horizon}
        self._session.execute(self._sql.close.format(name=name, **bounds))

    def drop(self, name: str) -> bool:
        """Drop a sealed partition; its sums stay in the archive.

        It locks the parent before the partition, as readers do, so that neither waits for the
        other. Returns False if another transaction has just dropped it.

        Raises:
            PartitionBusy: another transaction holds the ledger for too long.
        """
        quoted = self._quote(name)
        with self._hurried():
            record = self.sealed().get(name)
            if record is None:
                return False
            for statement in (self._sql.merge, self._sql.forget):
                self._session.run(statement, (name,))
            # Followers can stand at its entries only if it has some.
            if record.last_xid is not None and record.last_seq is not None:
                fence = self._following.begin().fence
                if record.fence == fence:
                    self._following.drop(LedgerPosition(fence, record.last_xid, record.last_seq))
            self._remove(quoted)
            record.dropped_at = clock.now()
            record.save(using=self._using, update_fields=["dropped_at"])
        return True

    def _remove(self, name: str) -> None:
        for statement in (self._sql.lock_parent, self._sql.detach, self._sql.drop):
            self._session.execute(statement.format(name=name))

    def settle(self) -> None:
        """Seal and drop partitions as their records say.

        Replication, or a dump of data alone, copies the records without the changes to the tables.

        Raises:
            LedgerIncomplete: a partition lacks entries, or one to drop has others; nothing was
                changed.
        """
        if not self.exist:
            return
        with self._session.read_committed():
            self._session.run(self._sql.one_at_a_time, ())
            closed = dict(self._session.run(self._sql.closed, (), writes=False))
            for record in self._records().filter(name__in=closed):
                is_dropped = record.dropped_at is not None
                if closed[record.name] and not is_dropped:
                    continue
                name = self._quote(record.name)
                # Before the check, so that no entry arrives after it. The parent first, as writers.
                for statement in (self._sql.lock_parent, self._sql.still):
                    self._session.execute(statement.format(name=name))
                self._refuse_others(record, name)
                if is_dropped:
                    self._remove(name)
                else:
                    self._close(name)

    def _refuse_others(self, record: CounterPartition, name: str) -> None:
        """Refuse to settle a partition whose entries differ from its record."""
        content = self._sql.content.format(name=name.replace("%", "%%"))
        (found,) = self._session.run(content, (), writes=False)
        gone = record.dropped_at is not None and found == (0, 0)
        if not gone and found != (record.entries, record.delta_sum):
            raise LedgerIncomplete(
                using=self._using, partition=record.name, expected=record.entries, found=found[0]
            )

    def sealed(self) -> dict[str, CounterPartition]:
        """Return the sealed partitions that are not dropped, by name."""
        return {row.name: row for row in self._records().filter(dropped_at=None)}

    def forget(self, before: datetime) -> int:
        """Archive and delete old entries of a database without partitions; return how many."""
        moment = self._session.dialect.moment(before)
        archive, delete = statements(self._using).forget
        with self._session.all_or_nothing():
            self._session.run(archive, (moment,))
            gone = self._session.run(delete, (moment,))
            deltas = [delta for delta, _, _ in gone]
            if deltas:
                fence = self._following.end().fence
                last = max((xid, seq) for _, xid, seq in gone)
                self._following.drop(LedgerPosition(fence, *last))
                self._records().create(
                    name=f"before {moment}",
                    since=beginning(),
                    until=clock.shown(before),
                    entries=len(deltas),
                    delta_sum=sum(deltas),
                    sealed_at=clock.now(),
                    dropped_at=clock.now(),
                )
        return len(deltas)

    def _records(self) -> Any:
        return CounterPartition._base_manager.using(self._using)

    def _table(self) -> Sequence[tuple[Any, ...]]:
        if not self.exist:
            return []
        return self._session.run(self._sql.partitioned, (), writes=False)

    def _quote(self, name: str) -> str:
        """Return a partition's quoted name, in the schema of its parent."""
        quote = connections[self._using].ops.quote_name
        ((_, schema),) = self._table()
        return f"{quote(schema)}.{quote(name)}"

    @contextmanager
    def _hurried(self) -> Iterator[None]:
        """Open a transaction, one at a time, which gives up instead of waiting for a lock."""
        try:
            # Commits during the wait for a lock have to be seen.
            with self._session.read_committed():
                self._session.run(self._sql.one_at_a_time, ())
                with self._session.hurried(HURRY):
                    yield
        except Error as error:
            dialect = self._session.dialect
            if dialect.timed_out(error) or dialect.unserializable(error):
                raise PartitionBusy from error
            raise


# The table, which Django's models can't describe in full.


@contextmanager
def ledger_table(schema_editor: Any) -> Iterator[None]:
    """Let a block create the table of entries, with partitions if the database has them."""
    ledger = statements(schema_editor.connection.alias)
    whole = schema_editor.sql_create_table
    schema_editor.sql_create_table = whole + ledger.partition_by
    try:
        yield
    finally:
        schema_editor.sql_create_table = whole
    for statement in ledger.prepare:
        schema_editor.execute(statement)


def remake_plain_table(using: str) -> None:
    """Recreate an empty table that was created without migrations, and so without partitions."""
    if not SqlPartitions(using).made_plain() or ENTRIES.rows(using).exists():
        return
    model = ENTRIES.model
    with connections[using].schema_editor() as schema_editor:
        schema_editor.delete_model(model)
        with ledger_table(schema_editor):
            schema_editor.create_model(model)
