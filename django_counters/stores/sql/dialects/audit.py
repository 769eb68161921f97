"""The guard of the adjustments: what its statements are for, and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ADJUSTMENTS = "django_counters_counteradjustment"
REFUSED = "adjustments are never changed or deleted"
NOT_NEXT = "an adjustment has the number after the last one"
HINT = (
    "A wrong adjustment is corrected by another one. To empty a database for development, as flush "
    "does, drop it and migrate again."
)


class Guard(NamedTuple):
    """Triggers that refuse to change or delete adjustments.

    Attributes:
        make: the statements that make them, where there are none.
        looks: what ``present`` says when they are there: the definition for each name.
    """

    make: tuple[str, ...]
    looks: Mapping[str, str]


class Audit:
    """The statements around adjustments.

    Attributes:
        alone: hold the chain until the transaction ends.
        strict: the guard of a database that is in use.
        flushable: the guard of a test database: the whole table can be emptied at once.
        remove: the statements that remove either guard, or the rest of it.
        present: the triggers of the guard as they are. Rows: name, definition.
    """

    alone: str
    strict: Guard
    flushable: Guard
    remove: tuple[str, ...]
    present: str
