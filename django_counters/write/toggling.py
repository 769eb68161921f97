"""Counts an actor who does not count, or takes the count back."""

from __future__ import annotations

from typing import NamedTuple

from django_counters.exceptions import Contention, InvalidDelta, UnsupportedActors
from django_counters.projections.actors import OncePerActor
from django_counters.projections.event import Event
from django_counters.values import Result
from django_counters.write.change import Change, Ref
from django_counters.write.conditions import change_on

# How often a row may come and go concurrently, until the call gives up.
_TURNS = 20


class Toggled(NamedTuple):
    """The result of a toggle.

    Attributes:
        has: whether the actor counts now.
        result: the new value.
    """

    has: bool
    result: Result


def toggle(ref: Ref, event: Event) -> Toggled:
    """Count an actor who does not count, else take the count back.

    Raises:
        UnsupportedActors: the counter does not count once for each actor.
        InvalidDelta: with a cool-down nothing is taken back.
        Contention: others did the same for the same actor again and again.
    """
    declared = ref.measure.condition if ref.measure else None
    if not isinstance(declared, OncePerActor):
        raise UnsupportedActors(key=ref.label, reason="it declares no once")
    if declared.time is not None:
        reason = f"{ref.label} has a cool-down, so nothing is taken back"
        raise InvalidDelta(delta=-1, reason=reason)
    for _ in range(_TURNS):
        for by in 1, -1:
            result = change_on(declared, Change(ref, by, event=event))
            if not result.replayed:
                return Toggled(by > 0, result)
    raise Contention(key=ref.label, attempts=_TURNS)
