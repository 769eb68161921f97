"""The keeper of the shop, who opens the sale again."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from example_project.background import meanwhile
from example_project.seeds import SALE_UNITS
from example_project.shop.models import Product
from example_project.tally import Tally

# How long a shop that is sold out stays so (seconds).
REOPENS_AFTER = 1.0


def restocking(sale: int, tally: Tally) -> AbstractContextManager[None]:
    """Restock a product, by an increment, whenever it has been sold out for a while."""

    def keep(stop: threading.Event) -> None:
        while not stop.wait(0.2):
            product = Product.objects.get(pk=sale)
            if product.stock == 0 and not stop.wait(REOPENS_AFTER):
                product.stock.increment(SALE_UNITS)
                tally.add(f"restocked:{sale}", SALE_UNITS)

    return meanwhile(keep, "the keeper of the shop", tally)
