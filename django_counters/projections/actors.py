"""Declares that each actor counts once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django_counters import clock
from django_counters.calendar import length_of
from django_counters.conditions import Condition, ConditionKind, RowColumn
from django_counters.exceptions import InvalidActor, InvalidDelta
from django_counters.options import Option
from django_counters.projections.base import Projection
from django_counters.projections.cells import checked_moment
from django_counters.projections.event import actor_of
from django_counters.stores.sql.dialects.tables import ACTORS as ACTOR_ROWS
from django_counters.stores.sql.measures import SqlMeasures
from django_counters.types import Bounds

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

_LONGEST = timedelta(days=3_650)
ACTOR = ConditionKind(
    "actor",
    ACTOR_ROWS,
    (
        RowColumn("m", "measure_id", "int"),
        RowColumn("k", "key", "text"),
        RowColumn("a", "actor", "text"),
        RowColumn("at", "created_at", "timestamptz"),
    ),
    claim="django_counters_claim",
    unclaim="django_counters_unclaim",
    whole="django_counters_once",
)


@dataclass(frozen=True, slots=True)
class OncePerActor:
    """The condition of counters that an actor counts once.

    Attributes:
        time: after which an actor counts again; None for never, unless it is taken back.
    """

    reason: ClassVar[str] = "it counts once for each actor"
    time: timedelta | None = None

    @property
    def counts_rows(self) -> bool:
        """Return whether the value is the number of actors: nobody counts again."""
        return self.time is None

    def condition(self, change: Any, known: SqlMeasures) -> Condition:
        """Return the row of the actor who makes a change.

        Raises:
            InvalidActor: no actor is named.
            InvalidDelta: it isn't one that is added, or taken back.
            InvalidMoment: ``at`` isn't a moment.
        """
        ref, by, event = change.ref, change.by, change.event
        if event.who is None:
            reason = f"{ref.label} counts once for each actor: say who"
            raise InvalidActor(who=None, reason=reason)
        if abs(by) != 1:
            raise InvalidDelta(delta=by, reason=f"{ref.label} counts one for each actor")
        if by < 0 and self.time is not None:
            reason = (
                f"what {ref.label} has counted is not taken back: an actor may have counted "
                "several times"
            )
            raise InvalidDelta(delta=by, reason=reason)
        now = clock.utc()
        moment = now if event.at is None else checked_moment(event.at, now)
        assert ref.measure is not None, "its measure has this condition"
        row = known.ensure(ref.measure).id, ref.text, actor_of(event.who), moment
        return Condition(ACTOR, row, by < 0, None if self.time is None else moment - self.time)

    def refusal(self, key: str) -> Exception:
        """Return the error for a change that can't name an actor."""
        reason = f"{key} counts once for each actor: use increment() of one counter, and say who"
        return InvalidActor(who=None, reason=reason)


def _parts(once: object, **_: object) -> dict[str, Any]:
    """The part of the measure that a valid option gives."""
    time = length_of(once)
    return {"condition": OncePerActor(time)} if once is True or time is not None else {}


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
    irreversible=OncePerActor.reason,
)
