"""Compares the stock with what was sold, of the shelf and from baskets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Sum

from django_counters.contrib.holds.holding import Stock
from example_project.shop.models import Order, Product
from example_project.verify import Snapshot

_NOTHING = Stock(0, 0, 0)


@dataclass(frozen=True)
class Sale:
    """One product: its stock, and what buyers were told.

    Attributes:
        before: what was left and held.
        left: what is available.
        held: what is in baskets.
        ordered: the sum of the quantities of all orders made meanwhile.
        answered: what the load saw answered with 200, and what visitors ordered.
        from_baskets: how many of these the holds say were sold.
        told: how many of these were sold from a basket, as the answers said.
    """

    product: str
    before: int
    restocked: int
    left: int
    held: int
    ordered: int
    answered: int
    from_baskets: int = 0
    told: int = 0

    @property
    def sold(self) -> int:
        """What is missing in the stock."""
        return self.before + self.restocked - self.left - self.held

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of it, in the order in which it is calculated."""
        stock = self.before, self.restocked, self.left, self.held, self.sold
        return *stock, self.ordered, self.answered, self.from_baskets, self.told

    @property
    def ok(self) -> bool:
        """Whether available + held + sold is the stock, and all agree on what is sold."""
        is_sold = self.sold == self.ordered == self.answered and self.from_baskets == self.told
        return is_sold and self.left >= 0


def sales(before: Snapshot, after: Snapshot, sent: Counter[str], run: str) -> list[Sale]:
    """Every product, with what was sold of it since ``before``."""
    return list(_sales(before, after, sent, run))


def _sales(before: Snapshot, after: Snapshot, sent: Counter[str], run: str) -> Iterator[Sale]:
    orders = Order.objects.filter(pk__gt=before.last_order)
    ordered = _quantities(orders)
    by_visitors = _quantities(orders.exclude(buyer__startswith=f"{run}-"))
    for product in Product.objects.order_by("pk"):
        key = product.pk
        start, end = before.stock.get(key, _NOTHING), after.stock[key]
        yield Sale(
            product=product.name,
            before=start.available + start.held,
            restocked=sent[f"restocked:{key}"],
            left=end.available,
            held=end.held,
            ordered=ordered.get(key, 0),
            answered=sent[f"sold:{key}"] + by_visitors.get(key, 0),
            from_baskets=end.sold - start.sold,
            told=sent[f"from baskets:{key}"],
        )


def baskets(before: Snapshot, after: Snapshot, sent: Counter[str]) -> dict[str, int]:
    """What became of the baskets of the load, and how many baskets were over meanwhile."""
    found = {
        name: sent[f"baskets {name}"] for name in ("filled", "bought", "given back", "forgotten")
    }
    return {**found, "expired": after.expired - before.expired}


def _quantities(orders: object) -> dict[int, int]:
    rows = orders.values_list("product").annotate(Sum("quantity")).order_by()  # type: ignore[attr-defined]
    return dict(rows)
