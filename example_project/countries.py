"""Where visitors say that they are. Both the site and the load know this, and nothing of Django."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

# A proxy in front of a real site would set it. Here visitors make it up.
COUNTRY_HEADER = "X-Country"
# In an answer: the country and the day that a view was counted under.
COUNTED_AS_HEADER = "X-Counted-As"
COUNTRIES = ("DE", "FR", "JP", "KE", "BR", "US")
# Countries beyond are counted together.
MOST_COUNTRIES = 20
# A page that was read without a connection says so later. Older views are refused.
LATEST = timedelta(days=3)
_BY_DAY, _UNKNOWN = "views by day", "unknown views by day"


class Cell(NamedTuple):
    """Views of one post from one country on one day.

    Attributes:
        country: empty where none was told.
        day: in UTC, as ``2026-11-23``.
    """

    post: int
    country: str
    day: str

    def name(self, *, known: bool = True) -> str:
        """The name of the sum of a tally; another one where nobody knows whether it was counted."""
        return ":".join((_BY_DAY if known else _UNKNOWN, str(self.post), self.country, self.day))


def cell_of(name: str) -> Cell | None:
    """The cell that the name of a sum is about; None if it is about something else."""
    kind, _, rest = name.partition(":")
    if kind not in (_BY_DAY, _UNKNOWN):
        return None
    post, country, day = rest.split(":")
    return Cell(int(post), country, day)
