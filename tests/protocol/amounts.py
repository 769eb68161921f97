"""Amounts that remember which increments they are made of.

An amount is an octal number: digit i says how often increment i is in it. Amounts add up as the
amounts of the protocol do, and a digit above one is an increment that was counted twice.
A set of increments is an amount whose digits are zero and one.
"""

from __future__ import annotations

ONES = 0o1111111111
ALL = 0o7777777777


def one(increment: int) -> int:
    """The amount of one increment."""
    return 1 << 3 * increment


def present(amount: int) -> int:
    """The set of the increments that are in an amount at least once."""
    return (amount | amount >> 1 | amount >> 2) & ONES


def repeated(amount: int) -> int:
    """The set of the increments that are in an amount more than once."""
    return (amount >> 1 | amount >> 2) & ONES


def spelled(amount: int) -> str:
    """The increments of an amount, for people: ``{0, 2}``, or ``{0, 2, 2}``."""
    digits = enumerate(reversed(oct(amount)[2:]))
    return "{" + ", ".join(str(i) for i, times in digits for _ in range(int(times))) + "}"
