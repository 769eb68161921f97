"""The two models as what a walk needs: regions, and stock over regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.protocol import escrow, region_plans, regions
from tests.protocol import escrow_exchange as exchange
from tests.protocol import escrow_world as stock
from tests.protocol.walk import Moves, Offer, Walk, Walked

LENGTH = 400


@dataclass(frozen=True)
class Counting:
    """Regions that count; one of them is restored, again and again."""

    plan: region_plans.Plan

    @property
    def count(self) -> int:
        return self.plan.regions

    def start(self) -> regions.World:
        return regions.start(self.plan)

    def choices(
        self, world: regions.World, at: int, other: int
    ) -> list[tuple[int, Moves[regions.World]]]:
        plan, again = self.plan, world._replace(backup=None)
        return [
            (16, regions.counts(plan, world)),
            (10, regions.lands(plan, world)),
            (14, regions.publish(plan, world, at)),
            (24, _copies(plan, world, at, other)),
            (6, regions.greet(plan, world)),
            (6, regions.fence(plan, world)),
            (3, regions.restores(plan, again)),
            (2, regions.restores(plan, world)),
        ]

    def pages(self, world: regions.World, at: int, other: int) -> Iterator[regions.Page]:
        return regions.pages(world, at, other)

    def apply(self, world: regions.World, at: int, page: regions.Page) -> regions.World:
        return regions.apply(self.plan, world, at, page)

    def life(self, world: regions.World, at: int) -> int:
        return world.life_of(at)

    def upkeep(self) -> list[Offer[regions.World]]:
        plan, offers = self.plan, list[Offer[regions.World]]()
        for at in range(plan.regions):
            offers.append(_publishes(plan, at))
            offers += [_pulls(plan, at, other) for other in range(plan.regions) if other != at]
        return [
            lambda world: regions.fence(plan, world),
            lambda world: regions.greet(plan, world),
            lambda world: regions.lands(plan, world),
            *offers,
        ]

    def fault(self, world: regions.World, *, quiet: bool) -> str:
        if quiet:
            return regions.unsettled(self.plan, world)
        most = max(max(regions.value(self.plan, region)) for region in world.regions)
        return f"one {region_plans.TWICE}" if most > 1 else ""


def _copies(
    plan: region_plans.Plan, world: regions.World, at: int, other: int
) -> Moves[regions.World]:
    for page in regions.pages(world, at, other):
        if (after := regions.apply(plan, world, at, page)) != world:
            yield f"{at} pulls of {other}", after


def _publishes(plan: region_plans.Plan, at: int) -> Offer[regions.World]:
    return lambda world: regions.publish(plan, world, at)


def _pulls(plan: region_plans.Plan, at: int, other: int) -> Offer[regions.World]:
    return lambda world: _copies(plan, world, at, other)


@dataclass(frozen=True)
class Selling:
    """Regions that sell; any of them is restored."""

    plan: stock.Plan

    @property
    def count(self) -> int:
        return len(self.plan.stock)

    def start(self) -> stock.World:
        return stock.start(self.plan)

    def choices(
        self, world: stock.World, at: int, other: int
    ) -> list[tuple[int, Moves[stock.World]]]:
        plan, one = self.plan, replace(self.plan, restorable=(at,))
        again = world._replace(backups=stock.swapped(world.backups, at, None))
        return [
            (4, escrow.sell(plan, world, at)),
            (10, escrow.transfer(plan, world, at, other)),
            (12, escrow.receive(plan, world, at, other)),
            (12, exchange.publish(plan, world, at)),
            (16, exchange.pull(plan, world, at, other)),
            (4, exchange.greet(world, at)),
            (8, exchange.fence(plan, world, at)),
            (3, exchange.restores(one, again)),
            (2, exchange.restores(one, world)),
            (1, exchange.restarts(plan, world)),
            (3, escrow.decide(plan, world, at)),
            (5, escrow.go_on(world)),
        ]

    def pages(self, world: stock.World, at: int, other: int) -> Iterator[stock.Page]:
        opened = world.phases[at] == stock.OPEN
        return exchange.pages(world, at, other) if opened else iter(())

    def apply(self, world: stock.World, at: int, page: stock.Page) -> stock.World:
        return exchange.apply(self.plan, world, at, page)

    def life(self, world: stock.World, at: int) -> int:
        return world.lives[at]

    def upkeep(self) -> list[Offer[stock.World]]:
        offers: list[Offer[stock.World]] = [escrow.go_on]
        for at in range(self.count):
            offers += _alone(self.plan, at)
            for other in range(self.count):
                offers += _with(self.plan, at, other) if other != at else []
        return offers

    def fault(self, world: stock.World, *, quiet: bool) -> str:
        return escrow.fault_of(self.plan, world, quiet=quiet)


def _alone(plan: stock.Plan, at: int) -> list[Offer[stock.World]]:
    return [
        lambda world: exchange.fence(plan, world, at),
        lambda world: exchange.greet(world, at),
        lambda world: exchange.publish(plan, world, at),
    ]


def _with(plan: stock.Plan, at: int, other: int) -> list[Offer[stock.World]]:
    return [
        lambda world: exchange.pull(plan, world, at, other),
        lambda world: escrow.receive(plan, world, at, other),
    ]


def counting(seed: int, flaw: region_plans.Flaw | None = None) -> Walked:
    """A walk of three or four regions, some counters and many increments."""
    chance = Random(seed)
    count, increments = chance.choice((3, 4)), 40
    plan = region_plans.Plan(
        "by chance",
        "".join(chance.choices("abc", k=increments)),
        "".join(str(chance.choice((0, 0, *range(count)))) for _ in range(increments)),
        regions=count,
        restores=chance.randrange(5),
        cached=chance.random() < 0.5,
        flaw=flaw,
    )
    return Walk(Counting(plan), seed).run(LENGTH)


def selling(seed: int, flaw: stock.Flaw | None = None) -> Walked:
    """A walk of two to four regions, and up to six restores of any of them."""
    chance = Random(seed)
    count = chance.choice((2, 3, 3, 4))
    plan = stock.Plan(
        "by chance",
        tuple(chance.choice((0, 1, 2, 9)) for _ in range(count)),
        transfers=40,
        restores=chance.choice((0, 1, 2, 6)),
        restorable=tuple(range(count)),
        amounts=(1, 2),
        read=chance.random() < 0.5,
        decisions=6,
        restarts=chance.randrange(3),
        flaw=flaw,
    )
    return Walk(Selling(plan), seed).run(LENGTH)
