"""From a change to its cells: one for each period that its measure stores, with its tags."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.utils.functional import Promise

from django_counters import clock
from django_counters.calendar import PERIODS, period_of
from django_counters.effects import kinds, names_members, stored_periods
from django_counters.errors import InvalidActor, InvalidMoment, InvalidTags, UnsupportedSeries
from django_counters.measure import OTHER, SEPARATOR, TAG_LENGTH, TAGS_LENGTH, Measure, member_of
from django_counters.projections.derived import derived_of
from django_counters.projections.event import PLAIN, Event, Who, actor_of
from django_counters.stores.sql.measures import AHEAD, SqlMeasures, Stored
from django_counters.tokens import Token, moment_of
from django_counters.types import Cell, Effect

_ENCODED = {"%": "%25", SEPARATOR: "%7C", " ": "%20", OTHER: "%7E"}
_ENCODE = str.maketrans(_ENCODED)


def effects_of(
    measure: Measure | None,
    key: str,
    by: int,
    event: Event = PLAIN,
    *,
    known: SqlMeasures,
    admits: bool = True,
    token: Token | None = None,
) -> tuple[Effect, ...]:
    """The additions of a change to the cells of its counter: ``by`` to each of them, and the actor.

    Args:
        measure: the declaration; None where the counter is not counted by period.
        key: what people call the counter.
        by: the change of its total.
        event: when it happened, and of what kind it is.
        known: the measures that the database has.
        admits: whether values that are not to be counted apart become ``~`` here. Else the landing
            does it, and the database is not asked here.
        token: if it carries a time, the retention of that time counts: a repeated call is not
            refused because a period is kept no longer.

    Raises:
        UnsupportedSeries: ``at`` or ``tags``, and the counter is not counted by period.
        InvalidTags: a tag is not declared, or a value cannot be one.
        InvalidMoment: ``at`` is no moment, more than 5 minutes ahead, or before all that is kept.
        InvalidActor: ``who`` cannot be one, or is given to a decrement.
    """
    at, tags, who = event
    names_who = measure is not None and who is not None and names_members(measure)
    if measure is None or not (measure.per or names_who or stored_periods(measure)):
        if event == PLAIN:
            return ()
        asked = "tags" if tags is not None else "at" if at is not None else "who"
        raise UnsupportedSeries(key=key, reason=f"{asked} needs periods, and it declares none")
    if who is not None:
        _check_who(key, by, who, is_named=names_who)
    now = clock.utc()
    moment = None if at is None else checked_moment(at, now)
    named = _checked_tags(measure, key, tags)
    stored = known.ensure(measure)
    text = _encoded(stored, named, key)
    if text and admits:
        text = known.admitted(measure, stored, text)
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
    return (*effects, *(Effect(cell._replace(member=member), 1) for cell in found.sets))


def _check_who(key: str, by: int, who: Who, *, is_named: bool) -> None:
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
    zone, keep = ZoneInfo(stored.zone), dict(measure.keep)
    made = {
        kind: tuple(
            Cell(stored.id, PERIODS.index(period) + 1, start, tags, kind=kind)
            for period, start in _starts(measure.by(kind), keep, moment, now, zone)
        )
        for kind in kinds()
        if not kind.derived
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


def checked_moment(at: object, now: datetime) -> datetime:
    """The moment of a change, in UTC.

    Raises:
        InvalidMoment: it is none, or more than 5 minutes ahead.
    """
    if not isinstance(at, datetime):
        raise InvalidMoment(moment=at, reason=f"it is a {type(at).__name__}, not a datetime")
    try:
        moment = clock.meant(at).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise InvalidMoment(moment=at, reason="it is out of the range of UTC") from error
    if moment > now + AHEAD:
        minutes = AHEAD // timedelta(minutes=1)
        raise InvalidMoment(moment=at, reason=f"it is more than {minutes} minutes ahead")
    return moment


def _checked_tags(measure: Measure, key: str, tags: object) -> dict[str, str]:
    """The given values by name, as texts; those that are empty are left out."""
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise InvalidTags(tags=tags, key=key, reason="they are no dictionary")
    declared = dict(measure.tags)
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
