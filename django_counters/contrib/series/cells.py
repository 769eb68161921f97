"""From a change to its cells: one for each period that its measure stores, with its tags.

Beside them are the rows that are derived from cells: sums over the columns that a kind lacks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.utils.functional import Promise

from django_counters import clock
from django_counters.contrib.series.calendar import PERIODS, period_of
from django_counters.contrib.series.options import (
    OTHER,
    PERIOD,
    SEPARATOR,
    SUM,
    TAGS,
    TAGS_LENGTH,
    finest_first,
    period_cell,
    period_in,
    with_tags,
)
from django_counters.contrib.series.sql import SqlPeriods, used
from django_counters.contrib.series.tags import SqlTags
from django_counters.effects import has_cells, kinds, names_members
from django_counters.errors import InvalidActor, InvalidMoment, InvalidTags, UnsupportedSeries
from django_counters.event import PLAIN, TAG_LENGTH, Event, actor_of, checked_moment, refuse_event
from django_counters.measure import Kind, Measure, member_of
from django_counters.projector import CountsStore, GuardsStore, LandingCells, Projector
from django_counters.registry import registry
from django_counters.stores.sql.cells import CellPart
from django_counters.stores.sql.measures import SqlMeasures, Stored, stored_periods
from django_counters.tokens import Token, moment_of
from django_counters.types import Amounts, Cell, Delta, Effect, Sums
from django_counters.upkeep import declared_measures

_ENCODED = {"%": "%25", SEPARATOR: "%7C", " ": "%20", OTHER: "%7E"}
_ENCODE = str.maketrans(_ENCODED)


class CellProjector(Projector):
    """Makes the cells of changes, and what is derived from them; see `projector.Projector`."""

    def completed(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Return the parts of a `Measure`: the periods of all options, the finest first."""
        return {**parts, "per": finest_first(list(set(parts.get("per", ()))))}

    def effects(
        self,
        measure: Measure,
        key: str,
        by: int,
        event: Event = PLAIN,
        *,
        using: str,
        admits: bool = True,
        token: Token | None = None,
    ) -> tuple[Effect, ...]:
        """Return the additions to the cells of the counter: ``by`` to each of them, and the actor.

        Raises:
            UnsupportedSeries: ``at`` or ``tags``, and the counter is not counted by period.
            InvalidTags: a tag is not declared, or a value cannot be one.
            InvalidMoment: ``at`` is no moment, more than 5 minutes ahead, or before all that is
                kept. If ``token`` carries a time, the retention of that time counts: a repeated
                call is not refused because a period is kept no longer.
            InvalidActor: ``who`` cannot be one, or is given to a decrement.
        """
        at, tags, who = event
        names_who = who is not None and names_members(measure)
        if not stored_periods(measure):
            # For rows without periods, their app says which events it takes.
            if not has_cells(measure):
                refuse_event(key, event)
            return ()
        if who is not None:
            _check_who(key, by, who, is_named=names_who)
        now = clock.utc()
        moment = None if at is None else checked_moment(at, now)
        named = _checked_tags(measure, key, tags)
        known = registry.measures(using)
        stored = known.ensure(measure)
        text = _encoded(stored, named, key)
        if text and admits:
            text = _tags_of(known).admitted(measure, stored, text)
        if moment is None:
            # Most changes are made now, and nearly all in the same minute as the one before.
            minute = now.replace(second=0, microsecond=0)
            found = _cells_now(measure, stored, minute, minute, text)
        else:
            try:
                made = moment_of(token.uuid) if token and token.uuid else now
                found = _cells(measure, stored, min(now, made), moment, text)
            except OverflowError as error:
                raise InvalidMoment(moment=at, reason="it is out of the range of dates") from error
        effects = tuple(Effect(cell, by) for cell in found.sums) + found.ones
        if who is None:
            return effects
        member = member_of(actor_of(who), stored.secret)
        sets = ((kind, values[:-1]) for kind, values in found.sets)
        return (*effects, *(Effect(Cell(kind, (*of, member)), 1) for kind, of in sets))

    def landing(self, using: str, measures: Iterable[Measure] | None = None) -> LandingPeriods:
        """Return what completes cells that land, of all declared measures or of some."""
        known = registry.measures(using)
        declared = declared_measures(using) if measures is None else measures
        # Complete each row first: derived rows follow the declarations of this process.
        landing = [(known.ensure(one), one) for one in declared if known.find(one.name)]
        return LandingPeriods(using, {stored.id: (one, stored) for stored, one in landing})

    def admitted(self, deltas: Sequence[Delta], using: str) -> Sequence[Delta]:
        """Return changes with admitted tags, if this process has counted by the measure."""
        stored = LandingPeriods(using, registry.measures(using).counted).stored
        admitted = []
        for delta in deltas:
            sums: dict[Cell, int] = {}
            for pending, by in delta.effects:
                cell = stored(pending)
                sums[cell] = sums.get(cell, 0) + by
            effects = tuple(Effect(cell, by) for cell, by in sums.items())
            admitted.append(delta._replace(effects=effects))
        return admitted

    def counted(
        self, measure: Measure, key: Hashable, store: CountsStore
    ) -> tuple[Amounts, Mapping[Kind, Sequence[CellPart]]] | None:
        """Return the value of a counter and its numbers by period, of one moment."""
        stored = registry.measures(store.using).find(measure.name)
        sums = registry.kept(SqlPeriods, store.using)
        return sums.counted(*store.reading(key), stored.id, str(key)) if stored else None

    def taken(self, deltas: Sequence[Delta], store: GuardsStore) -> Sequence[Delta]:
        """Return changes whose decreases take no more from a period than it has counted."""
        return in_period(deltas, store)


PROJECTOR = CellProjector()


class LandingPeriods(LandingCells):
    """Completes cells that land; see `projector.LandingCells`.

    Args:
        using: the database.
        measures: the declared measures and their rows, by the numbers of the rows.
    """

    def __init__(self, using: str, measures: Mapping[int, tuple[Measure, Stored]]) -> None:
        self._tags = _tags_of(registry.measures(using))
        self._measures = measures
        self._admitted = cache(self._admit)

    def _admit(self, measure: int, tags: str) -> str:
        if not tags or measure not in self._measures:
            return tags
        return self._tags.admitted(*self._measures[measure], tags)

    def stored(self, cell: Cell) -> Cell:
        """Return a cell with ``~`` for each value of a tag that is not counted apart."""
        if TAGS not in cell.kind.own:
            return cell
        period = period_in(cell)
        tags = self._admitted(period.measure, period.tags)
        return cell if tags == period.tags else with_tags(cell, cell.kind, tags)

    def with_derived(self, sums: Sums[str]) -> Sums[str]:
        """Return the sums of cells and of the rows derived from them."""
        return with_derived(sums, {number: one for number, (one, _) in self._measures.items()})


def _tags_of(known: SqlMeasures) -> SqlTags:
    found: SqlTags = known.beside.get(SqlTags) or known.beside.setdefault(
        SqlTags, SqlTags(known.using)
    )
    return found


def _check_who(key: str, by: int, who: object, *, is_named: bool) -> None:
    if not is_named:
        raise UnsupportedSeries(key=key, reason="who needs unique periods, and it declares none")
    if by < 0:
        raise InvalidActor(who=who, reason="a decrement takes no one out of a set; leave who out")
    actor_of(who)


def decoded(text: str, names: Sequence[str]) -> dict[str, str]:
    """The tags of a cell; those that were not given are left out."""
    values = text.split(SEPARATOR)
    return {name: _plain(value) for name, value in zip(names, values, strict=False) if value}


def _plain(value: str) -> str:
    if value == OTHER:
        return value
    for character, code in reversed(_ENCODED.items()):
        value = value.replace(code, character)
    return value


def encoded(value: str) -> str:
    """A value of a tag as it stands in a cell."""
    return value.translate(_ENCODE)


class _Cells(NamedTuple):
    """The cells of a moment.

    ``sums``: those that a change adds its amount to, and those derived from them. ``ones``: those
    that it adds one to. ``sets``: those that it adds an actor to.
    """

    sums: tuple[Cell, ...]
    ones: tuple[Effect, ...]
    sets: tuple[Cell, ...]


def _cells(measure: Measure, stored: Stored, now: datetime, moment: datetime, tags: str) -> _Cells:
    zone, keep = ZoneInfo(stored.zone), dict(measure.declared("keep"))
    made = {
        kind: tuple(
            period_cell(kind, stored.id, PERIODS.index(period) + 1, start, tags)
            for period, start in _starts(measure.declared(kind.option), keep, moment, now, zone)
        )
        for kind in kinds()
        if not kind.derived and PERIOD in kind.own
    }
    if not any(made.values()):
        reason = f"no period of {measure.name} is kept for so long"
        raise InvalidMoment(moment=moment, reason=reason)
    sums = [cell for kind, cells in made.items() if not kind.each for cell in cells]
    sets = [cell for kind, cells in made.items() if kind.has_members for cell in cells]
    ones = [Effect(c, 1) for kind in made if kind.each and not kind.has_members for c in made[kind]]
    return _Cells((*sums, *derived_of(measure, sums)), tuple(ones), tuple(sets))


_cells_now = lru_cache(maxsize=256)(_cells)


def _starts(
    periods: Sequence[str],
    keep: Mapping[str, int],
    moment: datetime,
    now: datetime,
    zone: ZoneInfo,
) -> Iterator[tuple[str, datetime]]:
    """The periods that a moment falls into, of those that are still kept."""
    for period in periods:
        start, end = period_of(period, moment, zone)
        days = keep.get(period)
        if days is None or end > now - timedelta(days=days):
            yield period, start


def _checked_tags(measure: Measure, key: str, tags: object) -> dict[str, str]:
    """The given values by name, as texts; those that are empty are left out."""
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise InvalidTags(tags=tags, key=key, reason="they are no dictionary")
    declared = dict(measure.declared("tags"))
    found: dict[str, str] = {}
    for name, value in tags.items():
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise InvalidTags(tags=tags, key=key, reason=f"{name!r} is not declared, but {known}")
        reason = why_no_value(value)
        if reason:
            raise InvalidTags(tags=tags, key=key, reason=f"the value of {name!r} {reason}")
        if value is not None and value != "":
            found[name] = text_of(value)
    return found


def text_of(value: object) -> str:
    """The text of a value, in one form: a member of an enumeration is what it stands for."""
    text = str.__str__(value) if isinstance(value, str) else str(value)
    return unicodedata.normalize("NFC", text)


def why_no_value(value: object) -> str | None:
    """Say what is wrong with the value of a tag; None if it is one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | Promise):
        return f"is a {type(value).__name__}, not a text or an integer"
    if isinstance(value, int) and abs(value) >= 10**TAG_LENGTH:
        return f"has more than {TAG_LENGTH} digits"
    text = text_of(value)
    if len(text) > TAG_LENGTH:
        return f"has {len(text)} characters, {TAG_LENGTH} are allowed"
    if not text.isprintable():
        return "contains a character that cannot be printed"
    return None


def _encoded(stored: Stored, named: Mapping[str, str], key: str) -> str:
    """The values in the order of the stored names."""
    values = [encoded(named.get(name, "")) for name in stored.tags]
    joined = SEPARATOR.join(values).rstrip(SEPARATOR)
    longest = max(map(len, values), default=0)
    if longest > TAG_LENGTH or len(joined) > TAGS_LENGTH:
        reason = f"encoded, a value may have {TAG_LENGTH} characters and all of them {TAGS_LENGTH}"
        raise InvalidTags(tags=dict(named), key=key, reason=reason)
    return joined


# Derived rows.


_Periods = Mapping[Kind, frozenset[int]]


def derived_of(measure: Measure, cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield what is derived from cells of a measure."""
    periods = _periods(measure)
    for cell in cells if periods else ():
        yield from _derived(cell, periods)


def with_derived(sums: Sums[str], measures: Mapping[int, Measure]) -> Sums[str]:
    """Return sums of cells, and of what is derived from them.

    Args:
        sums: by key and cell.
        measures: the declarations, by their numbers.
    """
    by_measure = {number: found for number, one in measures.items() if (found := _periods(one))}
    if not by_measure:
        return sums
    result = dict(sums)
    for (key, cell), by in sums.items():
        if cell is None or cell.kind is not SUM:
            continue
        periods = by_measure.get(period_in(cell).measure)
        if periods is not None:
            for one in _derived(cell, periods):
                result[key, one] = result.get((key, one), 0) + by
    return result


def _periods(measure: Measure) -> _Periods:
    """Return the numbers of the periods of each derived kind."""
    derived = (kind for kind in kinds() if kind.derived and PERIOD in kind.own)
    declared = {kind: measure.declared(kind.option) for kind in derived}
    return {
        kind: frozenset(PERIODS.index(period) + 1 for period in periods)
        for kind, periods in declared.items()
        if periods
    }


def _derived(cell: Cell, by_kind: _Periods) -> Iterator[Cell]:
    if cell.kind is SUM:
        period = period_in(cell)
        for kind, periods in by_kind.items():
            if period.number in periods:
                yield with_tags(cell, kind, period.tags)


# Decreases.


def booked(by: int, used: int) -> int:
    """The part of a change that a period takes which has counted ``used``."""
    return max(by, -max(0, used))


def in_period(deltas: Sequence[Delta], store: GuardsStore) -> list[Delta]:
    """Changes that were made to totals, with what they do to their periods.

    The part that a period does not have was counted before it, and earlier periods stay as they
    are. The caller holds the totals.
    """
    asked = [
        (delta.key, cell)
        for delta in deltas
        for cell, by in delta.effects
        if by < 0 and cell.kind is SUM
    ]
    if not asked:
        return list(deltas)
    sums = used(asked, store.using)
    counted = {(key, period_in(cell).number): n for (key, cell), n in zip(asked, sums, strict=True)}

    def taken(delta: Delta, effect: Effect) -> Effect:
        # Rows of other kinds count changes and actors, not amounts.
        if effect.by > 0 or effect.cell.kind.each or PERIOD not in effect.cell.kind.own:
            return effect
        before = counted[delta.key, period_in(effect.cell).number]
        return effect._replace(by=booked(effect.by, before))

    return [
        delta._replace(effects=tuple(one for e in delta.effects if (one := taken(delta, e)).by))
        for delta in deltas
    ]
