"""The cells of a scene: by hour and by day they sum to their totals, whatever was lost.

``python -m tests.faults.cells`` lands all that waits, so that they can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import django
import psycopg

MEASURED: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": {"country": 9}, "UNIQUE": ["day"]}
# Values of the tag; the last one is none.
COUNTRIES = ("DE", "FR", "")
PERIODS = {2: "hour", 3: "day"}
SUMS = (
    "SELECT key, period, tags, sum(value)::bigint FROM django_counters_countercell"
    " GROUP BY key, period, tags"
)
# By key and period, then by tag.
Cells = Mapping[tuple[str, int], Mapping[str, int]]
# Seconds within which all that waits has to be landed.
LANDED_WITHIN = 60.0


def cells_of(url: str) -> Cells:
    """The cells of a database."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    with psycopg.connect(url) as database:
        for key, period, tag, value in database.execute(SUMS).fetchall():
            found.setdefault((key, period), {})[tag] = value
    return found


def wrong_cells(cells: Cells, values: Mapping[str, int], tags: Mapping[str, str]) -> list[str]:
    """Counters whose cells are something else than their values, or are of another tag.

    Args:
        values: what was counted, of each counter that was.
        tags: of counters that have one alone.
    """
    wrong = []
    for key in sorted({key for key, _ in cells} | values.keys()):
        for period, name in PERIODS.items():
            found = cells.get((key, period), {})
            strange = key in tags and found.keys() - {tags[key]}
            if sum(found.values()) != values.get(key, 0) or strange:
                wrong.append(f"{key} by {name}: {found}, counted {values.get(key, 0)}")
    return wrong


def land_all() -> None:
    """Flush and fold until nothing waits."""
    from tests.faults.flushers import flush_once
    from tests.settling import roll_up

    deadline = time.monotonic() + LANDED_WITHIN
    while left := flush_once(lambda step: None, alone=False):
        assert time.monotonic() < deadline, f"not landed in time: {left}"
        time.sleep(0.1)
    while roll_up().waiting:
        pass


if __name__ == "__main__":
    django.setup()
    land_all()
