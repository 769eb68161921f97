"""What there is of a counter, held and sold included: all of it in one statement."""

from __future__ import annotations

from dataclasses import dataclass

from django_counters.exceptions import RecordMissing
from django_counters.stores.sql.holds import SqlStock
from django_counters.write.change import Ref
from django_counters.write.holds import check_holds
from django_counters.write.pipeline import owed


@dataclass(frozen=True, slots=True)
class Stock:
    """A counter and its holds, of one moment.

    Attributes:
        available: the value of the counter.
        held: the quantity of holds that have not ended, also beyond their time.
        sold: the quantity of committed holds that are kept: they are deleted 30 days after their
            time.
    """

    available: int
    held: int
    sold: int

    @property
    def total(self) -> int:
        """The sum of all three, which holding, selling and giving back leave as it is."""
        return self.available + self.held + self.sold


def stock_of(ref: Ref) -> Stock:
    """What there is of a counter; see `CounterManager.stocktake`."""
    check_holds(ref)
    value, held, sold = SqlStock(ref.table, ref.using).stock(ref.owner, ref.text, ref.key)
    if value is None and not ref.table.inserts:
        raise RecordMissing(key=ref.label)
    return Stock((value or 0) + owed(ref, ref.using), held, sold)
