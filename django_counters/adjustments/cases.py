"""A case adjusts many counters for one reason, in steps. A repeated call adjusts the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, Required, TypedDict

from django_counters.adjustments import STEP, adjustment
from django_counters.adjustments.sql import SqlAudit
from django_counters.errors import CounterError, InvalidAdjustment, RecordMissing
from django_counters.registry import registry
from django_counters.write.changes import Ref

Asked = tuple[Ref, adjustment.Order]


class Changed(NamedTuple):
    """One counter of a case: its value before, and its value after the adjustment."""

    counter: str
    before: int
    after: int


@dataclass
class AdjustedMany:
    """The result of a case.

    Attributes:
        case: its name. A repeated call with this name adjusts the rest.
        changes: the adjusted counters; for a dry run, those that a call would adjust.
        done: the number of counters that earlier calls have adjusted.
        refused: the reason for each counter that wasn't adjusted.
        dry_run: whether nothing was changed.
    """

    case: str
    dry_run: bool = False
    changes: list[Changed] = field(default_factory=list)
    done: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def delta(self) -> int:
        """Return the sum of all changes."""
        return sum(change.after - change.before for change in self.changes)


Progress = Callable[[AdjustedMany], None]


class CaseOptions(TypedDict, total=False):
    """Keyword arguments of `CounterManager.adjust_many`, which documents them, but the amounts."""

    reason: Required[str]
    actor: Required[object]
    case: Required[str]
    approver: object
    request_id: str
    allow_below_floor: bool
    dry_run: bool
    step: int
    progress: Progress | None


def given(to: object, by: object, ref_of: Callable[[Any], Ref]) -> Mapping[Ref, object]:
    """Return the new values or the changes, by counter.

    Raises:
        InvalidAdjustment: both or none are passed, or the argument isn't a mapping, or two keys
            are the same counter.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="pass either the new values (to) or the changes (by)")
    amounts = by if to is None else to
    if not isinstance(amounts, Mapping):
        raise InvalidAdjustment(problem="pass a mapping of counters to integers")
    checked: dict[Ref, object] = {}
    for key, amount in amounts.items():
        ref = ref_of(key)
        if ref in checked:
            raise InvalidAdjustment(problem=f"the mapping has {ref.label} twice")
        checked[ref] = amount
    return checked


def adjust_many(
    amounts: Mapping[Ref, object],
    how: str,
    *,
    case: object,
    dry_run: bool = False,
    step: int = STEP,
    progress: Progress | None = None,
    **asked: Any,
) -> AdjustedMany:
    """Adjust many counters; see `CounterManager.adjust_many`.

    Args:
        amounts: the new value or the change of each counter.
        how: ``to`` for new values, or ``by`` for changes.
        case: the name of the case.
        dry_run: report the effect, and change nothing.
        step: the number of counters that one transaction adjusts.
        progress: called with the report after each transaction.
    """
    if not isinstance(case, str) or not case.strip():
        raise InvalidAdjustment(problem="adjust_many() needs a name for the work: pass case")
    if step < 1:
        raise InvalidAdjustment(problem="step must be 1 or more")
    report = AdjustedMany(case.strip(), dry_run)
    # Check all orders before the first change.
    asked["case"] = case
    orders = [
        (ref, adjustment.order_of(**{**asked, how: amounts[ref]}))
        # By table: the statement that locks a table's counters sorts them.
        for ref in sorted(amounts, key=lambda ref: (ref.using, ref.owner))
    ]
    for alias, page in _pages(orders, step):
        if dry_run:
            for group in _rest(page, report, SqlAudit(alias)):
                _foresee(group, alias, report)
        else:
            adjustment.settle_async([ref for ref, _ in page], alias)
            with adjustment.adjusting(page[0][0], alias) as audit:
                for group in _rest(page, report, audit):
                    _adjust(group, alias, report, audit)
        if progress:
            progress(report)
    return report


def _pages(orders: Sequence[Asked], step: int) -> Iterator[tuple[str, Sequence[Asked]]]:
    """Yield the orders of each transaction, and its database."""
    for alias, same in groupby(orders, key=lambda order: order[0].using):
        group = list(same)
        for start in range(0, len(group), step):
            yield alias, group[start : start + step]


def _rest(
    page: Sequence[Asked], report: AdjustedMany, audit: SqlAudit
) -> Iterator[Sequence[Asked]]:
    """Yield the orders that the case hasn't carried out yet, by table.

    Call it within `adjusting`, so that no other process carries them out concurrently.
    """
    done = audit.of_case(report.case, [(ref.owner, ref.text) for ref, _ in page])
    rest: list[Asked] = []
    for ref, order in page:
        earlier = done.get((ref.owner, ref.text))
        if earlier is None:
            rest.append((ref, order))
        elif order.amount == (earlier.delta if order.to is None else earlier.after):
            report.done += 1
        else:
            report.refused[ref.label] = f"{report.case} has adjusted it by {earlier.delta:+}"
    for _, group in groupby(rest, key=lambda order: order[0].owner):
        yield list(group)


class _InVainError(Exception):
    """Totals were created for counters that were refused."""


def _adjust(group: Sequence[Asked], alias: str, report: AdjustedMany, audit: SqlAudit) -> None:
    """Adjust counters of one table. Refused ones leave no rows."""
    try:
        with registry.corrections(group[0][0].table, alias).all_or_nothing():
            done = adjustment.correct_many(group, alias, audit)
            report.refused |= {ref.label: str(error) for ref, error in done.refused.items()}
            if done.in_vain:
                raise _InVainError
    except _InVainError:
        if rest := [(ref, order) for ref, order in group if ref not in done.refused]:
            _adjust(rest, alias, report, audit)
        return
    labels = {(ref.owner, ref.text): ref.label for ref, _ in group}
    for row in done.rows:
        report.changes.append(Changed(labels[row.field, row.key], row.before, row.after))


def _foresee(group: Sequence[Asked], alias: str, report: AdjustedMany) -> None:
    """Report the effect on counters of one table."""
    values = adjustment.foreseen_values([ref for ref, _ in group], alias)
    for ref, order in group:
        try:
            if ref not in values:
                raise RecordMissing(key=ref.label)
            before = values[ref]
            adjustment.refuse(ref, order, before)
        except CounterError as error:
            report.refused[ref.label] = str(error)
        else:
            report.changes.append(Changed(ref.label, before, before + order.delta(before)))
