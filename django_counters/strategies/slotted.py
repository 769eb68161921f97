"""The slotted strategy: increments of a record's counter wait in its slots."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.spread import Spread, rows, spread_over


class Slotted(Spread):
    """For hot counters of a record that have to join a transaction."""

    name: ClassVar[str] = "slotted"


def _build(table: Table, using: str, _: Shared, *, slots: int | str) -> Strategy:
    return Slotted(*spread_over(table, using, slots))


DECLARED = Declaration(
    Slotted,
    Capabilities(floors=True, slots=True, conditions=True),
    _build,
    fields=(rows("slots", "a record")._replace(code="E017"),),
    guesses={"slotted": "Slots belong to records; a named counter is 'sharded'."},
)
# For counters whose field declares another strategy: that one takes from the total.
ELSEWHERE = replace(DECLARED, can=DECLARED.can._replace(floors=False))
