"""The sharded strategy: increments of a named counter wait in its shards."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.spread import Spread, rows, spread_over


class Sharded(Spread):
    """For hot named counters that have to join a transaction."""

    name: ClassVar[str] = "sharded"


def _build(table: Table, using: str, _: Shared, *, shards: int | str) -> Strategy:
    return Sharded(*spread_over(table, using, shards))


DECLARED = Declaration(
    Sharded,
    Capabilities(floors=True, shards=True, conditions=True),
    _build,
    namespaces=(rows("shards", "a counter"),),
    guesses={"sharded": "Shards belong to named counters; a field is 'slotted'."},
)
# For counters whose namespace declares another strategy: that one takes from the total.
ELSEWHERE = replace(DECLARED, can=DECLARED.can._replace(floors=False))
