"""The public API: counters by key, corrected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack
from uuid import UUID

from django_counters.adjustments import STEP, ResetOptions
from django_counters.adjustments.models import CounterAdjustment
from django_counters.managers.rows import Row, RowsManager
from django_counters.tokens import Token
from django_counters.twins import alters_data, twin
from django_counters.write.change import named

if TYPE_CHECKING:
    from django_counters.adjustments.cases import AdjustedMany, Progress


class AdjustingManager(RowsManager[Row]):
    """Corrects counters: by a change that is kept, with who made it and why."""

    @alters_data
    def adjust(
        self,
        key: str,
        *,
        to: int | None = None,
        by: int | None = None,
        expected: int | None = None,
        reason: str,
        actor: object,
        approver: object = None,
        case: str = "",
        request_id: str = "",
        token: str | UUID | Token | None = None,
        allow_below_floor: bool = False,
        using: str | None = None,
    ) -> CounterAdjustment:
        """Set a counter right, and keep for ever what it was, who did it and why.

        Either ``to`` gives the new value or ``by`` the change. In one transaction (the caller's, if
        there is one) the exact value is read, the difference is added to the total, and an
        immutable `CounterAdjustment` is written. In a ledger the difference is an entry of its own
        kind. Increments are never removed: those that others make meanwhile come on top, and those
        that wait in shards, in the ledger or in Redis are part of the value and stay there.

        Adjustments of all counters come one after the other, so each one meets the value that the
        one before has left. Another one waits until this transaction ends: adjust in short
        transactions, and before counting in the same one.

        Args:
            key: the counter.
            to: the new value.
            by: the change.
            expected: the value that the decision was made on; another one is refused.
            reason: why, for readers of the audit. Up to 1,000 characters.
            actor: a user, or the name of a script or job. Kept as a text.
            approver: who else has agreed, where ``APPROVE_ABOVE`` asks for a second person.
            case: a reference, such as the number of a ticket.
            request_id: which request of a client it was.
            token: adjust once, however often the call is repeated: a UUIDv7 or any text, for 48
                hours, as for increments. A repeated call returns the first adjustment; its
                ``replayed`` is true.
            allow_below_floor: whether the value may end below the floor of the namespace.
            using: the database.

        Raises:
            ValueChanged: the value is not the expected one; the error has it.
            ApprovalRequired: it is more than one person alone may do, and it is not approved.
            InsufficientCount, CeilingExceeded, CounterOverflow: the value may not become that.
            InvalidAdjustment: the reason or the actor is missing, or both or none of ``to`` and
                ``by`` are given, or the approver is the actor.
            InvalidKey, InvalidDelta, InvalidToken, TokenConflict, TokenExpired: as `increment`.
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
            RetryTransaction: under REPEATABLE READ, another transaction has counted or adjusted
                since.
            OutcomeUnknown: the answer was lost, outside a transaction: counted or not.
        """
        from django_counters.adjustments.adjustment import adjust

        return adjust(
            named(key, using or self._db),
            to=to,
            by=by,
            expected=expected,
            reason=reason,
            actor=actor,
            approver=approver,
            case=case,
            request_id=request_id,
            token=token,
            allow_below_floor=allow_below_floor,
        )

    @alters_data
    def reset(self, key: str, **options: Unpack[ResetOptions]) -> CounterAdjustment:
        """Set a counter to zero, and keep for ever what it was, who did it and why.

        As ``adjust(key, to=0)``, with its arguments, its errors and its promises. ``before`` of the
        adjustment is the value until then, and ``-delta`` the same number; increments that others
        make meanwhile come on top. A counter that is zero already gets a row, too, with a ``delta``
        of zero. A ceiling below zero refuses, and so does a floor above it unless
        ``allow_below_floor``.
        """
        return self.adjust(key, to=0, **options)

    @alters_data
    def adjust_many(
        self,
        *,
        to: Mapping[str, int] | None = None,
        by: Mapping[str, int] | None = None,
        reason: str,
        actor: object,
        case: str,
        approver: object = None,
        request_id: str = "",
        allow_below_floor: bool = False,
        dry_run: bool = False,
        step: int = STEP,
        progress: Progress | None = None,
        using: str | None = None,
    ) -> AdjustedMany:
        """Adjust many counters for one reason, ``step`` of them in a transaction.

        Each is adjusted at most once for a ``case``: the same call goes on where it was
        interrupted, also in another process. A counter that is refused (by its floor, by
        ``APPROVE_ABOVE``, because the case has adjusted it by another number) is reported, and the
        others go on.

        Args:
            to: the new value of each counter.
            by: or the change of each.
            dry_run: say what would be done, and do nothing.
            step: how many counters a transaction adjusts.
            progress: called with the report so far, after each transaction.

        Raises:
            InvalidAdjustment, InvalidKey, InvalidDelta: something is wrong with what is asked;
                nothing was changed.
            CounterUnavailable, OutcomeUnknown, RetryTransaction: the adjustments made until then
                stay. Repeat the call.
        """
        from django_counters.adjustments.cases import adjust_many, given

        return adjust_many(
            given(to, by, lambda key: named(key, using or self._db)),
            "by" if to is None else "to",
            reason=reason,
            actor=actor,
            case=case,
            approver=approver,
            request_id=request_id,
            allow_below_floor=allow_below_floor,
            dry_run=dry_run,
            step=step,
            progress=progress,
        )

    @alters_data
    def forget(self, key: str, *, using: str | None = None) -> int:
        """Set a counter to zero, as if it had never been counted, and return its last value.

        Right for every strategy, in one transaction (the caller's, if there is one). Pending
        increments, periods, ranks, distinct actors, actors, occurrences, recorded totals and
        rows of other apps go with it. Concurrent increments stay. The row goes, unless something is
        still to be folded into it. Entries of a ledger, tokens and adjustments are kept. It checks
        no bounds, and doesn't record who did it: people adjust, with ``to=0``.

        Raises:
            InvalidKey: the key is none.
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
            RetryTransaction: under REPEATABLE READ, another transaction has counted since.
            OutcomeUnknown: the connection was lost, outside a transaction, before the answer.
        """
        from django_counters.adjustments.adjustment import forget

        return forget(key, using or self._db)

    aforget = twin(forget)
    aadjust = twin(adjust)
    areset = twin(reset)
    aadjust_many = twin(adjust_many)
