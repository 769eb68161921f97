"""The strategy of the app: it counts each change several times."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from django_counters.options import Option, is_integer
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.exact import Exact
from django_counters.types import Batch


class Twice(Exact):
    """Counts each change as often as it is told to."""

    name: ClassVar[str] = "twice"

    def __init__(self, totals: SqlTotals, times: int) -> None:
        super().__init__(totals)
        self._times = times

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        deltas = tuple(delta._replace(by=delta.by * self._times) for delta in batch.deltas)
        return super().apply(batch._replace(deltas=deltas))


def build(table: Any, using: str, shared: Shared, *, times: int) -> Strategy:
    return Twice(SqlTotals(table, using), times)


TIMES = Option("times", 2, "an integer from 2 on", "How often.", lambda value: is_integer(value, 2))
TWICE = Declaration(
    Twice,
    Capabilities(in_place=True),
    build,
    namespaces=(TIMES,),
    fields=(TIMES,),
    guesses={"double": "Nearly: it is 'twice'."},
)
