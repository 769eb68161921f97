"""Compares every counter with what was sent, and the stock with what was sold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from django.db.models import Max, Sum

from django_counters.models import CounterIncident
from django_counters.upkeep.verify import verify
from example_project.blog.countries import cells
from example_project.blog.models import Post
from example_project.countries import Cell, cell_of
from example_project.named import named_counters
from example_project.shop.models import Order, Product
from example_project.tally import UNKNOWN, unknown

# More than visitors may look back.
DAYS = 14
HISTORY = CounterIncident.Kind.HISTORY.value
KINDS = {
    "views": "blog.Post.views:",
    "likes": "blog.Post.likes:",
    "downloads": "downloads:",
    "visits": "visits:",
    "orders": "orders:",
}


@dataclass(frozen=True)
class Snapshot:
    """The numbers of the database at one moment, at which nobody writes."""

    counts: Mapping[str, int]
    stock: Mapping[int, int]
    last_order: int
    days: Mapping[Cell, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Count:
    """One counter: what it was, what it is, and by how much it should have changed.

    ``unknown``: changes of which nobody knows whether they were made; each may be counted or not.
    """

    counter: str
    before: int
    after: int
    expected: int
    unknown: int = 0

    @property
    def counted(self) -> int:
        """By how much it changed."""
        return self.after - self.before

    @property
    def ok(self) -> bool:
        """Whether that is what was sent."""
        return self.expected <= self.counted <= self.expected + self.unknown


@dataclass(frozen=True)
class Sale:
    """One product: its stock, and what buyers were told.

    Attributes:
        ordered: the sum of the quantities of all orders made meanwhile.
        answered: what the load saw answered with 200, and what visitors ordered.
    """

    product: str
    before: int
    restocked: int
    left: int
    ordered: int
    answered: int

    @property
    def sold(self) -> int:
        """What is missing in the stock."""
        return self.before + self.restocked - self.left

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of it, in the order in which it is calculated."""
        return self.before, self.restocked, self.left, self.sold, self.ordered, self.answered

    @property
    def ok(self) -> bool:
        """Whether all three agree, and the stock is not below zero."""
        return self.sold == self.ordered == self.answered and self.left >= 0


def snapshot() -> Snapshot:
    """Read all counters of the example, with what waits in Redis and for its rollup.

    Which named counters there are, only the database knows: those have to have landed.
    """
    posts = Post.objects.with_counts("views", "likes")
    return Snapshot(
        counts={
            **{f"blog.Post.views:{post.pk}": int(post.views) for post in posts},
            **{f"blog.Post.likes:{post.pk}": int(post.likes) for post in posts},
            **named_counters("downloads", "visits", "orders"),
        },
        stock=dict(Product.objects.values_list("pk", "stock")),
        last_order=Order.objects.aggregate(last=Max("pk"))["last"] or 0,
        days=cells(Post.objects.all(), DAYS),
    )


def last_incident() -> int:
    """The number of the last incident that the app has recorded; zero if there is none."""
    found: int | None = CounterIncident.objects.aggregate(last=Max("pk"))["last"]
    return found or 0


def incidents(after: int) -> list[str]:
    """What the app has recorded since."""
    found = CounterIncident.objects.filter(pk__gt=after).order_by("pk")
    return [str(incident) for incident in found]


def unexpected(incidents: Iterable[str], *, chaos: bool) -> list[str]:
    """Incidents that should not be: only a Redis that was killed goes on from what it wrote."""
    return [one for one in incidents if not (chaos and one.startswith(f"{HISTORY}:"))]


def counts(before: Snapshot, after: Snapshot, expected: Counter[str]) -> list[Count]:
    """Every counter there is or should be, with what was sent to it."""
    names = {name.removeprefix(f"{UNKNOWN}:") for name in expected}
    sent = {name for name in names if name.startswith(tuple(KINDS.values()))}
    return [
        Count(
            name,
            before.counts.get(name, 0),
            after.counts.get(name, 0),
            expected[name],
            expected[unknown(name)],
        )
        for name in sorted({*before.counts, *after.counts, *sent})
    ]


def by_country(before: Snapshot, after: Snapshot, expected: Counter[str]) -> list[Count]:
    """The views of every post from every country on every day, with what visitors sent.

    A day that was the first one before the run, and is not shown after it, is left out.
    """
    sent = {found for found in map(cell_of, expected) if found}
    first = min((cell.day for cell in after.days), default="")
    known = {cell for cell in before.days if cell.day >= first}
    return [
        Count(
            cell.name(),
            before.days.get(cell, 0),
            after.days.get(cell, 0),
            expected[cell.name()],
            expected[cell.name(known=False)],
        )
        for cell in sorted({*known, *after.days, *sent})
    ]


def drifts() -> list[str]:
    """Where the total of a counter of the ledger is not what its entries say."""
    return [
        f"{drift.key}: {drift.found} instead of {drift.expected}"
        for drift in verify(namespace="orders").drifts
    ]


def summed(counts: Iterable[Count]) -> dict[str, dict[str, int]]:
    """What was sent and what was counted, of each kind of counter."""
    rows = list(counts)
    return {
        kind: sums_of(row for row in rows if row.counter.startswith(prefix))
        for kind, prefix in KINDS.items()
    }


def sums_of(counts: Iterable[Count]) -> dict[str, int]:
    """What was sent and what was counted, of all of these."""
    rows = list(counts)
    return {
        "sent": sum(row.expected for row in rows),
        "counted": sum(row.counted for row in rows),
        "unknown": sum(row.unknown for row in rows),
    }


def sales(before: Snapshot, after: Snapshot, sent: Counter[str], run: str) -> list[Sale]:
    """Every product, with what was sold of it since ``before``."""
    return list(_sales(before, after, sent, run))


def _sales(before: Snapshot, after: Snapshot, sent: Counter[str], run: str) -> Iterator[Sale]:
    orders = Order.objects.filter(pk__gt=before.last_order)
    ordered = _quantities(orders)
    by_visitors = _quantities(orders.exclude(buyer__startswith=f"{run}-"))
    for product in Product.objects.order_by("pk"):
        key = product.pk
        yield Sale(
            product=product.name,
            before=before.stock.get(key, 0),
            restocked=sent[f"restocked:{key}"],
            left=after.stock[key],
            ordered=ordered.get(key, 0),
            answered=sent[f"sold:{key}"] + by_visitors.get(key, 0),
        )


def _quantities(orders: object) -> dict[int, int]:
    rows = orders.values_list("product").annotate(Sum("quantity")).order_by()  # type: ignore[attr-defined]
    return dict(rows)
