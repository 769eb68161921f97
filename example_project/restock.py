"""The keeper of the shop, who opens the sale again."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from example_project.seeds import SALE_UNITS
from example_project.shop.models import Product
from example_project.tally import Tally

# How long a shop that is sold out stays so (seconds).
REOPENS_AFTER = 1.0


@contextmanager
def restocking(sale: int, tally: Tally) -> Iterator[None]:
    """Restock a product, by an increment, whenever it has been sold out for a while."""
    stop = threading.Event()
    thread = threading.Thread(target=_guarded, args=(sale, tally, stop), name="keeper")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _guarded(sale: int, tally: Tally, stop: threading.Event) -> None:
    try:
        _keep(sale, tally, stop)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        tally.fail(f"the keeper of the shop broke off: {error!r}")
    finally:
        connections.close_all()


def _keep(sale: int, tally: Tally, stop: threading.Event) -> None:
    while not stop.wait(0.2):
        product = Product.objects.get(pk=sale)
        if product.stock == 0 and not stop.wait(REOPENS_AFTER):
            product.stock.increment(SALE_UNITS)
            tally.add(f"restocked:{sale}", SALE_UNITS)
