"""What people adjust while the site runs, in the admin and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC

from django_counters.models import CounterAdjustment
from django_counters.signals import counter_adjusted
from example_project.countries import Cell
from example_project.tally import STOCK, VIEWS, Tally


@contextmanager
def noting(tally: Tally) -> Iterator[None]:
    """Note it meanwhile: counters have to differ by just that, too."""

    def note(adjustment: CounterAdjustment, **_: object) -> None:
        if adjustment.case.startswith("hold "):
            # What was held was given back: the stock is what it was.
            return
        is_stock = adjustment.field == STOCK
        name = f"restocked:{adjustment.key}" if is_stock else adjustment.subject
        tally.add(name, adjustment.delta)
        if adjustment.field == VIEWS:
            # It counts on the day on which it is made, from nowhere.
            day = adjustment.created_at.astimezone(UTC).date().isoformat()
            tally.add(Cell(int(adjustment.key), "", day).name(), adjustment.delta)

    counter_adjusted.connect(note, weak=False)
    try:
        yield
    finally:
        counter_adjusted.disconnect(note)
