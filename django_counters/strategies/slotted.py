"""The slotted strategy: increments of a record's counter wait in its slots."""

from __future__ import annotations

from typing import ClassVar

from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.spread import Spread, rows, spread_over


class Slotted(Spread):
    """For hot counters of a record that have to join a transaction."""

    name: ClassVar[str] = "slotted"


def _build(table: Table, using: str, shared: Shared, *, slots: int | str) -> Strategy:  # noqa: ARG001
    return Slotted(*spread_over(table, using, slots))


DECLARED = Declaration(
    Slotted,
    Capabilities(slots=True),
    _build,
    fields=(rows("slots", "a record")._replace(code="E017"),),
    guesses={"slotted": "Slots belong to records; a named counter is 'sharded'."},
)
