"""What is asked for where somebody adjusts a counter, and who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from django_counters.adjustments.wording import shown, text_of
from django_counters.exceptions import InvalidAdjustment
from django_counters.tables.adjustment import CASE_LENGTH, NAME_LENGTH, REASON_LENGTH
from django_counters.types import check_delta, check_integer


class Person(NamedTuple):
    """Who adjusts: a user, or whatever has a name."""

    id: str
    name: str

    def is_same(self, other: Person) -> bool:
        """Whether both are one: by their id, which outlives a name, or by their name."""
        return self.name == other.name or bool(self.id and self.id == other.id)


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for, and why. One of ``to`` and ``by`` is given.

    ``last``: the number of the last adjustment of the counter that was seen; zero: none. As long as
    it is the last one, a change may meet another value than the expected one: what others count
    meanwhile does not concern it.
    """

    to: int | None
    by: int | None
    expected: int | None
    reason: str
    actor: Person
    approver: Person | None
    case: str
    request_id: str
    allow_below_floor: bool
    last: int | None = None

    @property
    def amount(self) -> int:
        """The new value, or the change."""
        return self.by or 0 if self.to is None else self.to

    def delta(self, before: int) -> int:
        """By how much a value changes."""
        return self.amount if self.to is None else self.to - before


def order_of(
    *,
    to: object = None,
    by: object = None,
    expected: object = None,
    reason: object,
    actor: object,
    approver: object = None,
    case: object = "",
    request_id: object = "",
    allow_below_floor: bool = False,
    last: int | None = None,
) -> Order:
    """What is asked for, checked.

    Raises:
        InvalidAdjustment: nobody could say later what was done, who did it, or why.
        InvalidDelta: a number is none.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="give either the new value (to) or the change (by)")
    who = person_of(actor, "an actor")
    second = None if approver is None else person_of(approver, "an approver")
    if second and second.is_same(who):
        raise InvalidAdjustment(problem="nobody approves an adjustment of their own")
    return Order(
        to=None if to is None else check_integer(to),
        by=None if by is None else check_delta(by),
        expected=None if expected is None else check_integer(expected),
        reason=shown(reason, "a reason", REASON_LENGTH),
        actor=who,
        approver=second,
        case=shown(case, "a case", CASE_LENGTH) if case else "",
        request_id=text_of(request_id, "a request id", NAME_LENGTH) if request_id else "",
        allow_below_floor=allow_below_floor,
        last=None if by is None else last,
    )


def person_of(given: object, what: str) -> Person:
    """A user, or a name of whatever else adjusts.

    Raises:
        InvalidAdjustment: it is neither, or a user without a row.
    """
    if isinstance(given, Person):
        return Person(given.id, text_of(given.name, what, NAME_LENGTH))
    if hasattr(given, "get_username"):
        user: Any = given
        if user.pk is None:
            raise InvalidAdjustment(problem=f"{what} is needed, and this user is not saved")
        # What a project logs in with need not be a text.
        return Person(str(user.pk), text_of(str(user.get_username()), what, NAME_LENGTH))
    return Person("", text_of(given, what, NAME_LENGTH))
