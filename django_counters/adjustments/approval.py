"""Adjustments by two people: one requests an adjustment, another approves or rejects it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, models, router

from django_counters import clock
from django_counters.adjustments import adjustment
from django_counters.adjustments.models import REASON_LENGTH, AdjustmentRequest, CounterAdjustment
from django_counters.adjustments.sql import SqlAudit
from django_counters.errors import InvalidAdjustment, RequestDecided
from django_counters.registry import registry
from django_counters.tokens import Token, check_token
from django_counters.write.changes import Call, Ref, once
from django_counters.write.records import ref_of

_State = AdjustmentRequest.State
_OWN = "another person than the requester must decide on a request"
# The parts of an order that a request keeps for the adjustment.
_KEPT = ("to", "by", "reason", "case", "allow_below_floor")


def ask(
    ref: Ref,
    last: int | None = None,
    /,
    *,
    token: str | UUID | Token | None = None,
    expected: int | None = None,
    **options: Any,
) -> AdjustmentRequest:
    """Request an adjustment, for a second person to decide. Adjusts nothing yet.

    The request is in the counter's database. With a token it is made once, even if the call is
    repeated.

    Args:
        last: the number of the last adjustment that the requester saw; see `Order`.
        expected: the value that the requester saw; None: any value.
        options: the other arguments of `order_of`.

    Raises:
        ValueChanged: the value isn't the expected one.
        InsufficientCount, CeilingExceeded, CounterOverflow: an approval would be refused now.
        InvalidAdjustment, InvalidDelta: the adjustment is invalid.
        RecordMissing, CounterUnavailable: the value can't be read.
        InvalidToken, TokenConflict, TokenExpired, OutcomeUnknown: as for adjustments.
    """
    alias = ref.using
    order = adjustment.order_of(last, expected=expected, **options)
    if token is None:
        # A commit without an answer raises OutcomeUnknown.
        with registry.tokens(alias).all_or_nothing():
            return _asked(ref, order, alias)
    call = Call(f"ask {order.how} {ref.owner}", {ref.text: order.amount})
    answer = once(check_token(token), call, alias, lambda: {ref.text: _asked(ref, order, alias).pk})
    return _rows(alias).get(pk=int(answer.values[ref.text]))


def approve(
    request: int,
    *,
    approver: object,
    expected: int,
    last: int | None = None,
    request_id: str = "",
    using: str | None = None,
) -> tuple[AdjustmentRequest, CounterAdjustment]:
    """Approve a request and adjust the counter in one transaction; return both rows.

    If several people decide at the same time, one of them succeeds. The requester may not decide.

    Args:
        request: its number.
        approver: a user, or a name.
        expected: the value that the approver saw.
        last: the number of the last adjustment that the approver saw; see `Order`.
        request_id: the id of the HTTP request.
        using: the database of the counter and of the request.

    Raises:
        AdjustmentRequest.DoesNotExist: the request doesn't exist.
        RequestDecided: the request was decided before.
        InvalidAdjustment: the approver is the requester, or has no name.
        ValueChanged: the value isn't the expected one.
        InsufficientCount, CeilingExceeded, CounterOverflow, RecordMissing, CounterUnavailable,
        RetryTransaction, OutcomeUnknown: as for other adjustments. The request stays undecided.
    """
    alias = using or router.db_for_write(AdjustmentRequest)
    asked = _rows(alias).get(pk=request)
    ref = ref_of(asked.field, asked.key, alias)
    second = adjustment.person_of(approver, "an approver")
    kept: dict[str, Any] = {name: getattr(asked, name) for name in _KEPT}
    kept |= {"actor": requester_of(asked), "approver": second}
    order = adjustment.order_of(last, **kept, expected=expected, request_id=request_id)
    with adjustment.adjusting(ref, alias) as audit:
        # A second approver waits here, and then gets RequestDecided.
        decided = _decide(asked.pk, _State.APPROVED, second, alias)
        row = adjustment.correct(ref, order, alias, audit)
        decided.adjustment = row.number
        _rows(alias).filter(pk=asked.pk).update(adjustment=row.number)
    return decided, row


def reject(
    request: int, *, actor: object, note: str = "", using: str | None = None
) -> AdjustmentRequest:
    """Reject a request and return it. The requester may not reject it.

    Args:
        request: its number.
        actor: a user, or a name.
        note: the reason. Up to 1,000 characters.
        using: the database of the counter and of the request.

    Raises:
        AdjustmentRequest.DoesNotExist: the request doesn't exist.
        RequestDecided: the request was decided before.
        InvalidAdjustment: the actor is the requester, or has no name; the note can't be displayed.
        CounterUnavailable: the database is unavailable. Nothing was changed.
        OutcomeUnknown: the commit wasn't answered.
    """
    alias = using or router.db_for_write(AdjustmentRequest)
    second = adjustment.person_of(actor, "an actor")
    asked = _rows(alias).get(pk=request)
    if requester_of(asked).is_same(second):
        raise InvalidAdjustment(problem=_OWN)
    checked = adjustment.shown(note, "note", REASON_LENGTH) if note.strip() else ""
    with registry.tokens(alias).all_or_nothing():
        return _decide(asked.pk, _State.REJECTED, second, alias, checked)


def find(request: int, using: str | None = None) -> AdjustmentRequest:
    """Return the request with a number.

    Raises:
        AdjustmentRequest.DoesNotExist: the request doesn't exist.
    """
    return _rows(using or router.db_for_write(AdjustmentRequest)).get(pk=request)


def requester_of(request: AdjustmentRequest) -> adjustment.Person:
    """Return the requester."""
    return adjustment.Person(request.requester_id, request.requester_name)


def _rows(alias: str) -> models.QuerySet[AdjustmentRequest]:
    return AdjustmentRequest._base_manager.using(alias)


def _asked(ref: Ref, order: adjustment.Order, alias: str) -> AdjustmentRequest:
    seen = adjustment.foreseen(ref, order, alias)
    adjustment.refuse_stale(ref, order, seen.before, SqlAudit(alias))
    if seen.refusal and not seen.needs_approval:
        raise seen.refusal
    return _rows(alias).create(
        field=ref.owner,
        key=ref.text,
        expected=seen.before,
        **{name: getattr(order, name) for name in _KEPT},
        requester_id=order.actor.id,
        requester_name=order.actor.name,
    )


def _decide(
    number: int, state: str, person: adjustment.Person, alias: str, note: str = ""
) -> AdjustmentRequest:
    """Decide on a request. Locks its row until the transaction ends."""
    decision: dict[str, Any] = {
        "state": state,
        "decider_id": person.id,
        "decider_name": person.name,
        "decided_at": clock.now(),
        "note": note,
    }
    try:
        is_made = _rows(alias).filter(pk=number, state=_State.WAITING).update(**decision)
    except IntegrityError as error:
        # A database may treat names that differ in case or accents as equal.
        raise InvalidAdjustment(problem=_OWN) from error
    # Within the transaction: an error after its end would claim that nothing was changed.
    decided = _rows(alias).get(pk=number)
    if not is_made:
        raise RequestDecided(request=number, state=decided.state, decider=decided.decider_name)
    return decided
