"""The order of an adjustment: what to change, why, and who asks. Checks its texts."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_counters.adjustments.models import CASE_LENGTH, NAME_LENGTH, REASON_LENGTH
from django_counters.exceptions import InvalidAdjustment
from django_counters.types import check_delta, check_integer, steering

LONGEST_REQUEST_ID = 128
# Invisible letters and signs: fillers of Hangul, the empty pattern of Braille.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


class Person(NamedTuple):
    """Who adjusts: a user, or anything with a name."""

    id: str
    name: str

    def is_same(self, other: Person) -> bool:
        """Whether both are the same person, by id, which outlives a name, or by name."""
        return self.name == other.name or bool(self.id and self.id == other.id)


@dataclass(frozen=True, slots=True)
class Order:
    """What to change, and why. One of ``to`` and ``by`` is given.

    ``last``: the number of the last adjustment that the person saw, zero for none. While it is
    still the last one, ``by`` needs no expected value: increments meanwhile do not matter.
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
    def how(self) -> str:
        """Whether the amount is the new value, ``to``, or the change, ``by``."""
        return "by" if self.to is None else "to"

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
    """A checked order.

    Raises:
        InvalidAdjustment: it does not say what to do, who asks, or why.
        InvalidDelta: a number is invalid.
    """
    if (to is None) == (by is None):
        raise InvalidAdjustment(problem="give either the new value (to) or the change (by)")
    who = person_of(actor, "an actor")
    second = None if approver is None else person_of(approver, "an approver")
    if second and second.is_same(who):
        raise InvalidAdjustment(
            problem="an adjustment is approved by another person than its author"
        )
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
    """A person, from a user or a name.

    Raises:
        InvalidAdjustment: it is neither, or an unsaved user.
    """
    if isinstance(given, Person):
        return Person(given.id, text_of(given.name, what, NAME_LENGTH))
    if hasattr(given, "get_username"):
        user: Any = given
        if user.pk is None:
            raise InvalidAdjustment(problem=f"{what} is needed, and this user is not saved")
        # The name of a custom user need not be a text.
        return Person(str(user.pk), text_of(str(user.get_username()), what, NAME_LENGTH))
    return Person("", text_of(given, what, NAME_LENGTH))


def text_of(given: object, what: str, longest: int) -> str:
    """A text that a database can keep, without surrounding white space.

    Raises:
        InvalidAdjustment: it is no text, or blank, or too long.
    """
    text = given.strip() if isinstance(given, str) else ""
    if not text:
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that is not blank")
    if len(text) > longest:
        raise InvalidAdjustment(problem=f"{what} may have {longest} characters, not {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidAdjustment(problem=f"{what} has a character that no database keeps")
    return text


def shown(given: object, what: str, longest: int) -> str:
    """A text that shows as it is on a page, in a terminal and in a spreadsheet."""
    text = text_of(given, what, longest)
    if character := steering(text):
        problem = f"{what} has a character that steers how it is shown: {character!a}"
        raise InvalidAdjustment(problem=problem)
    if not any(_is_seen(character) for character in text):
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that can be seen")
    return text


def _is_seen(character: str) -> bool:
    category = unicodedata.category(character)
    # Characters without a meaning (yet) show as a box.
    has_shape = category in ("Cn", "Co") or category[0] not in "CMZ"
    return has_shape and character not in _BLANK


def request_id_of(given: str) -> str:
    """The ``X-Request-ID`` of a request, if it can be kept; else an empty text."""
    name = given.strip()
    return name if len(name) <= LONGEST_REQUEST_ID and name.isprintable() else ""
