"""The rollup of one table: the pending amount becomes part of the totals, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db import Error

from django_counters.errors import CounterOverflow
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.session import Owner, Session
from django_counters.stores.sql.tables import RecordKeys
from django_counters.types import INT8

# Milliseconds to wait for a transaction that is just making the same total.
_HURRY = "10"
# How often to wait in one page.
_PATIENCE = 5


class Folded(NamedTuple):
    """What one step of a rollup did: how many rows are gone, of how many counters."""

    rows: int
    counters: int


class SqlFolding:
    """Folds the shards or slots of one table of totals. Never waits for another transaction, and no
    transaction for it."""

    def __init__(self, table: Table, using: str, key_field: Any) -> None:
        self._session = Session(using)
        self._table = table
        # Without a column the total stands among the slots, under the text of the key.
        self._keys = RecordKeys(key_field, using) if key_field and table.value else None
        dialect = self._session.dialect
        quoted = table.quoted(self._session.quote)
        self._owner = Owner(table.pending, self._session)
        self._sql = dialect.fold(quoted, self._keys.type if self._keys else "text")

    def left(self) -> Folded:
        """How many rows wait, for how many counters."""
        ((rows, counters),) = self._session.run(self._sql.left, self._owner.scope(), writes=False)
        return Folded(rows, counters)

    def namespaces(self) -> dict[str, Folded]:
        """How many rows of named counters wait, for how many counters, in each namespace."""
        found: dict[str, Folded] = {}
        for namespace, rows, counters in self._session.run(self._sql.namespaces, (), writes=False):
            found[namespace] = Folded(rows, counters)
        return found

    def pages(self, size: int) -> Iterator[list[str]]:
        """The counters that have something pending, page by page."""
        last = ""
        while True:
            params = (*self._owner.scope(), last, size)
            page = [key for (key,) in self._session.run(self._sql.waiting, params, writes=False)]
            if not page:
                return
            yield page
            last = page[-1]

    def fold(self, keys: Sequence[str], remainder: int) -> Folded:
        """Fold every second row of some counters in one transaction.

        The other half stays where it is, so that writers find an unlocked row.

        Raises:
            CounterOverflow: a total would not fit; nothing was changed.
        """
        dialect = self._session.dialect
        # Where transactions keep one snapshot, a row that was changed since could not be taken.
        with self._session.read_committed():
            totals = self._locked(keys)
            missing = [key for key in keys if key not in totals]
            if missing and self._table.inserts:
                self._ensure(missing)
                totals.update(self._locked(missing))
            sums: dict[str, int] = defaultdict(int)
            rows = 0
            among = dialect.keys(list(totals))
            for key, value, count in self._session.run(
                self._sql.take, (*self._owner.scope(), among, remainder)
            ):
                sums[key] += int(value)
                rows += count
            self._credit(totals, sums)
        return Folded(rows, len(sums))

    def orphans(self, keys: Sequence[str]) -> int:
        """Drop what waits for records that are no more; how many rows that were."""
        if self._keys is None:
            return 0
        among = self._session.dialect.keys
        native = among([self._native(key) for key in keys])
        params = (*self._owner.scope(), among(keys), native)
        return len(self._session.run(self._sql.orphans, params))

    def strange(self, keys: Sequence[str]) -> list[str]:
        """Keys that no record of the model can have."""
        known = keys if self._keys is None else self._keys.natives(keys)
        return [key for key in keys if key not in known]

    def _ensure(self, keys: Sequence[str]) -> None:
        """Make totals that are missing, but not those that another transaction is just making."""
        held = 0 if self._made(keys) else 1
        for key in keys if held and len(keys) > 1 else ():
            # Each wait is short, but locks are held meanwhile.
            held += not self._made([key])
            if held > _PATIENCE:
                return

    def _made(self, keys: Sequence[str]) -> bool:
        dialect = self._session.dialect
        try:
            with self._session.all_or_nothing(), self._session.hurried(_HURRY):
                params = (*self._bare(), dialect.keys(keys))
                self._session.run(self._sql.ensure_at_once, params)
        except Error as error:
            if not dialect.timed_out(error):
                raise
            return False
        return True

    def _locked(self, keys: Sequence[str]) -> dict[str, int]:
        """The unlocked totals, by the text of their keys."""
        among = self._session.dialect.keys([self._native(key) for key in keys])
        rows = self._session.run(self._sql.lock, (*self._bare(), among))
        return {str(key): total for key, total in rows}

    def _credit(self, totals: dict[str, int], sums: dict[str, int]) -> None:
        low, high = self._table.capacity
        for key, by in sums.items():
            if not (low <= totals[key] + by <= high and INT8[0] <= by <= INT8[1]):
                raise CounterOverflow(key=key, low=low, high=high)
        if not sums:
            return
        native = {self._native(key): by for key, by in sums.items()}
        params = self._session.dialect.sums(native)
        credited = self._session.run(self._sql.credit, (*self._bare(), *params))
        if len(credited) != len(sums):
            raise RuntimeError(f"{len(sums)} totals are locked, {len(credited)} were changed")

    def _bare(self) -> tuple[Any, ...]:
        """The scope, for statements on totals that stand among the slots."""
        return () if self._table.value else self._owner.scope()

    def _native(self, key: str) -> Any:
        """A key as its column holds it."""
        return key if self._keys is None else self._keys.native(key)
