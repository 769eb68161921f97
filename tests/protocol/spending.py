"""What may happen a few times only, and how often each of it has happened.

All of it is one number: an octal digit for each, with as many ones as it has happened, three at
most. So of two states that are the same but for this one can do all that the other can, and more,
if it has none of the ones that the other has not.
"""

from __future__ import annotations

CRASHES, EVICTIONS, KILLS = range(3)
# The digits of what Redis can lose something by.
FAULTS = 0o77


def tries(increment: int) -> int:
    """Where it stands how often an increment with a token was sent to Redis."""
    return 3 + 2 * increment


def spills(increment: int) -> int:
    """Where it stands whether the caller has appended an increment to the ledger."""
    return 4 + 2 * increment


def times(spent: int, what: int) -> int:
    """How often something has happened."""
    return (spent >> 3 * what & 7).bit_count()


def spend(spent: int, what: int) -> int:
    """It has happened once more."""
    return spent | (1 << times(spent, what)) << 3 * what


def is_thriftier(spent: int, other: int) -> bool:
    """Whether nothing has happened more often than it has in the other case."""
    return not spent & ~other
