"""Changes that count once for each actor: the row of the actor and the change are one step."""

from __future__ import annotations

from typing import Any, NamedTuple

from django_counters.exceptions import Contention, InvalidDelta, RecordMissing, UnsupportedActors
from django_counters.measure import Measure, Once
from django_counters.projections.actors import claim_of
from django_counters.projections.event import Event, actor_of
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.strategies.base import CountsOnce
from django_counters.tokens import Token
from django_counters.types import Batch, Claim, Delta, OnceResult
from django_counters.values import Counted, Replayed, Result, Unknown
from django_counters.write.change import Change, Ref
from django_counters.write.once import Call, once
from django_counters.write.telling import tell

# How often a row may come and go meanwhile, until the call gives up.
_TURNS = 20


class Toggled(NamedTuple):
    """The result of a toggle.

    Attributes:
        has: whether the actor counts by now.
        result: the new value.
    """

    has: bool
    result: Result


def measure_of(measure: Measure | None, key: str) -> tuple[Measure, Once]:
    """The measure of a counter that counts once for each actor, and its declaration.

    Raises:
        UnsupportedActors: it does not.
    """
    if measure is None or measure.once is None:
        raise UnsupportedActors(key=key, reason="it declares no once")
    return measure, measure.once


def change_of_actor(asked: Change) -> Result:
    """Make a change if the actor has not counted, or take back the one that was made.

    Raises:
        InvalidActor: no actor is named.
        InvalidDelta: it is not one, or cannot be taken back.
        UnsupportedActors: the strategy cannot promise it.
    """
    if asked.token is None:
        return _changed(asked)
    return _once(asked, asked.token)


def _once(asked: Change, token: Token) -> Result:
    """The same under a token: a process that repeats it finds what the first one did."""
    text, single = asked.ref.text, asked._replace(token=None)

    def work() -> dict[str, int | Unknown]:
        return {text: _changed(single)}

    whose = f"{asked.ref.owner} by {actor_of(asked.event.who)}"
    call = Call(whose, {text: asked.by}, asked.event.text)
    return once(token, call, asked.ref.using, work).values[text]


def _changed(asked: Change) -> Result:
    ref = asked.ref
    measure, declared = measure_of(ref.measure, ref.label)
    if not ref.recipe.can.once:
        raise UnsupportedActors(key=ref.label, reason=f"{ref.strategy} cannot promise it")
    found: Any = registry.strategy(ref.recipe, ref.table, ref.using)
    strategy: CountsOnce = found
    known = registry.measures(ref.using)
    claim = claim_of(measure, declared, ref.label, asked.by, asked.event, known)
    delta = asked.apart
    taken = strategy.apply_once(delta, claim) or _in_two_steps(strategy, delta, claim, ref)
    if not taken.counted:
        return Replayed(taken.value)
    if batch_applied.receivers:
        tell(strategy, Batch((delta,)), {delta.key: taken.value}, ref.using, ref.table.label)
    return Counted(taken.value)


def _in_two_steps(strategy: CountsOnce, delta: Delta, claim: Claim, ref: Ref) -> OnceResult:
    """The row first, then the change, in one transaction or in a savepoint of the caller's."""
    actors = registry.actors(ref.using)
    with actors.all_or_nothing():
        if not actors.hold(ref.table, ref.key):
            raise RecordMissing(key=ref.label)
        changes = actors.claim if delta.by > 0 else actors.release
        if not changes(delta.key, claim):
            return OnceResult(False, strategy.read(delta.key, "exact", 0.0).value)
        value = strategy.apply(Batch((delta,)))[delta.key]
        assert isinstance(value, int), f"{strategy.name} knows its values"
        return OnceResult(True, value)


def toggle(ref: Ref, event: Event) -> Toggled:
    """Count an actor who does not count, else take the count back.

    Raises:
        UnsupportedActors: the counter does not count once for each actor.
        InvalidDelta: with a cool-down nothing is taken back.
        Contention: others did the same for the same actor again and again meanwhile.
    """
    _, declared = measure_of(ref.measure, ref.label)
    if declared.time is not None:
        reason = f"{ref.label} has a cool-down, so nothing is taken back"
        raise InvalidDelta(delta=-1, reason=reason)
    for _ in range(_TURNS):
        for by in 1, -1:
            result = change_of_actor(Change(ref, by, event=event))
            if not result.replayed:
                return Toggled(by > 0, result)
    raise Contention(key=ref.label, attempts=_TURNS)
