"""Those who count: each increment is sent to Redis, or appended to the ledger.

Redis may be away for one caller at any time, and then he spills. That nothing reaches Redis for a
while is no step of its own: it is one of the orders of the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol import scripts
from tests.protocol.amounts import one, present, spelled
from tests.protocol.plan import Flaw, Plan
from tests.protocol.spending import spend, spills, times, tries
from tests.protocol.state import Step, World


def callers(plan: Plan, world: World) -> Iterator[Step]:
    for increment in range(min(world.begun + 1, plan.increments)):
        if plan.has_token(increment):
            yield from _add_once(plan, world, increment)
            yield from _spill(plan, world, increment)
        elif increment == world.begun:
            yield from _add(plan, world, increment)
            yield from _spill(plan, world, increment)
    yield from _forget(plan, world)


def _begin(world: World, increment: int, *, acked: bool = True) -> World:
    begun = max(world.begun, increment + 1)
    gained = one(increment) if acked else 0
    return world._replace(begun=begun, acked=world.acked | gained)


def _add(plan: Plan, world: World, increment: int) -> Iterator[Step]:
    after = scripts.add(plan, world, increment)
    if after is not None:
        yield f"add {increment}", _begin(after, increment)


def _add_once(plan: Plan, world: World, increment: int) -> Iterator[Step]:
    """An answer that is lost leaves the caller as he was: he can send again, or spill."""
    if times(world.spent, tries(increment)) >= plan.tries:
        return
    after = scripts.add_once(plan, world, increment)
    if after is None:
        return
    if after.redis.amounts != world.redis.amounts:
        after = _copied(world, after, increment)
    after = after._replace(spent=spend(after.spent, tries(increment)))
    yield f"add_once {increment}", _begin(after, increment)
    if not world.acked & one(increment):
        yield f"add_once {increment}, answer lost", _begin(after, increment, acked=False)


def _copied(before: World, after: World, increment: int) -> World:
    """The ghost notes that this increment is not lost (any more), and whether it is there twice."""
    token, reader = one(increment), after.reader
    # A read that began before the loss need not have what was sent again after it.
    reader = reader._replace(required=reader.required & ~(token & after.lost))
    return after._replace(
        reader=reader,
        lost=after.lost & ~token,
        unreported=after.unreported & ~token,
        resent=after.resent | _copies(before) & token,
    )


def _copies(world: World) -> int:
    """The set of increments that are in the database, in Redis, or in somebody's memory."""
    copies = world.database.counted | world.redis.held
    for _, amounts in world.reader.told:
        copies |= amounts
    for flusher in world.flushers:
        for _, copy in flusher.copies:
            copies |= copy.amounts
    return present(copies)


def _spill(plan: Plan, world: World, increment: int) -> Iterator[Step]:
    """Append to the ledger, with the token if there is one; the base does not know of it yet."""
    new = one(increment)
    if not plan.spill or times(world.spent, spills(increment)):
        return
    named = plan.has_token(increment) and plan.flaw is not Flaw.SPILL_WITHOUT_TOKEN
    database = world.database
    ledger, cells = database.ledger, database.cells
    if not (named and present(ledger) & new):
        ledger += new
        cells += 0 if plan.flaw is Flaw.SPILL_WITHOUT_CELL else new
    after = _copied(world, world, increment)
    owing = world.owing | (new if plan.cached else 0)
    members = database.members | new
    database = database._replace(ledger=ledger, cells=cells, members=members)
    spent = spend(world.spent, spills(increment))
    after = after._replace(database=database, owing=owing, spent=spent)
    yield f"spill {increment}", _begin(after, increment)


def adjusting(plan: Plan, world: World) -> Iterator[Step]:
    new = plan.adjustment
    if world.acked & new:
        return
    database = world.database._replace(total=world.database.total + new)
    after = world._replace(database=database, acked=world.acked | new)
    yield "adjust", after._replace(owing=world.owing | (new if plan.cached else 0))


def deleting(plan: Plan, world: World) -> Iterator[Step]:
    """Delete a record with its cells and sets; then tell Redis, soon or never."""
    counter, database = plan.masks[0], world.database
    if not database.deleted:
        left = database._replace(
            total=database.total & ~counter,
            cells=database.cells & ~counter,
            members=database.members & ~counter,
            deleted=counter,
        )
        gone = present(database.total) & counter
        yield "delete", world._replace(database=left, lost=world.lost | gone)
    elif waits := present(world.redis.amounts) & counter:
        after = scripts.discard(plan, world, counter)
        yield "discard", after._replace(lost=world.lost | waits)
    elif world.redis.discarding:
        yield "discard cells", scripts.discard_cells(plan, world)


def _forget(plan: Plan, world: World) -> Iterator[Step]:
    """Tell Redis of what was changed in the database."""
    for counter in plan.masks:
        owed = world.owing & counter
        if owed:
            adjusted = owed & plan.adjustment
            skipped = Flaw.ADJUST_FORGETS_NOTHING if adjusted else Flaw.SPILL_FORGETS_NOTHING
            after = world if plan.flaw is skipped else scripts.forget(plan, world, counter)
            yield f"forget {spelled(owed)}", after._replace(owing=world.owing & ~owed)
