"""Fifty buyers want one of twenty items at once: one stock with a floor, and one plain column.

Each buyer is a request of its own, by HTTP, as a browser would send it.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from django.urls import reverse

from django_counters import InsufficientCount
from example_project.browser import Browser, Site
from example_project.shop.models import HotItem
from example_project.tally import Tally

UNITS, BUYERS = 20, 50
NAIVE, OURS = "naive", "ours"
PATIENCE = 30.0


class AlreadyOpen(Exception):
    """The buyers of the last one are not all answered."""


@dataclass(frozen=True)
class Sold:
    """What became of the buyers of one stock: sold + refused + waiting = all of them."""

    sold: int
    refused: int
    failed: int

    @property
    def waiting(self) -> int:
        """Those who are not answered yet."""
        return BUYERS - self.sold - self.refused - self.failed

    @property
    def oversold(self) -> int:
        """How many were sold that there never were."""
        return max(0, self.sold - UNITS)


@dataclass
class Rush:
    """All of them, and what they were answered."""

    item: int
    answers: Tally = field(default_factory=Tally)

    def outcome(self, way: str) -> Sold:
        """What became of the buyers at this moment."""
        sums = self.answers.sums()
        return Sold(sums[f"{way} sold"], sums[f"{way} refused"], sums["failures"])

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        """What is shown of both."""
        naive, ours = self.outcome(NAIVE), self.outcome(OURS)
        names = {"sold": "Sold", "refused": "+ refused", "waiting": "+ not answered yet"}
        names |= {"failed": "+ not answered at all"} if naive.failed else {}
        shown = [(text, getattr(naive, of), getattr(ours, of)) for of, text in names.items()]
        return [*shown, ("= buyers", BUYERS, BUYERS)]

    @property
    def line(self) -> str:
        """The result in a few words."""
        naive, ours = self.outcome(NAIVE), self.outcome(OURS)
        sold = f"naive: {naive.sold} sold of {UNITS} · ours: {ours.sold} sold of {UNITS}"
        return f"{sold}. Oversold: {naive.oversold} and {ours.oversold}."

    @property
    def is_over(self) -> bool:
        """Whether all are answered."""
        return not self.outcome(OURS).waiting

    def send(self, site: Site) -> None:
        """Let all come at the same time, and wait for their answers."""
        door = threading.Barrier(BUYERS)
        with ThreadPoolExecutor(BUYERS) as buyers:
            for _ in range(BUYERS):
                buyers.submit(self._come, site, door)

    def _come(self, site: Site, door: threading.Barrier) -> None:
        browser, path = Browser(site, Tally()), reverse("rush-buy", args=[self.item])
        try:
            browser.get(reverse("rush"))
            door.wait(PATIENCE)
            answer = browser.send(path, {})
            for way, has_got_it in json.loads(answer.body).items():
                self.answers.add(f"{way} {'sold' if has_got_it else 'refused'}")
        except (threading.BrokenBarrierError, ValueError):
            self.answers.fail("a buyer was not answered")
        finally:
            browser.close()


_last: list[Rush] = []
_lock = threading.Lock()


def last() -> Rush | None:
    """The one that the pages show."""
    return _last[-1] if _last else None


def open_to_all(site: Site) -> Rush:
    """Put a new item on sale, and let the buyers come; returns at once.

    Raises:
        AlreadyOpen: others are still buying.
    """
    with _lock:
        if _last and not _last[-1].is_over:
            raise AlreadyOpen
        item = HotItem.objects.create(stock=UNITS, naive_stock=UNITS)
        rush = Rush(item.pk)
        _last[:] = [rush]
    HotItem.objects.exclude(pk=item.pk).delete()
    threading.Thread(target=rush.send, args=(site,), name="rush", daemon=True).start()
    return rush


def buy_naively(pk: int) -> bool:
    """Look whether there is one, and write one less. Two who look at once get the same one."""
    item = HotItem.objects.get(pk=pk)
    if item.naive_stock < 1:
        return False
    item.naive_stock = item.naive_stock - 1
    item.save()
    return True


def buy_exactly(pk: int) -> bool:
    """Take one, if there is one."""
    try:
        HotItem.objects.get(pk=pk).stock.decrement()
    except InsufficientCount:
        return False
    return True
