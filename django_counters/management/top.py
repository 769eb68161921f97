"""``manage.py counters top``: shows the counters that change most, again and again."""

from __future__ import annotations

import json
import os
import shutil
import time
import unicodedata
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.management.base import OutputWrapper
from django.db import close_old_connections
from django.utils import timezone
from django.utils.translation import gettext as _

from django_counters.management.looping import until_asked_to_end
from django_counters.observe.doctor import NEEDED, facts_of, to_do
from django_counters.observe.facts import Away, Facts
from django_counters.observe.filed import Filed
from django_counters.observe.hottest import Hot, Look, look
from django_counters.observe.rates import Rate
from django_counters.observe.redises import Redis
from django_counters.observe.regions import Exchange
from django_counters.upkeep.ledger import State
from django_counters.upkeep.partitions import ledgers

# Seconds. The head takes longer to gather than the counters, and changes slowly.
HEAD_EVERY = 10.0
_MOST = 500
# To the alternate screen without a cursor, and back.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_TO_THE_TOP, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
# A narrower terminal has no room for all columns.
_WIDE = 72


@dataclass(frozen=True, slots=True)
class Head:
    """The head above the counters, and when it was gathered, by a monotonic clock."""

    found: Facts
    to_do: int
    at: float


def add_arguments(parser: ArgumentParser, seconds: Callable[[str], float]) -> None:
    """The options of the sub-command."""
    parser.add_argument(
        "--every", type=seconds, default=2.0, metavar="SECONDS", help=_("how often to look")
    )
    parser.add_argument(
        "--limit", type=_number, default=20, metavar="N", help=_("how many counters to show")
    )
    parser.add_argument(
        "--once", action="store_true", help=_("look twice, print what changed, and end")
    )


def run(
    out: OutputWrapper,
    using: str,
    *,
    every: float,
    limit: int,
    once: bool,
    as_json: bool,
    **_options: Any,
) -> None:
    """Show the counters that change most until asked to end."""
    is_live = out.isatty() and not once and not as_json
    head: Head | None = None
    before: Look | None = None
    screen = _screen(out) if is_live else _for_as_long_as_it_is_read(out)
    with until_asked_to_end() as wait, screen:
        due = time.monotonic()
        while wait(due - time.monotonic()):
            due = time.monotonic() + every
            # The server may have restarted, or the connection may be old.
            close_old_connections()
            present = look(using, before, limit=limit, recent=every)
            # The first look has no rates. It is only shown on a terminal.
            if is_live or before:
                head = _head(using, head)
                _show(out, head, present, is_live=is_live, as_json=as_json)
            if before and once:
                return
            before = present


def _head(using: str, last: Head | None) -> Head:
    """The head, gathered now, or a moment ago if nothing was missing."""
    now = time.monotonic()
    if last and now - last.at < HEAD_EVERY and not (last.found.away or _mute(last.found)):
        return last
    found = facts_of(using, *NEEDED, "filed", "landed", "entries")
    return Head(found, len(to_do(found)), now)


def _mute(found: Facts) -> set[str]:
    """Each Redis that did not answer, by its name as a place of a look."""
    return {f"Redis {one.name}" for one in found.redises or () if one.generations is None}


def _show(out: OutputWrapper, head: Head, found: Look, *, is_live: bool, as_json: bool) -> None:
    if as_json:
        out.write(json.dumps(_as_data(head, found)))
    elif is_live:
        _draw(out, [*_above(head, found), "", *_table(found.hottest, _size(out)[0])])
    else:
        lines = [*_above(head, found), *_table(found.hottest, None), ""]
        out.write("\n".join(_printable(line, out) for line in lines))
    out.flush()


@contextmanager
def _screen(out: OutputWrapper) -> Iterator[None]:
    """Draw on the alternate screen of the terminal, and restore the screen at the end."""
    out.write(_ENTER, ending="")
    out.flush()
    try:
        yield
    finally:
        out.write(_LEAVE, ending="")
        out.flush()


@contextmanager
def _for_as_long_as_it_is_read(out: OutputWrapper) -> Iterator[None]:
    """End without an error when the reader closes the pipe, as ``top | head`` does."""
    try:
        yield
    except BrokenPipeError:
        # Python would write again at exit, and complain.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def _draw(out: OutputWrapper, lines: Sequence[str]) -> None:
    """Draw within the edges, in one write, so that nothing flickers."""
    width, height = _size(out)
    shown = [_cut(_printable(line, out), width) for line in lines[:height]]
    out.write(
        _TO_THE_TOP + f"{_CLEAR_LINE}\r\n".join(shown) + _CLEAR_LINE + _CLEAR_BELOW, ending=""
    )


def _size(out: OutputWrapper) -> tuple[int, int]:
    """The columns and lines of the terminal."""
    try:
        columns, lines = os.get_terminal_size(out.fileno())
    except OSError:
        columns = lines = 0
    fallback = shutil.get_terminal_size()
    return columns or fallback.columns, lines or fallback.lines


def _above(head: Head, found: Look) -> Iterator[str]:
    """The lines above the counters."""
    yield _title(head.found.using, found)
    yield from _flow(head.found)
    for redis in head.found.redises or ():
        yield _of_redis(redis)
    if head.found.ledger:
        yield from _of_ledger(head.found.ledger)
    yield from _of_regions(head.found.regions)
    yield from _of_files(head.found.filed)
    rows = sum(one.rows for one in head.found.spread or ())
    if rows:
        yield _("shards and slots: %(number)d rows wait") % {"number": rows}
    if found.incidents:
        kinds = ", ".join(f"{kind} {number}" for kind, number in found.incidents.items())
        yield _("incidents of the last day: %(kinds)s") % {"kinds": kinds}
    if head.to_do:
        told = {"number": head.to_do, "command": "manage.py counters doctor"}
        yield _("to do: %(number)d (%(command)s says what)") % told
    yield from _missing(head, found)


def _missing(head: Head, found: Look) -> Iterator[str]:
    """The places that were away or capped."""
    for away in (*head.found.away, *found.away):
        if away.part not in _mute(head.found):
            yield _("%(part)s cannot be asked: %(reason)s") % _away_as_data(away)
    if found.capped:
        parts = ", ".join(found.capped)
        yield _("more than is looked at: %(parts)s; something may be missing") % {"parts": parts}


def _title(using: str, found: Look) -> str:
    when = timezone.localtime(found.moment)
    title = f"counters top · {using} · {when:%H:%M:%S}"
    if found.rate is None:
        return title
    told = {"rate": f"{found.rate:,.1f}", "number": found.read}
    return f"{title} · {_('%(rate)s/s of %(number)d counters') % told}"


def _flow(found: Facts) -> Iterator[str]:
    """How much came in within the last minutes."""
    parts = [
        f"{name} {'> ' if rates[0].capped else ''}{rates[0].per_minute:,.1f}/min"
        for name, rates in ((_("landed"), found.landed), (_("entries"), found.entries))
        if rates and rates[0].amount
    ]
    if parts:
        yield " · ".join(parts)


def _of_redis(redis: Redis) -> str:
    if redis.generations is None:
        told = {"name": redis.name, "reason": redis.problem}
        return _("Redis %(name)s cannot be asked: %(reason)s") % told
    line = _("Redis %(name)s: up to %(number)d counters wait, for %(seconds)s s at most") % {
        "name": redis.name,
        "number": redis.counters,
        "seconds": _seconds(redis.lag),
    }
    if redis.breaker in (None, "closed"):
        return line
    return _("%(line)s · breaker %(state)s") % {"line": line, "state": redis.breaker}


def _of_regions(found: Exchange | None) -> Iterator[str]:
    """How long ago this region has published, and has copied each other one."""
    if found and found.seconds:
        ages = (
            f"{name} {_('never') if seconds is None else f'{seconds:.0f} s'}"
            for name, seconds in found.seconds.items()
        )
        yield _("regions: %(ages)s") % {"ages": " · ".join(ages)}


def _of_files(found: Filed | None) -> Iterator[str]:
    if found and found.sums:
        told = {"files": found.files, "sums": found.sums, "seconds": _seconds(found.lag)}
        line = _("buffers of this machine: %(sums)d sums in %(files)d files, %(seconds)s s at most")
        yield line % told


def _of_ledger(found: State) -> Iterator[str]:
    if found.fenced:
        yield _("ledger: %(reason)s") % {"reason": found.fenced}
    if not (found.entries or ledgers()):
        return
    parts = [_("ledger: %(number)d entries wait") % {"number": found.entries}]
    if found.lag is not None:
        parts.append(_("totals are %(seconds)s s old") % {"seconds": _seconds(found.lag)})
    if found.holder:
        parts.append(_("held back by the %(what)s %(name)s") % found.holder._asdict())
    if found.partitions_ahead is not None:
        parts.append(_("%(number)d partitions ahead") % {"number": found.partitions_ahead})
    yield " · ".join(parts)


def _seconds(lag: timedelta | None) -> str:
    return f"{lag.total_seconds() if lag else 0:.0f}"


def _table(hottest: Sequence[Hot], width: int | None) -> Iterator[str]:
    """The lines of the counters. A narrow terminal shows fewer columns."""
    if not hottest:
        yield _("No counter has changed.")
        return
    rows = [(_("RATE/S"), _("VALUE"), _("WAITS"), _("STRATEGY"), _("COUNTER"))]
    for one in hottest:
        rate = "-" if one.rate is None else f"{one.rate:+,.1f}"
        rows.append((rate, str(one.value), _waiting(one), one.strategy, str(one.name)))
    if width is not None and width < _WIDE:
        rows = [(rate, value, "", "", name) for rate, value, _waits, _strategy, name in rows]
    sizes = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for rate, value, waits, strategy, name in rows:
        cells = (
            _filled(rate, sizes[0]) + rate,
            _filled(value, sizes[1]) + value,
            waits + _filled(waits, sizes[2]),
            strategy + _filled(strategy, sizes[3]),
        )
        shown = (cell for cell, size in zip(cells, sizes, strict=False) if size)
        yield "  ".join((*shown, name))


def _waiting(one: Hot) -> str:
    """The pending amount of a counter, and where."""
    if not one.exact:
        return _("Redis is away")
    if not one.waits:
        return ""
    places = {
        "cached": _("in Redis"),
        "ledger": _("in entries"),
        "sharded": _("in shards"),
        "slotted": _("in slots"),
    }
    return f"{one.waits} {places.get(one.strategy, _('elsewhere'))}"


def _as_data(head: Head, found: Look) -> dict[str, Any]:
    """One look for programs."""
    above = head.found
    return {
        "database": above.using,
        "moment": found.moment.isoformat(),
        "interval": None if found.interval is None else round(found.interval, 3),
        "rate": None if found.rate is None else round(found.rate, 3),
        "read": found.read,
        "counters": [_counter_as_data(one) for one in found.hottest],
        "landed_per_minute": _per_minute(above.landed),
        "entries_per_minute": _per_minute(above.entries),
        "redises": [_redis_as_data(one) for one in above.redises or ()],
        "ledger": above.ledger and _ledger_as_data(above.ledger),
        "regions": (above.regions and above.regions.seconds) or None,
        "buffers": above.filed and _files_as_data(above.filed),
        "incidents": found.incidents,
        "to_do": head.to_do,
        "away": [_away_as_data(away) for away in dict.fromkeys((*above.away, *found.away))],
        "capped": list(found.capped),
    }


def _away_as_data(away: Away) -> dict[str, str]:
    return {"part": away.part, "reason": away.reason}


def _counter_as_data(one: Hot) -> dict[str, Any]:
    return {
        **one.name._asdict(),
        "strategy": one.strategy,
        "value": one.value,
        "exact": one.exact,
        "waits": one.waits,
        "change": one.change,
        "rate": None if one.rate is None else round(one.rate, 3),
    }


def _redis_as_data(redis: Redis) -> dict[str, Any]:
    return {
        "name": redis.name,
        "counters": None if redis.generations is None else redis.counters,
        "lag": redis.lag.total_seconds() if redis.lag else None,
        "breaker": redis.breaker,
        "problem": redis.problem,
    }


def _files_as_data(found: Filed) -> dict[str, Any]:
    return {
        "files": found.files,
        "sums": found.sums,
        "lag": found.lag.total_seconds() if found.lag else None,
    }


def _ledger_as_data(ledger: State) -> dict[str, Any]:
    return {
        "entries": ledger.entries,
        "lag": ledger.lag.total_seconds() if ledger.lag else None,
        "holder": ledger.holder.name if ledger.holder else None,
        "fenced": ledger.fenced,
        "partitions_ahead": ledger.partitions_ahead,
    }


def _per_minute(rates: tuple[Rate, ...] | None) -> float | None:
    return rates[0].per_minute if rates else None


def _printable(text: str, out: OutputWrapper) -> str:
    """A text that a terminal only shows. A key may contain control characters."""
    shown = "".join(c if c.isprintable() else _escaped(c) for c in text)
    encoding = getattr(out, "encoding", None) or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _width(text: str) -> int:
    """The number of columns of a terminal that a text takes."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if not character.isprintable():
        return len(_escaped(character))
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _filled(text: str, size: int) -> str:
    return " " * (size - _width(text))


def _cut(text: str, width: int) -> str:
    """As much of a text as fits."""
    if _width(text) <= width:
        return text
    taken, shown = 0, ""
    for character in text:
        taken += _columns(character)
        if taken > width - 1:
            break
        shown += character
    return f"{shown}>"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST):
        raise ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST}")
    return int(text)
