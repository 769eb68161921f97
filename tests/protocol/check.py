"""What has to hold in every state."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol import scripts
from tests.protocol.amounts import present, repeated, spelled
from tests.protocol.canonical import canonical
from tests.protocol.flushing import flush
from tests.protocol.plan import Plan
from tests.protocol.reading import turn_ends
from tests.protocol.spending import FAULTS
from tests.protocol.state import Base, Flusher, Generation, Reader, Redis, World


def fault_of(plan: Plan, world: World, drained: set[World]) -> str:
    """What is wrong with a state; nothing: the empty text.

    Args:
        drained: States from which flushes are known to land everything; more are added.
    """
    return (
        world.fault
        or _database(world)
        or _kept(world)
        or (_cached(plan, world) if plan.cached else "")
        or (_left_to_nobody(plan, world) if plan.turns else "")
        or (_drained(plan, world, drained) if plan.drains else "")
        or _cells(plan, world)
        or _members(world)
    )


def _database(world: World) -> str:
    """Nothing counts twice in the database, ever."""
    database = world.database
    twice = repeated(database.total + database.ledger + database.quarantined)
    return f"{spelled(twice)} counted twice in the database" if twice else ""


def _kept(world: World) -> str:
    """What was acknowledged, and Redis has not lost, is applied, quarantined or waits in Redis."""
    database = world.database
    there = database.total + database.ledger + database.quarantined + waiting(world)
    missed = world.acked & ~world.lost & ~present(there)
    return f"{spelled(missed)} acknowledged and gone" if missed else ""


def _cells(plan: Plan, world: World) -> str:
    """Cells have what was counted, but for adjustments: in the database, and in what waits.

    Those of a counter that is being discarded wait until their own step.
    """
    database, going = world.database, world.redis.discarding
    landed = database.cells, database.counted & ~(7 * plan.adjustment)
    cells = sum((kept.cells & ~going) + kept.tokens for kept in _unlanded(world))
    waits = cells, waiting(world) & ~going
    for where, (cells, counted) in {"landed": landed, "waiting": waits}.items():
        if cells != counted:
            had, due = spelled(cells), spelled(counted)
            return f"{where} cells have {had}, which is not what is counted: {due}"
    return ""


def _members(world: World) -> str:
    """Who is counted is in a set, or in a generation that Redis keeps; nobody else is in a set."""
    database, redis = world.database, world.redis
    waits = 0
    for kept in (redis.open, *redis.ring):
        waits |= kept.members | kept.tokens if kept is not None else 0
    counted = present(database.cells)
    missed, strange = counted & ~(database.members | waits), database.members & ~counted
    unlanded = present(waiting(world)) & ~waits
    if missed or strange or unlanded:
        had, due = spelled(database.members | waits), spelled(counted)
        return f"sets and Redis have {had}, which is not who was counted: {due}"
    return ""


def waiting(world: World) -> int:
    """What Redis keeps that is not applied."""
    return sum(kept.amounts for kept in _unlanded(world))


def _unlanded(world: World) -> Iterator[Generation]:
    redis, batches = world.redis, world.database.batches
    for kept in (redis.open, *redis.ring):
        if kept is not None and not batches >> kept.number & 1:
            yield kept


def _cached(plan: Plan, world: World) -> str:
    """What a cached read would answer now.

    It has each increment that was acknowledged, and that Redis has not lost, exactly once; but it
    may miss what Redis was not told of yet (``owing``), and may have a token twice that was sent
    again when nothing in Redis knew it any more, or that was spilled after all.
    """
    redis = scripts.begin(plan, world).redis
    base, database = redis.base, world.database
    if base is None or not base.known:
        return ""
    value = base.total + sum(amounts & base.known for _, amounts in scripts.told_by(redis))
    required = world.acked & ~world.lost & ~world.owing & base.known
    missed = required & ~present(database.quarantined) & ~present(value)
    twice = repeated(value) & ~world.resent
    if missed:
        return f"a cached read misses {spelled(missed)}"
    if twice:
        return f"a cached read has {spelled(twice)} twice"
    return _settled(plan, world, redis, base, value)


def _settled(plan: Plan, world: World, redis: Redis, base: Base, value: int) -> str:
    """When nobody has to acknowledge or to forget, cached and exact reads are the same."""
    if world.unacked:
        return ""
    batches = world.database.batches
    pending = sum(a for number, a in scripts.told_by(redis) if not batches >> number & 1)
    settled = base.known & ~plan.counters_of(world.owing)
    exact = (world.database.counted + pending) & settled
    if exact != value & settled:
        return f"a cached read has {spelled(value)}, an exact one {spelled(exact)}"
    return ""


def _left_to_nobody(plan: Plan, world: World) -> str:
    """Whose turn it is asks, or the turn ends."""
    base = world.redis.base
    held = base is not None and base.turn and world.reader.at == "idle"
    return "nobody may ask" if held and not any(turn_ends(plan, world)) else ""


def _drained(plan: Plan, world: World, drained: set[World]) -> str:
    """When no further fault happens, flushes land everything."""
    if any(flusher.at != "idle" for flusher in world.flushers):
        return ""
    world = canonical(_as_a_flush_sees_it(world), world)
    passed = []
    for _ in range(2 * plan.ring + 2):
        if world in drained:
            break
        passed.append(world)
        world = canonical(flush(plan, world), world)
    else:
        left = waiting(world)
        wrong = world.fault or _database(world) or _kept(world)
        if left or wrong:
            return f"{spelled(left)} cannot be flushed" if left else f"after a drain: {wrong}"
    drained.update(passed)
    return ""


def _as_a_flush_sees_it(world: World) -> World:
    """Without what does not matter to it, nor to what is checked after it."""
    return world._replace(
        saved=None,
        flushers=(Flusher(),),
        reader=Reader(),
        begun=0,
        resent=0,
        owing=0,
        unacked=0,
        spent=world.spent & FAULTS,
    )
