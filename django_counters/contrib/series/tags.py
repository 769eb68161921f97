"""The values of tags in one database: the first ones are counted apart, the others together."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connections, transaction

from django_counters.contrib.series.models import CounterTag
from django_counters.contrib.series.options import OTHER, SEPARATOR
from django_counters.measure import Measure
from django_counters.stores.sql.measures import Stored
from django_counters.stores.sql.session import Session, commits_at_once
from django_counters.tenants import acting_for, tenant


class SqlTags:
    """Remembers the values that are committed."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._session = Session(using)
        self._values: dict[tuple[int, str], frozenset[str]] = {}

    def admitted(self, measure: Measure, stored: Stored, tags: str) -> str:
        """The tags of a cell with ``~`` for each value that is not counted apart."""
        most = dict(measure.declared("tags"))
        return SEPARATOR.join(
            self.admit(stored, name, value, most[name]) if value and name in most else value
            for name, value in zip(stored.tags, tags.split(SEPARATOR), strict=False)
        )

    def admit(self, stored: Stored, name: str, value: str, most: int) -> str:
        """The value itself where it is counted apart, else ``~``.

        A transaction's new values get their rows when it commits: no other one waits for it. So
        transactions that are open at the same moment may together admit a few more than ``most``.
        """
        where = (stored.id, name)
        known = self._values.get(where, frozenset())
        if value in known:
            return value
        if len(known) >= most:
            return OTHER
        connection = connections[self._using]
        if commits_at_once(self._using) or not (
            connection.autocommit or connection.in_atomic_block
        ):
            # Without autocommit there is no hook of a commit: the row is part of the transaction.
            known = self._load(where)
            if value not in known and len(known) < most:
                self._insert(where, {value})
                return value
            return value if value in known else OTHER
        new = self._new(where)
        if value not in new.known | new.values:
            if len(new.known | new.values) >= most:
                return OTHER
            new.values.add(value)
        return value

    def _new(self, where: tuple[int, str]) -> _NewValues:
        """The new values of the caller's transaction."""
        for entry in connections[self._using].run_on_commit:
            new = getattr(entry[1], "__self__", None)
            # Another tenant may have a measure with the same id.
            if isinstance(new, _NewValues) and (new.tags, new.where) == (self, where):
                return new
        new = _NewValues(self, where, self._load(where))
        transaction.on_commit(new.insert, using=self._using, robust=True)
        return new

    def _load(self, where: tuple[int, str]) -> frozenset[str]:
        measure, name = where
        rows = CounterTag._base_manager.using(self._using).filter(measure_id=measure, name=name)
        with self._session.translated():
            known = frozenset(rows.values_list("value", flat=True))
        if connections[self._using].autocommit:
            self._values[where] = known
        return known

    def _insert(self, where: tuple[int, str], values: Collection[str]) -> None:
        measure, name = where
        tags = [CounterTag(measure_id=measure, name=name, value=value) for value in sorted(values)]
        with self._session.translated():
            CounterTag._base_manager.using(self._using).bulk_create(tags, ignore_conflicts=True)


class _NewValues:
    """Values of a tag that a transaction has counted by and no earlier one."""

    def __init__(self, tags: SqlTags, where: tuple[int, str], known: frozenset[str]) -> None:
        self.where = where
        self.known = known
        self.values: set[str] = set()
        self.tags = tags
        self._tenant = tenant()

    def insert(self) -> None:
        """Make their rows, once the transaction is committed."""
        if self.values:
            with acting_for(self._tenant):
                self.tags._insert(self.where, self.values)
