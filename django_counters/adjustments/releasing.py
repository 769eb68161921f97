"""Gives back what is held for somebody, with who did it and why."""

from __future__ import annotations

from typing import Any

from django_counters.adjustments.adjustment import adjusting, correct, settle_buffered
from django_counters.adjustments.models import CASE_LENGTH, CounterAdjustment
from django_counters.adjustments.orders import order_of
from django_counters.exceptions import HoldEnded
from django_counters.registry import registry
from django_counters.types import UNBOUNDED
from django_counters.write.holds import find
from django_counters.write.records import ref_of


def release_hold(token: object, using: str | None, **asked: Any) -> CounterAdjustment:
    """Release a hold, and write down what its counter got back; see `CounterManager.release_hold`.

    It is no decision about the value, so no ceiling, no quota and no second person is asked.
    """
    hold = find(token, using)
    ref = ref_of(hold.field, hold.key, hold.using)
    measure = ref.measure and ref.measure._replace(quotas=())
    ref = ref._replace(bounds=UNBOUNDED, approve_above=None, measure=measure)
    # As code spells it: a token may have signs that a case may not.
    case = f"hold {hold.token!a}"[:CASE_LENGTH]
    order = order_of(by=hold.quantity, case=case, **asked)
    settle_buffered([ref], hold.using)
    with adjusting(ref, hold.using) as audit:
        if registry.holds(hold.using).release(hold.token) is None:
            state = find(hold.token, hold.using).state
            raise HoldEnded(token=hold.token, key=ref.label, quantity=hold.quantity, state=state)
        return correct(ref, order, hold.using, audit)
