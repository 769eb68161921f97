"""A case: many counters adjusted for one reason, in steps that can be taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django_counters.exceptions import (
    ApprovalRequired,
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidAdjustment,
    RecordMissing,
)
from django_counters.kinds.adjustment import (
    Order,
    adjusting,
    correct,
    foreseen,
    one_of_many,
    order_of,
    settle_buffered,
)
from django_counters.kinds.subject import Subject
from django_counters.stores.sql.audit import SqlAudit

STEP = 100
# What concerns one counter alone; any other error ends the whole.
_OF_ONE = (
    *(ApprovalRequired, CeilingExceeded, CounterOverflow, InsufficientCount, InvalidAdjustment),
    RecordMissing,
)


class Changed(NamedTuple):
    """One counter of a case: what it had, and what it has or would have."""

    counter: str
    before: int
    after: int


@dataclass
class AdjustedMany:
    """What became of a case.

    Attributes:
        case: what it is called; the same call with the same case goes on where it ended.
        changes: what was adjusted, or would be.
        done: how many counters had been adjusted for the case before.
        refused: counters that were not adjusted, and why.
        dry_run: whether nothing was changed.
    """

    case: str
    dry_run: bool = False
    changes: list[Changed] = field(default_factory=list)
    done: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def delta(self) -> int:
        """By how much all of them together were changed."""
        return sum(change.after - change.before for change in self.changes)


Progress = Callable[[AdjustedMany], None]


def given(to: object, by: object, subject_of: Callable[[Any], Subject]) -> Mapping[Subject, object]:
    """What was given of both, by counter, if it is one of them.

    Raises:
        InvalidAdjustment: both or none are given, or it is no mapping, or two of its keys mean the
            same counter.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="give either the new values (to) or the changes (by)")
    amounts = by if to is None else to
    if not isinstance(amounts, Mapping):
        raise InvalidAdjustment(problem="a mapping of counters to integers is needed")
    found: dict[Subject, object] = {}
    for key, amount in amounts.items():
        subject = subject_of(key)
        if subject in found:
            raise InvalidAdjustment(problem=f"{subject.label} is given twice")
        found[subject] = amount
    return found


def adjust_many(
    amounts: Mapping[Subject, object],
    how: str,
    *,
    case: object,
    dry_run: bool = False,
    step: int = STEP,
    progress: Progress = lambda report: None,  # noqa: ARG005
    using: str | None = None,
    **asked: Any,
) -> AdjustedMany:
    """Adjust many counters; see `CounterManager.adjust_many`.

    Args:
        amounts: the new value or the change of each.
        how: which of both they are: ``to`` or ``by``.
        case: what the whole is called.
        dry_run: say what would be done, and do nothing.
        step: how many counters a transaction adjusts.
        progress: called with the report so far, after each transaction.
        using: the database.
    """
    if not isinstance(case, str) or not case.strip():
        raise InvalidAdjustment(problem="many at once need a case, which tells them from others")
    if step < 1:
        raise InvalidAdjustment(problem="a step has one counter or more")
    report = AdjustedMany(case.strip(), dry_run)
    # All of it is looked at before the first one is changed.
    asked["case"] = case
    orders = [
        (subject, order_of(**{**asked, how: amounts[subject]}))
        for subject in sorted(amounts, key=_in_order)
    ]
    for start in range(0, len(orders), step):
        page = orders[start : start + step]
        alias = page[0][0].alias(using)
        if dry_run:
            _one_by_one(page, alias, report, SqlAudit(alias))
        else:
            settle_buffered([subject for subject, _ in page], alias)
            with adjusting(page[0][0], alias) as audit:
                _one_by_one(page, alias, report, audit)
        progress(report)
    return report


def _in_order(subject: Subject) -> tuple[str, Any]:
    """As batches of increments lock their counters, so that none of both waits for the other."""
    return subject.field, subject.native


def _one_by_one(
    page: Sequence[tuple[Subject, Order]], alias: str, report: AdjustedMany, audit: SqlAudit
) -> None:
    # Looked at by the only one who adjusts: nobody else takes up the same case meanwhile.
    done = audit.of_case(report.case, [(subject.field, subject.key) for subject, _ in page])
    for subject, order in page:
        earlier = done.get((subject.field, subject.key))
        if earlier is None:
            _one(subject, order, alias, report, audit)
        elif order.amount == (earlier.delta if order.to is None else earlier.after):
            report.done += 1
        else:
            report.refused[subject.label] = f"{report.case} has adjusted it by {earlier.delta:+}"


def _one(subject: Subject, order: Order, alias: str, report: AdjustedMany, audit: SqlAudit) -> None:
    """Adjust one of them, or say why not; the others go on."""
    try:
        if report.dry_run:
            seen = foreseen(subject, order, alias)
            if seen.refusal:
                raise seen.refusal
            changed = Changed(subject.label, seen.before, seen.after)
        else:
            with one_of_many(subject, alias):
                row = correct(subject, order, alias, audit)
            changed = Changed(subject.label, row.before, row.after)
    except _OF_ONE as error:
        report.refused[subject.label] = str(error)
        return
    report.changes.append(changed)
