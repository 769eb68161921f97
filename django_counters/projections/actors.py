"""Declares that each actor counts once, and makes the rows that say who has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_counters import clock
from django_counters.calendar import length_of
from django_counters.exceptions import InvalidActor, InvalidDelta
from django_counters.measure import Measure, Once
from django_counters.options import Option
from django_counters.projections.base import Projection
from django_counters.projections.cells import checked_moment
from django_counters.projections.event import Event, actor_of
from django_counters.stores.sql.measures import SqlMeasures
from django_counters.types import Bounds, Claim

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

_LONGEST = timedelta(days=3_650)


def _parts(once: object, **_: object) -> dict[str, Any]:
    """The part of the measure that a valid option gives."""
    time = length_of(once)
    return {"once": Once(time) if once is True or time is not None else None}


def _problems(once: object, **_: object) -> Iterator[str]:
    time = length_of(once)
    if once is None or once is True or (time is not None and time <= _LONGEST):
        return
    expected = "True, None, or a time of at most ten years such as '30m' or '24h'"
    yield f"once is {expected}, not {once!r}."


def _against(once: object, can: Capabilities, bounds: Bounds, **_: object) -> Iterator[str]:
    """Say what goes together with no strategy, or with no bound, that is declared beside it."""
    if once is None:
        return
    if can.outside:
        yield "once is not for cached counters: Redis cannot promise it. exact and sharded can."
    elif can.entries:
        yield (
            "once is not for a ledger: it would keep each change twice, as an entry and as the row "
            "of an actor. exact and sharded can."
        )
    if bounds.floor not in (None, 0):
        yield f"once with a floor of {bounds.floor} makes no sense: it counts from 0 up, and back."


ACTORS = Projection(
    name="actors",
    options=(
        Option(
            "once",
            None,
            "True, or a time such as `'30m'` or `'24h'`; or None",
            "How often an actor counts: "
            "[once, until it is taken back](../how-to/one-like-per-person.md), or not again for a "
            "time. None: as often as they like. Not with `'cached'` and `'ledger'`.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E031",
    in_fields="E032",
    against=_against,
    spread="no database knows whom the others have counted",
    irreversible="it counts once for each actor",
)


def claim_of(
    measure: Measure, once: Once, key: str, by: int, event: Event, known: SqlMeasures
) -> Claim:
    """The row that has to be new, or there to be taken back, so that a change counts.

    Raises:
        InvalidActor: no actor is named.
        InvalidDelta: it is not one that is added, or taken back.
        InvalidMoment: ``at`` is no moment.
    """
    if event.who is None:
        raise InvalidActor(who=None, reason=f"{key} counts once for each actor: say who")
    if abs(by) != 1:
        raise InvalidDelta(delta=by, reason=f"{key} counts one for each actor")
    if by < 0 and once.time is not None:
        reason = (
            f"what {key} has counted is not taken back: an actor may have counted several times"
        )
        raise InvalidDelta(delta=by, reason=reason)
    now = clock.utc()
    moment = now if event.at is None else checked_moment(event.at, now)
    return Claim(known.ensure(measure).id, actor_of(event.who), moment, once.time)


def refuse_uncounted(measure: Measure | None, key: str) -> None:
    """Refuse a change without the row of an actor.

    Raises:
        InvalidActor: the counter counts once for each actor.
    """
    if measure is not None and measure.once is not None:
        reason = f"{key} counts once for each actor: use increment() of one counter, and say who"
        raise InvalidActor(who=None, reason=reason)
