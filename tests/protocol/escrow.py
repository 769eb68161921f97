"""Stock over regions: no more is sold than there is, whatever is restored.

Each region sells by rights of its own. To transfer some is to lower them and to raise what was
sent, in one transaction. Who receives adds what was sent to his incarnation and is not received.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.escrow_exchange import exchange, others, restarts, restores
from tests.protocol.escrow_world import (
    ASTRAY,
    BELOW,
    DISAGREE,
    MISREAD,
    OPEN,
    OVERSOLD,
    RIGHTS,
    STUCK,
    Flaw,
    Key,
    Plan,
    Region,
    Steps,
    World,
    received,
    sent,
    start,
)
from tests.protocol.explore import without_gc


def steps(plan: Plan, world: World) -> Steps:
    """What people do, and what breaks."""
    for at in range(len(world.regions)):
        yield from sell(plan, world, at)
        for to in others(world, at):
            yield from transfer(plan, world, at, to)
        yield from decide(plan, world, at)
    yield from restores(plan, world)
    yield from restarts(plan, world)


def upkeep(plan: Plan, world: World) -> Steps:
    """What goes on until nothing is new."""
    yield from exchange(plan, world)
    for at in range(len(world.regions)):
        for of in others(world, at):
            yield from receive(plan, world, at, of)
    yield from go_on(world)


def sell(plan: Plan, world: World, at: int) -> Steps:
    """Lower the rights, unless they would be below 0: one statement."""
    region = world.regions[at]
    if world.phases[at] != OPEN and not plan.lacks(Flaw.SOLD_EARLY):
        return
    if region.has(RIGHTS) >= 1 or plan.lacks(Flaw.NO_FLOOR):
        after = world.put(at, region.add((RIGHTS, -1)))
        yield f"{at} sells", after._replace(sold=world.sold + 1)


def transfer(plan: Plan, world: World, at: int, to: int) -> Steps:
    """Lower the rights and raise what was sent to the latest incarnation that is known."""
    early = world.phases[at] != OPEN and not plan.lacks(Flaw.SENT_EARLY)
    if early or world.transfers == plan.transfers:
        return
    region = world.regions[at]
    latest = max([n for (who, n), _ in region.marks if who == to], default=1)
    key = sent(to, latest if plan.addressed else 0)
    for amount in plan.amounts:
        if region.has(RIGHTS) < amount:
            continue
        after = world._replace(transfers=world.transfers + 1)
        if plan.lacks(Flaw.TWO_TRANSACTIONS):
            after = after._replace(debts=(*world.debts, (at, amount)))
            yield f"{at} sends {amount} to {to}", after.put(at, region.add((key, amount)))
        else:
            paid = region.add((RIGHTS, -amount), (key, amount))
            yield f"{at} sends {amount} to {to}", after.put(at, paid)


def receive(plan: Plan, world: World, at: int, of: int) -> Steps:
    """Add what was sent and is not received. Only one at a time does it, and no fence meanwhile."""
    region = world.regions[at]
    number = region.incarnation if plan.addressed else 0
    key = received(number, of)
    due = _sent(plan, region, of, sent(at, number)) - region.has(key)
    if due <= 0 or (world.dues and not plan.lacks(Flaw.NO_LOCK)):
        return
    yield f"{at} receives {due} of {of}", world.put(at, region.add((RIGHTS, due), (key, due)))
    if plan.lacks(Flaw.NO_LOCK, Flaw.FENCE_UNLOCKED) and not world.dues:
        yield f"{at} is to receive {due} of {of}", world._replace(dues=((at, key, due),))


def _sent(plan: Plan, region: Region, of: int, key: Key) -> int:
    """How much another region has sent, over all its incarnations."""
    if not plan.lacks(Flaw.LAST_INCARNATION):
        return region.sum(of, key)
    found = [e.value for (who, _, one), e in region.entries if (who, one) == (of, key)]
    return found[-1] if found else 0


def go_on(world: World) -> Steps:
    """Those who stand still between two transactions go on."""
    for at, key, due in world.dues:
        region = world.regions[at].add((RIGHTS, due), (key, due))
        yield f"{at} receives {due} after all", world.put(at, region)._replace(dues=())
    for number, (at, amount) in enumerate(world.debts):
        rest = (*world.debts[:number], *world.debts[number + 1 :])
        if world.regions[at].has(RIGHTS) >= amount:
            paid = world.regions[at].add((RIGHTS, -amount))
            yield f"{at} pays {amount}", world.put(at, paid)._replace(debts=rest)


def decide(plan: Plan, world: World, at: int) -> Steps:
    """Somebody who knows all gives a right back to a region that was restored."""
    region = world.regions[at]
    if world.decisions < plan.decisions and region.incarnation > 1 and set(world.phases) == {OPEN}:
        rights = sum(one.has(RIGHTS) for one in world.regions)
        if world.sold + rights + in_flight(plan, world) < sum(plan.stock):
            after = world.put(at, region.add((RIGHTS, 1)))
            yield f"{at} is given 1 back", after._replace(decisions=world.decisions + 1)


def in_flight(plan: Plan, world: World) -> int:
    """How much may still be received."""
    total = 0
    for to, region in enumerate(world.regions):
        number = region.incarnation if plan.addressed else 0
        for at in others(world, to):
            key, there = sent(to, number), world.regions[at]
            most = max(region.sum(at, key), there.sum(at, key) + there.has(key))
            total += max(0, most - region.has(received(number, at)))
    return total


def fault_of(plan: Plan, world: World, *, quiet: bool) -> str:
    """What is wrong with a state. ``quiet``: whether all is exchanged."""
    if world.sold > sum(plan.stock):
        return f"{world.sold} {OVERSOLD} {sum(plan.stock)}"
    rights = [region.has(RIGHTS) for region in world.regions]
    if min(rights) < 0:
        return f"{rights} {BELOW}"
    return _unsettled(plan, world) if quiet else ""


def _unsettled(plan: Plan, world: World) -> str:
    flight = in_flight(plan, world)
    rights = sum(region.has(RIGHTS) for region in world.regions)
    if flight:
        return f"{flight} {STUCK}"
    limbo = world.restores or world.sold + rights == sum(plan.stock)
    if not limbo:
        return f"{world.sold} sold, {rights} left: they {ASTRAY}"
    for at, region in enumerate(world.regions):
        for key in {key for key, _ in region.local if plan.read or key[0] == "sent"}:
            own = region.has(key) + region.sum(at, key)
            found = [own, *(world.regions[peer].sum(at, key) for peer in others(world, at))]
            if len(set(found)) > 1:
                return f"they {DISAGREE} on {key} of {at}: {found}"
            if key == RIGHTS and own != region.has(RIGHTS):
                return f"{at} {MISREAD}: {own}"
    return ""


class Explored(NamedTuple):
    """How many states there are; the first fault, and the shortest way to it."""

    states: int
    fault: str = ""
    trace: tuple[str, ...] = ()


def explore(plan: Plan, most: int = 400_000) -> Explored:
    """Every state, the nearest first, until one is wrong."""
    with without_gc():
        return _explore(plan, most)


def _explore(plan: Plan, most: int) -> Explored:
    first = start(plan)
    origins: dict[World, tuple[World, str] | None] = {first: None}
    todo = [first]
    for world in todo:
        moves = list(upkeep(plan, world))
        if fault := fault_of(plan, world, quiet=not moves):
            return Explored(len(origins), fault, _trace(origins, world))
        for label, after in (*moves, *steps(plan, world)):
            if after not in origins:
                origins[after] = (world, label)
                todo.append(after)
        if len(origins) > most:
            return Explored(len(origins), "too many states")
    return Explored(len(origins))


def _trace(origins: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels, at = [], origins[world]
    while at is not None:
        labels.append(at[1])
        at = origins[at[0]]
    return tuple(reversed(labels))


PLANS = (
    Plan("two", (2, 0), 2, amounts=(1, 2)),
    Plan("three", (1, 0, 0), 2),
    Plan("a restore", (1, 0), 2, restores=1),
    Plan("a restore, all is read", (1, 0), 1, restores=1, read=True),
    Plan("a restart", (2, 0), 2, restores=1, restorable=(1,), restarts=1),
    Plan("two restores", (1, 0), 1, restores=2),
    Plan("given back", (2, 0), 2, restores=1, restorable=(0,), decisions=1),
    Plan("three, a restore", (1, 0, 0), 1, restores=1, restorable=(1,)),
)
LARGE = (
    Plan("two restores, two transfers", (1, 0), 2, restores=2),
    Plan("two restores, late pages", (1, 0), 1, restores=2, hands=True),
    Plan("given back, any restored", (2, 0), 2, restores=1, decisions=1),
    Plan("three, the sender restored", (1, 0, 0), 1, restores=1, restorable=(0,)),
)
