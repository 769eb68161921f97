"""Changes on a condition: its row and the change are one step."""

from __future__ import annotations

from typing import Any

from django_counters.conditions import Condition, Conditional, ConditionResult
from django_counters.errors import RecordMissing, UnsupportedCondition
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.stores.sql.conditions import SqlConditions
from django_counters.strategies.base import CountsOnConditions
from django_counters.tokens import Token
from django_counters.types import Batch, Delta
from django_counters.values import Counted, Replayed, Result, Unknown
from django_counters.write.change import Change, Ref, tell
from django_counters.write.once import Call, once


def change_on(declared: Conditional, asked: Change) -> Result:
    """Make a change if its condition is met, else return the present value as a `Replayed`.

    Raises:
        UnsupportedCondition: the strategy can't promise it.
        RecordMissing: the record is gone.
        CounterError: what the declaration raises.
    """
    if asked.token is None:
        return _changed(declared, asked)
    return _once(declared, asked, asked.token)


def _once(declared: Conditional, asked: Change, token: Token) -> Result:
    """The same under a token: a process that repeats it finds what the first one did."""
    ref, text, single = asked.ref, asked.ref.text, asked._replace(token=None)

    def work() -> dict[str, int | Unknown]:
        return {text: _changed(declared, single)}

    call = Call(ref.owner, {text: asked.by}, asked.event.text)
    return once(token, call, ref.using, work).values[text]


def _changed(declared: Conditional, asked: Change) -> Result:
    ref = asked.ref
    if not ref.recipe.can.conditions:
        raise UnsupportedCondition(key=ref.label, reason=f"{ref.strategy} can't promise it")
    found: Any = registry.strategy(ref.recipe, ref.table, ref.using)
    strategy: CountsOnConditions = found
    condition = declared.condition(asked)
    delta = asked.apart
    result = strategy.apply_on(delta, condition) or _in_two_steps(strategy, delta, condition, ref)
    if not result.counted:
        return Replayed(result.value)
    if batch_applied.receivers:
        tell(strategy, Batch((delta,)), {delta.key: result.value}, ref.using, ref.table.label)
    return Counted(result.value)


def _in_two_steps(
    strategy: CountsOnConditions, delta: Delta, condition: Condition, ref: Ref
) -> ConditionResult:
    """The row first, then the change, in one transaction or in a savepoint of the caller's."""
    conditions = registry.kept(SqlConditions, ref.using)
    with conditions.all_or_nothing():
        if not conditions.hold(ref.table, ref.key):
            raise RecordMissing(key=ref.label)
        if not conditions.met(condition):
            return ConditionResult(False, strategy.read(delta.key, "exact", 0.0).value)
        value = strategy.apply(Batch((delta,)))[delta.key]
        assert isinstance(value, int), f"{strategy.name} knows its values"
        return ConditionResult(True, value)
