"""Sets of actors in one database: members that wait one by one, and the sketches of all others.

A set is its sketch and the members that wait for it. Adding a member twice changes nothing, so an
uncertain caller may do it again, and a reader may meet a member in both places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connections, models

from django_counters import clock
from django_counters.contrib.uniques.models import CounterMember, CounterUnique
from django_counters.contrib.uniques.options import MEMBER
from django_counters.contrib.uniques.sketches import EXACT, ROUGH, Sketch
from django_counters.stores.sql.session import Session, aware
from django_counters.types import Cell

#: Measure, key, period, start and tags: a set of members.
Place: TypeAlias = tuple[int, str, int, datetime, str]
# How many sets one statement holds.
_SETS = 100
# How many members one transaction puts into their sets.
_MEMBERS = 5000


def place_of(key: str, cell: Cell) -> Place:
    """Return the set that the member of a cell belongs to."""
    measure, period, start, tags, _ = cell.values
    return measure, key, period, start, tags


def land_members(
    session: Session,
    members: Iterable[tuple[str, Cell]],
    registers: Iterable[tuple[str, Cell, bytes]],
) -> None:
    """Put members that land into their sets, within the caller's transaction.

    Args:
        session: the database.
        members: the key and the cell of each.
        registers: for sets that had too many members in Redis; with the key and a cell of the set.
    """
    landing: dict[Place, set[int]] = {}
    for key, cell in members:
        landing.setdefault(place_of(key, cell), set()).add(cell.values[-1])
    sets = {place: Sketch.of(found) for place, found in landing.items()}
    for key, cell, body in registers:
        place = place_of(key, cell)
        sets[place] = sets.get(place, Sketch()) | Sketch(ROUGH, body)
    SqlUniques(session).unite(sets)


class SqlUniques:
    """Puts members into sets. Holds no connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sets = CounterUnique._base_manager.using(session.using)

    def unite(self, sets: Mapping[Place, Sketch]) -> None:
        """Put the members of sets into those that are stored, within the caller's transaction.

        Sets are made, then held, each time in one order, so that no two of us wait for each other.
        """
        ordered = sorted(sets)
        pages = [ordered[at : at + _SETS] for at in range(0, len(ordered), _SETS)]
        with self._session.translated():
            for page in pages:
                self._make({place: sets[place] for place in page})
            for page in pages:
                self._put(self._grown(page, sets))

    def _make(self, sets: Mapping[Place, Sketch]) -> None:
        """Insert the sets that do not exist yet.

        Most exist. On MySQL, an INSERT that meets an existing row takes a shared lock on it. Two
        transactions that then update the row would deadlock.
        """
        there = {_place(pk) for pk in self._of(sets).values_list("pk", flat=True)}
        rows = [_row(place, sketch) for place, sketch in sets.items() if place not in there]
        self._sets.bulk_create(rows, ignore_conflicts=True)

    def _grown(
        self, places: Sequence[Place], sets: Mapping[Place, Sketch]
    ) -> Iterator[CounterUnique]:
        """Yield the sets that gain members. Most members are in their set already."""
        for pk, kind, body in self._held(places):
            place, sketch = _place(pk), Sketch(kind, bytes(body))
            grown = sketch if sketch == sets[place] else sketch | sets[place]
            if grown != sketch:
                yield _row(place, grown)

    def _held(self, places: Sequence[Place]) -> list[tuple[Any, ...]]:
        held = self._of(places).select_for_update().order_by(*_COLUMNS)
        return list(held.values_list("pk", "kind", "body"))

    def _of(self, places: Iterable[Place]) -> models.QuerySet[CounterUnique]:
        return self._sets.filter(pk__in=[_shown(place) for place in places])

    def _put(self, rows: Iterable[CounterUnique]) -> None:
        """Store sets that are held, in one statement."""
        # MySQL takes no names of columns there, and the primary key is the only one.
        named = connections[self._sets.db].features.supports_update_conflicts_with_target
        self._sets.bulk_create(
            list(rows),
            update_conflicts=True,
            unique_fields=["measure", "key", "period", "start", "tags"] if named else None,
            update_fields=["kind", "body"],
        )

    def forget(self, measure: int, member: int, instead: int = 0, *, dry_run: bool = False) -> int:
        """Take a member out of all exact sets of a measure. Return the number of those sets.

        Looks through all of them. Registers stay as they are: members cannot be found in them. A
        member that a rollup folds meanwhile is met in its set, because pending members come first.

        Args:
            measure: the number of the measure.
            member: who is taken out.
            instead: who takes the place, so that no count changes; 0 for no replacement.
            dry_run: only count.
        """
        waiting = CounterMember._base_manager.using(self._session.using)
        found = 0
        with self._session.translated():
            for row in waiting.filter(measure=measure, member=member):
                found += 1
                if not dry_run:
                    self._replace(row.pk[:-1], member, instead)
            exact = self._sets.filter(measure=measure, kind=EXACT).order_by("pk")
            page: list[Any] = list(exact.values_list("pk", "body")[:_SETS])
            # Page by page: a pooler may end a cursor of the server between two statements.
            while page:
                for pk, body in page:
                    if Sketch(EXACT, bytes(body)).keeps(member):
                        found += 1
                        if not dry_run:
                            self._replace(pk, member, instead)
                later = exact.filter(pk__gt=page[-1][0])
                page = list(later.values_list("pk", "body")[:_SETS])
        return found

    def _replace(self, place: tuple[Any, ...], member: int, instead: int) -> None:
        waiting = CounterMember._base_manager.using(self._session.using)
        with self._session.all_or_nothing():
            waiting.filter(pk=(*place, member)).delete()
            held = self._sets.filter(pk=place).select_for_update()
            for pk, kind, body in held.values_list("pk", "kind", "body"):
                left = Sketch(kind, bytes(body)).without(member)
                self._sets.filter(pk=pk).update(kind=left.kind, body=left.body)
            if instead:
                self.unite({_place(place): Sketch.of([instead])})

    def waiting(self) -> int:
        """How many members wait for their sets."""
        with self._session.translated():
            return CounterMember._base_manager.using(self._session.using).count()

    def fold(self) -> int:
        """Put the members that wait into their sets, and delete their rows; how many.

        Leaves alone what others hold. Any number of these can run at once: a row is deleted by one
        of them, in the transaction that changes its set.
        """
        folded = 0
        sql = self._session.dialect.cells.drain(MEMBER)
        while True:
            with self._session.read_committed():
                rows = self._session.run(sql, (_MEMBERS,))
                waiting: dict[Place, set[int]] = {}
                for measure, key, period, start, tags, member in rows:
                    place = measure, key, period, aware(start, local=True), tags
                    waiting.setdefault(place, set()).add(member)
                self.unite({place: Sketch.of(members) for place, members in waiting.items()})
            folded += len(rows)
            if len(rows) < _MEMBERS:
                return folded


_COLUMNS = ("measure_id", "key", "period", "start", "tags")


def _row(place: Place, sketch: Sketch) -> CounterUnique:
    of = dict(zip(_COLUMNS, _shown(place), strict=True))
    return CounterUnique(**of, kind=sketch.kind, body=sketch.body)


def _shown(place: Place) -> tuple[Any, ...]:
    """A place as columns have it."""
    measure, key, period, start, tags = place
    return measure, key, period, clock.shown(start), tags


def _place(row: Sequence[Any]) -> Place:
    """A place as it is given."""
    measure, key, period, start, tags = row
    return int(measure), str(key), int(period), clock.meant(start), str(tags)
