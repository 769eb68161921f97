"""How far behind the consumers of streams are: the end of each part beside its position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import router

from django_counters import clock
from django_counters.intake.streams import Stream, streams
from django_counters.observe.redises import LATE, UNANSWERED, reason_of
from django_counters.stores.redis.streams import RedisStream, milliseconds_of
from django_counters.tables import CounterPosition
from django_counters.tables.standing import COUNTERS


@dataclass(frozen=True, slots=True)
class Behind:
    """One part of a stream, and what waits in it for one database.

    Attributes:
        stream: its name in the settings.
        part: which part.
        lag: the time between the message at the position and the last one; None if unknown.
        is_beyond: whether the position is beyond the end: it is of another stream.
        is_late: whether messages wait for too long, and nothing was counted meanwhile.
        problem: why it could not be asked.
    """

    stream: str
    part: str
    lag: timedelta | None = None
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
        # Whoever consumes it for another database has its positions there.
        if known or using == COUNTERS.writing():
            found += (_behind(stream, part, known.get(part)) for part in stream.parts)
    return tuple(found)


def _behind(stream: Stream, part: str, row: CounterPosition | None) -> Behind:
    reader = RedisStream(stream.location, part)
    position = row.position if row else ""
    try:
        end = reader.end()
        # Before the first page all that is there waits.
        begin = position or next((one.offset for one in reader.since("", 1)), end)
    except UNANSWERED as error:
        return Behind(stream.name, part, problem=reason_of(error))
    if position and _order(position) > _order(end or "0-0"):
        return Behind(stream.name, part, is_beyond=True)
    lag = timedelta(milliseconds=milliseconds_of(end) - milliseconds_of(begin) if end else 0)
    waits = bool(end) and end != position
    return Behind(stream.name, part, lag, is_late=waits and _is_old(row, begin))


def _is_old(row: CounterPosition | None, begin: str) -> bool:
    """Whether nothing has moved for too long, and the first message that waits is as old."""
    oldest = timedelta(milliseconds=milliseconds_of(begin))
    since = clock.utc() - LATE
    still = row is None or clock.meant(row.moved_at) < since
    return still and oldest < timedelta(seconds=since.timestamp())


def _order(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number or 0)
