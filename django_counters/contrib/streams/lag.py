"""The lag of streams: the distance between the end of each part and its position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from django.conf import settings
from django.db import router
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.contrib.streams.consuming import StreamBacklog, backend_of
from django_counters.contrib.streams.declared import streams
from django_counters.features import Finding, Gauge, GaugeValue
from django_counters.metrics.facts import reason_of
from django_counters.stores.sql.positions import Position
from django_counters.tables import CounterPosition
from django_counters.tables.schema import COUNTERS

LAG_SECONDS = Gauge(
    "django_counters_stream_lag_seconds",
    "The time between the last counted message and the last message of a stream, in its slowest "
    "part. Only for streams whose messages have a time.",
    ("stream",),
)
LAG_MESSAGES = Gauge(
    "django_counters_stream_lag_messages",
    "The number of messages of a stream that are not counted yet, at most. Only for streams that "
    "number them.",
    ("stream",),
)
GAUGES = (LAG_SECONDS, LAG_MESSAGES)


@dataclass(frozen=True, slots=True)
class Behind:
    """One part of a stream, and its backlog for one database.

    Attributes:
        stream: its name in the settings.
        part: its name.
        lag: the time between the message at the position and the last one; None if unknown.
        messages: the number between the position and the end, at most; None if unknown.
        is_beyond: whether the position is beyond the end: it is of another stream.
        is_late: whether messages have waited for too long, and nothing was counted in that time.
        problem: the error, if the stream didn't answer.
    """

    stream: str
    part: str
    lag: timedelta | None = None
    messages: int | None = None
    is_beyond: bool = False
    is_late: bool = False
    problem: str = ""


def behind(using: str) -> tuple[Behind, ...]:
    """Return each part of each stream that is counted in a database. Queries the streams."""
    is_set = getattr(settings, "COUNTERS_STREAMS", None)
    if not is_set or not router.allow_migrate_model(using, CounterPosition):
        return ()
    rows = CounterPosition._base_manager.using(using)
    parts: list[Behind] = []
    for stream in streams().values():
        known = {row.part: row for row in rows.filter(source=stream.source)}
        # A process that consumes it for another database has its positions there.
        if known or using == COUNTERS.writing():
            at = {part: Position(row.position, row.timeline) for part, row in known.items()}
            waiting = backend_of(stream).waiting(stream, at)
            parts += (_behind(stream.name, part, known.get(part.part)) for part in waiting)
    return tuple(parts)


def _behind(stream: str, part: StreamBacklog, row: CounterPosition | None) -> Behind:
    if part.problem:
        return Behind(stream, part.part, problem=reason_of(part.problem))
    late = part.waits and _is_late(part, row)
    return Behind(stream, part.part, part.lag, part.messages, part.is_beyond, late)


def _is_late(part: StreamBacklog, row: CounterPosition | None) -> bool:
    """Return whether nothing has moved for too long, and the first waiting message is as old."""
    limit = clock.utc() - clock.LATE
    if row is not None and clock.meant(row.moved_at) >= limit:
        return False
    since = part.since()
    return since is not None and since < limit


def findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Yield the findings of each part of each stream, and the samples of each stream."""
    for stream, same in groupby(behind(using), lambda part: part.stream):
        parts = list(same)
        for part in parts:
            yield from _of(part)
        lags = [part.lag.total_seconds() for part in parts if part.lag is not None]
        messages = [part.messages for part in parts if part.messages is not None]
        # Without one of its parts a stream would look better than it is.
        if len(lags) == len(parts):
            yield GaugeValue(LAG_SECONDS, (stream,), max(lags))
        if len(messages) == len(parts):
            yield GaugeValue(LAG_MESSAGES, (stream,), sum(messages))


def _of(part: Behind) -> Iterator[Finding]:
    """Yield the lag of one part, or its problem."""
    subject = f"stream {part.stream} {part.part}"
    if part.problem:
        text = _("unavailable: %(reason)s") % {"reason": part.problem}
        yield Finding(subject, "", 0, 0, text, needed=True)
    elif part.is_beyond:
        text = _("its position is beyond its end: another stream has taken its place")
        yield Finding(subject, "", 0, 0, text, needed=True)
    elif part.is_late:
        command = f"manage.py counters consume {part.stream}"
        values = {"minutes": clock.LATE // timedelta(minutes=1), "command": command}
        text = _("nothing was counted for %(minutes)d minutes: run %(command)s") % values
        yield Finding(subject, "", 0, 0, text, needed=True, command=command)
    elif part.lag:
        text = _("%(seconds)d s behind") % {"seconds": part.lag.total_seconds()}
        yield Finding(subject, "", 0, 0, text)
    elif part.messages:
        text = _("%(messages)d messages behind") % {"messages": part.messages}
        yield Finding(subject, "", 0, 0, text)
