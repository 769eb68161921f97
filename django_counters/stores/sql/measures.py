"""The rows of measures in one database, and the values of their tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.db import connections, transaction
from django.utils import timezone

from django_counters import clock
from django_counters.effects import stored_periods
from django_counters.measure import OTHER, SEPARATOR, Measure
from django_counters.stores.sql.session import Session, commits_at_once, is_of_a_test_case
from django_counters.tables import CounterMeasure, CounterTag
from django_counters.tables.schema import ENTRIES
from django_counters.tenants import acting_for, tenant
from django_counters.types import Cell, Delta, Effect

# How far clocks may differ from that of this host.
AHEAD = timedelta(minutes=5)
# For how long processes may go on that do not know of a new period: a deployment is over by then.
GRACE = timedelta(hours=1)


class Stored(NamedTuple):
    """A measure as the database has it.

    Attributes:
        id: its number, which stands in its cells.
        zone: the name of the time zone by whose clocks its periods begin.
        tags: the names of its tags, in the order in which cells have their values.
        since: from when on each period is counted by, and its sums are ranked (``"top day"``); None
            where that is from the beginning.
        secret: the key of the hashes that stand for actors.
    """

    id: int
    zone: str
    tags: tuple[str, ...]
    since: tuple[tuple[str, datetime | None], ...]
    secret: bytes = b""

    def has(self, measure: Measure) -> bool:
        """Whether it lacks nothing that is declared, and has nothing by period that is not."""
        names = {name for name, _ in measure.tags}
        return names <= set(self.tags) and {period for period, _ in self.since} == set(
            stored_periods(measure)
        )


class SqlMeasures:
    """Remembers what is committed. A measure gets its row when a transaction first counts by it.

    ``migrate`` makes the rows of all that are declared, so that this is rare.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._session = Session(using)
        self._stored: dict[str, Stored] = {}
        self._values: dict[tuple[int, str], frozenset[str]] = {}
        # Rows that a transaction has made which may still be rolled back.
        self._tentative: set[object] = set()
        # As many as are declared.
        self._counted: dict[Measure, Stored] = {}

    def find(self, name: str) -> Stored | None:
        """The measure with a name; None if it has no row."""
        known = self._stored.get(name)
        if known is not None:
            return known
        with self._session.translated():
            row = CounterMeasure._base_manager.using(self._using).filter(name=name).first()
        if row is None:
            return None
        stored = _stored(row)
        if self._is_settled(name):
            self._stored[name] = stored
        return stored

    def forgotten(self, name: str, period: str, before: datetime) -> None:
        """Remember that cells of a period are gone: readers must not take them for zeros."""
        with transaction.atomic(using=self._using):
            rows = CounterMeasure._base_manager.using(self._using).select_for_update()
            row = rows.get(name=name)
            known = row.periods.get(period)
            if known is None or datetime.fromisoformat(known) < before:
                row.periods[period] = before.isoformat()
                row.save(using=self._using, update_fields=["periods"])
        self._stored.pop(name, None)

    def present(self, measure: Measure) -> Stored | None:
        """The row of a measure, asked for again where what is known of it is not what is declared.

        Another process may have completed it.
        """
        stored = self.find(measure.name)
        if stored is not None and not stored.has(measure):
            self._stored.pop(measure.name, None)
            stored = self.find(measure.name)
        return stored

    def knows(self, measure: Measure) -> bool:
        """Whether `ensure` would ask nothing."""
        stored = self._stored.get(measure.name)
        return stored is not None and stored.has(measure)

    def ensure(self, measure: Measure) -> Stored:
        """The row of a measure, made or completed where it lacks something."""
        known = self._counted.get(measure)
        if known is not None and self._stored.get(measure.name) is known:
            return known
        stored = self.find(measure.name)
        if stored is None or not stored.has(measure):
            stored = self._completed(measure)
        self._counted[measure] = stored
        return stored

    def _completed(self, measure: Measure) -> Stored:
        with self._session.translated():
            if self._others_would_wait():
                with ThreadPoolExecutor(1) as apart:
                    return apart.submit(self._made_apart, measure, tenant()).result()
            return self._made(measure)

    def _others_would_wait(self) -> bool:
        """Whether a row made here would be locked for as long as the caller's transaction lasts.

        Two transactions that count by two new measures could then wait for each other.
        """
        if commits_at_once(self._using) or is_of_a_test_case(self._using, outermost=True):
            return False
        return connections[self._using].features.has_select_for_update

    def _made_apart(self, measure: Measure, name: str) -> Stored:
        """Make a row with a connection of its own, and so in a transaction of its own."""
        try:
            with acting_for(name):
                return self._made(measure)
        finally:
            connections[self._using].close()

    def _made(self, measure: Measure) -> Stored:
        rows, name = CounterMeasure._base_manager.using(self._using), measure.name
        self._stored.pop(name, None)
        # Where transactions keep one snapshot, a row that another transaction has just made is an
        # error.
        with self._session.read_committed():
            zone = str(timezone.get_default_timezone())
            first = {"zone": zone, "periods": partial(self._begun, measure)}
            row, _ = rows.get_or_create(name=name, defaults=first)
            row = rows.select_for_update().get(pk=row.pk)
            # Cells have their values by this order: a name keeps its place for ever.
            row.tags = list(dict.fromkeys((*row.tags, *(tag for tag, _ in measure.tags))))
            # A later row would lack earlier counts, also those of processes that end soon.
            now = (clock.utc() + GRACE).isoformat()
            periods = stored_periods(measure)
            row.periods = {period: row.periods.get(period, now) for period in periods}
            row.save(using=self._using, update_fields=["tags", "periods"])
        stored = _stored(row)
        if connections[self._using].in_atomic_block:
            self._tentative.add(name)
        else:
            self._stored[name] = stored
        return stored

    def _begun(self, measure: Measure) -> dict[str, str | None]:
        """Since when each period of a new row is known; None for ever."""
        # Earlier counts of a ledger are in its entries, and in no cell.
        entries = ENTRIES.of_namespace(measure.name, self._using)
        since = (clock.utc() + GRACE).isoformat() if entries.exists() else None
        return dict.fromkeys(stored_periods(measure), since)

    def admitted(self, measure: Measure, stored: Stored, tags: str) -> str:
        """The tags of a cell with ``~`` for each value that is not counted apart."""
        most = dict(measure.tags)
        return SEPARATOR.join(
            self.admit(stored, name, value, most[name]) if value and name in most else value
            for name, value in zip(stored.tags, tags.split(SEPARATOR), strict=False)
        )

    def with_admitted(self, deltas: Sequence[Delta]) -> tuple[Delta, ...]:
        """Deltas whose cells have admitted tags, where this process has counted by the measure."""
        known = {stored.id: (measure, stored) for measure, stored in self._counted.items()}
        return tuple(delta._replace(effects=self._merged(delta.effects, known)) for delta in deltas)

    def _merged(
        self, effects: Sequence[Effect], known: Mapping[int, tuple[Measure, Stored]]
    ) -> tuple[Effect, ...]:
        sums: dict[Cell, int] = {}
        for given, by in effects:
            cell = given
            if cell.tags and cell.measure in known:
                cell = cell._replace(tags=self.admitted(*known[cell.measure], cell.tags))
            sums[cell] = sums.get(cell, 0) + by
        return tuple(Effect(cell, by) for cell, by in sums.items())

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
            if isinstance(new, _NewValues) and (new.measures, new.where) == (self, where):
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

    def _is_settled(self, what: object) -> bool:
        """Whether what is seen of a row now is committed."""
        return what not in self._tentative or not connections[self._using].in_atomic_block


def _stored(row: CounterMeasure) -> Stored:
    since = (
        (period, None if moment is None else datetime.fromisoformat(moment))
        for period, moment in row.periods.items()
    )
    return Stored(row.id, row.zone, tuple(row.tags), tuple(since), bytes(row.secret))


class _NewValues:
    """Values of a tag that a transaction has counted by and no earlier one."""

    def __init__(
        self, measures: SqlMeasures, where: tuple[int, str], known: frozenset[str]
    ) -> None:
        self.where = where
        self.known = known
        self.values: set[str] = set()
        self.measures = measures
        self._tenant = tenant()

    def insert(self) -> None:
        """Make their rows, once the transaction is committed."""
        if self.values:
            with acting_for(self._tenant):
                self.measures._insert(self.where, self.values)
