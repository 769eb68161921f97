"""The condition of a like: the row of an actor has to be new, or there to be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from django_counters import clock
from django_counters.contrib.likes.sql import ACTOR
from django_counters.contrib.likes.upkeep import forget_rows
from django_counters.errors import InvalidActor, InvalidDelta
from django_counters.event import actor_of, checked_moment
from django_counters.measure import Condition
from django_counters.registry import registry
from django_counters.write.changes import Change


@dataclass(frozen=True, slots=True)
class OncePerActor:
    """The condition of counters that an actor counts once.

    Attributes:
        time: after which an actor counts again; None for never, unless it is taken back.
        reason: why other changes are refused.
    """

    option: ClassVar[str] = "once"
    time: timedelta | None
    reason: str

    @property
    def counts_rows(self) -> bool:
        """Return whether the value is the number of actors: nobody counts again."""
        return self.time is None

    def condition(self, change: Change) -> Condition:
        """Return the row of the actor who makes a change.

        Raises:
            InvalidActor: no actor is named.
            InvalidDelta: it isn't one that is added, or taken back.
            InvalidMoment: ``at`` isn't a moment.
        """
        ref, by, event = change.ref, change.by, change.event
        if event.who is None:
            reason = f"{ref.label} counts once for each actor. Pass who"
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
        measure = registry.measures(ref.using).ensure(ref.measure).id
        row = measure, ref.text, actor_of(event.who), moment
        return Condition(ACTOR, row, by < 0, None if self.time is None else moment - self.time)

    def refusal(self, key: str) -> Exception:
        """Return the error for a change that can't name an actor."""
        reason = f"{key} counts once for each actor. Use increment() of one counter, with who"
        return InvalidActor(who=None, reason=reason)

    def forget(self, owner: str, keys: Sequence[str], using: str) -> int:
        """Delete the rows of counters; return their number."""
        return forget_rows(owner, keys, using)
