"""How far behind the consumers of streams are: the end of each part beside its position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import router

from django_counters import clock
from django_counters.intake.backend import Waiting
from django_counters.intake.backends import BACKENDS
from django_counters.observe.redises import LATE, reason_of
from django_counters.stores.sql.positions import Position
from django_counters.streams import streams
from django_counters.tables import CounterPosition
from django_counters.tables.standing import COUNTERS


@dataclass(frozen=True, slots=True)
class Behind:
    """One part of a stream, and the amount that waits in it for one database.

    Attributes:
        stream: its name in the settings.
        part: which part.
        lag: the time between the message at the position and the last one; None if unknown.
        messages: how many are between the position and the end, at most; None if unknown.
        is_beyond: whether the position is beyond the end: it is of another stream.
        is_late: whether messages wait for too long, and nothing was counted meanwhile.
        problem: why it could not be asked.
    """

    stream: str
    part: str
    lag: timedelta | None = None
    messages: int | None = None
    is_beyond: bool = False
    is_late: bool = False
    problem: str = ""


def behind(using: str) -> tuple[Behind, ...]:
    """Each part of each stream that is counted in a database. Asks the streams."""
    if not getattr(settings, "COUNTERS_STREAMS", None):
        return ()
    if not router.allow_migrate_model(using, CounterPosition):
        return ()
    rows = CounterPosition._base_manager.using(using)
    found: list[Behind] = []
    for stream in streams().values():
        known = {row.part: row for row in rows.filter(source=stream.source)}
        # A process that consumes it for another database has its positions there.
        if known or using == COUNTERS.writing():
            at = {part: Position(row.position, row.timeline) for part, row in known.items()}
            waiting = BACKENDS[stream.backend].waiting(stream, at)
            found += (_behind(stream.name, one, known.get(one.part)) for one in waiting)
    return tuple(found)


def _behind(stream: str, one: Waiting, row: CounterPosition | None) -> Behind:
    if one.problem:
        return Behind(stream, one.part, problem=reason_of(one.problem))
    late = one.waits and _is_late(one, row)
    return Behind(stream, one.part, one.lag, one.messages, one.is_beyond, late)


def _is_late(one: Waiting, row: CounterPosition | None) -> bool:
    """Whether nothing has moved for too long, and the first message that waits is as old."""
    limit = clock.utc() - LATE
    if row is not None and clock.meant(row.moved_at) >= limit:
        return False
    since = one.since()
    return since is not None and since < limit
