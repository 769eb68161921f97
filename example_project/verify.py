"""Compares every counter with what was sent, and the stock with what was sold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from django.db.models import Count as DbCount
from django.db.models import Max, QuerySet

from django_counters.contrib import holds, series, uniques
from django_counters.contrib.holds.holding import Stock
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.likes.models import CounterActor
from django_counters.contrib.uniques import Distinct
from django_counters.models import CounterIncident
from django_counters.upkeep import verify
from example_project.blog.countries import cells
from example_project.blog.models import Post
from example_project.blog.top import monday_of, weeks
from example_project.countries import Cell, cell_of
from example_project.named import named_counters
from example_project.people import visitors_of
from example_project.shop.models import Order, Product
from example_project.tally import LIKES, STOCK, UNKNOWN, likes_of, unknown

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
    stock: Mapping[int, Stock]
    last_order: int
    expired: int = 0
    days: Mapping[Cell, int] = field(default_factory=dict)
    weeks: Mapping[tuple[int, str], int] = field(default_factory=dict)
    visitors: Mapping[str, Distinct] = field(default_factory=dict)
    people: Mapping[str, int] = field(default_factory=dict)


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


def snapshot() -> Snapshot:
    """Read all counters of the example, with what waits in Redis and for its rollup.

    Which named counters there are, only the database knows: those have to have landed.
    """
    posts = Post.objects.with_counts("views", "likes")
    visits = named_counters("visits")
    return Snapshot(
        counts={
            **{f"blog.Post.views:{post.pk}": int(post.views) for post in posts},
            **{f"blog.Post.likes:{post.pk}": int(post.likes) for post in posts},
            **named_counters("downloads", "orders"),
            **visits,
        },
        stock={product.pk: holds.stocktake(product.stock) for product in Product.objects.all()},
        last_order=Order.objects.aggregate(last=Max("pk"))["last"] or 0,
        expired=baskets().filter(state=CounterHold.State.EXPIRED).count(),
        days=cells(Post.objects.all(), DAYS),
        weeks=weeks(),
        visitors={key: uniques.count(series.of(key).per("day").last(DAYS)) for key in visits},
        people=people(),
    )


def baskets() -> QuerySet[CounterHold]:
    """The rows of all baskets."""
    return CounterHold._base_manager.filter(field=STOCK)


def people() -> dict[str, int]:
    """How many rows there are of people who like a post, by the counter of its likes."""
    rows = CounterActor._base_manager.filter(measure__name=LIKES).values("key")
    found = rows.annotate(people=DbCount("*")).order_by()
    return {likes_of(row["key"]): row["people"] for row in found}


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


def by_week(before: Snapshot, after: Snapshot, expected: Counter[str]) -> list[Count]:
    """The views by which posts are ranked, in each week, with what visitors sent.

    Nothing where the database is of an earlier version, and ranks are not known yet.
    """
    sent: Counter[tuple[int, str]] = Counter()
    unsure: Counter[tuple[int, str]] = Counter()
    for found in {cell for cell in map(cell_of, expected) if cell}:
        where = found.post, monday_of(date.fromisoformat(found.day)).isoformat()
        sent[where] += expected[found.name()]
        unsure[where] += expected[found.name(known=False)]
    return [
        Count(
            f"rank of post {where[0]} in the week of {where[1]}",
            before.weeks.get(where, 0),
            after.weeks[where],
            sent[where],
            unsure[where],
        )
        for where in sorted(after.weeks)
    ]


def visitors(
    before: Snapshot, after: Snapshot, sent: Counter[str], more: Counter[str]
) -> list[Count]:
    """The different visitors of each page, with those whom the load and others were.

    Who is not of the load may have been there before the run. Pages with more visitors than are
    known exactly are left out.

    Args:
        sent: what the load has done, with visitors who are new in this run.
        more: what others have done.
    """
    found = []
    for key, number in sorted(after.visitors.items()):
        if number.is_exact:
            expected, doubtful = visitors_of(key, sent)
            perhaps = doubtful + sum(visitors_of(key, more))
            start = int(before.visitors.get(key, 0))
            found.append(Count(f"visitors of {key}", start, int(number), expected, perhaps))
    return found


def by_person(before: Snapshot, after: Snapshot, expected: Counter[str]) -> list[Count]:
    """The rows of people who like each post, with what visitors sent."""
    return [
        Count(
            f"people: {name}",
            before.people.get(name, 0),
            after.people.get(name, 0),
            expected[name],
            expected[unknown(name)],
        )
        for name in sorted({*before.people, *after.people, *expected})
        if name.startswith(KINDS["likes"])
    ]


def drifts() -> list[str]:
    """Where a total of the ledger is not what its entries say, or likes are not their people."""
    return [
        f"{drift.key}: {drift.actual} instead of {drift.expected}"
        for namespace in ("orders", LIKES)
        for drift in verify(namespace=namespace).drifts
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
