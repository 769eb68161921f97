"""The rows of measures in one database."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, NamedTuple

from django.db import connections, transaction
from django.utils import timezone

from django_counters import clock
from django_counters.effects import kinds
from django_counters.measure import Kind, Measure
from django_counters.stores.sql.session import Session, commits_at_once, is_of_a_test_case
from django_counters.tables import CounterMeasure
from django_counters.tables.schema import ENTRIES
from django_counters.tenants import acting_for, tenant

# For how long processes may go on that do not know of a new period: a deployment is over by then.
GRACE = timedelta(hours=1)


def known_as(kind: Kind, period: str) -> str:
    """Return the name under which the row of a measure says since when a period is known."""
    return period if kind.option == "per" else f"{kind.option} {period}"


def stored_periods(measure: Measure) -> tuple[str, ...]:
    """Return the names under which the row of a measure has the start of each period's history."""
    return _stored_periods(measure, kinds())


@lru_cache(1_000)
def _stored_periods(measure: Measure, known: tuple[Kind, ...]) -> tuple[str, ...]:
    return tuple(
        known_as(kind, period)
        for kind in known
        if any(column.name == "period" for column in kind.own)
        for period in measure.declared(kind.option)
    )


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
        names = set(dict(measure.declared("tags")))
        return names <= set(self.tags) and {period for period, _ in self.since} == set(
            stored_periods(measure)
        )


class SqlMeasures:
    """Remembers what is committed. A measure gets its row when a transaction first counts by it.

    ``migrate`` makes the rows of all that are declared, so that this is rare.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self._session = Session(using)
        # What apps remember of the same rows, by its class.
        self.beside: dict[type, Any] = {}
        self._stored: dict[str, Stored] = {}
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
            row = CounterMeasure._base_manager.using(self.using).filter(name=name).first()
        if row is None:
            return None
        stored = _stored(row)
        if self._is_settled(name):
            self._stored[name] = stored
        return stored

    def forgotten(self, name: str, period: str, before: datetime) -> None:
        """Remember that cells of a period are gone: readers must not take them for zeros."""
        with transaction.atomic(using=self.using):
            rows = CounterMeasure._base_manager.using(self.using).select_for_update()
            row = rows.get(name=name)
            known = row.periods.get(period)
            if known is None or datetime.fromisoformat(known) < before:
                row.periods[period] = before.isoformat()
                row.save(using=self.using, update_fields=["periods"])
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
        if commits_at_once(self.using) or is_of_a_test_case(self.using, outermost=True):
            return False
        return connections[self.using].features.has_select_for_update

    def _made_apart(self, measure: Measure, name: str) -> Stored:
        """Make a row with a connection of its own, and so in a transaction of its own."""
        try:
            with acting_for(name):
                return self._made(measure)
        finally:
            connections[self.using].close()

    def _made(self, measure: Measure) -> Stored:
        rows, name = CounterMeasure._base_manager.using(self.using), measure.name
        self._stored.pop(name, None)
        # Where transactions keep one snapshot, a row that another transaction has just made is an
        # error.
        with self._session.read_committed():
            zone = str(timezone.get_default_timezone())
            first = {"zone": zone, "periods": partial(self._begun, measure)}
            row, _ = rows.get_or_create(name=name, defaults=first)
            row = rows.select_for_update().get(pk=row.pk)
            # Cells have their values by this order: a name keeps its place for ever.
            row.tags = list(
                dict.fromkeys((*row.tags, *(tag for tag, _ in measure.declared("tags"))))
            )
            # A later row would lack earlier counts, also those of processes that end soon.
            now = (clock.utc() + GRACE).isoformat()
            periods = stored_periods(measure)
            row.periods = {period: row.periods.get(period, now) for period in periods}
            row.save(using=self.using, update_fields=["tags", "periods"])
        stored = _stored(row)
        if connections[self.using].in_atomic_block:
            self._tentative.add(name)
        else:
            self._stored[name] = stored
        return stored

    def _begun(self, measure: Measure) -> dict[str, str | None]:
        """Since when each period of a new row is known; None for ever."""
        # Earlier counts of a ledger are in its entries, and in no cell.
        entries = ENTRIES.of_namespace(measure.name, self.using)
        since = (clock.utc() + GRACE).isoformat() if entries.exists() else None
        return dict.fromkeys(stored_periods(measure), since)

    @property
    def counted(self) -> Mapping[int, tuple[Measure, Stored]]:
        """The measures that this process has counted by, by their numbers."""
        return {stored.id: (measure, stored) for measure, stored in self._counted.items()}

    def _is_settled(self, what: object) -> bool:
        """Whether what is seen of a row now is committed."""
        return what not in self._tentative or not connections[self.using].in_atomic_block


def _stored(row: CounterMeasure) -> Stored:
    since = (
        (period, None if moment is None else datetime.fromisoformat(moment))
        for period, moment in row.periods.items()
    )
    return Stored(row.id, row.zone, tuple(row.tags), tuple(since), bytes(row.secret))
