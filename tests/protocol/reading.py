"""A reader: look in Redis, then one statement of the database, then fill in what Redis missed.

What he computes from the two is an exact read. A cached read is one script, so it is no step: what
it would answer is checked in every state (see ``check``).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol import scripts
from tests.protocol.amounts import present, repeated, spelled
from tests.protocol.plan import Flaw, Plan
from tests.protocol.state import Database, Reader, Redis, Step, World


def reading(plan: Plan, world: World) -> Iterator[Step]:
    """The one next step of the reader."""
    at = world.reader.at
    if plan.turns:
        yield from turn_ends(plan, world)
    if plan.turns and at != "idle":
        yield "the reader dies", world._replace(reader=Reader())
    if at == "idle" and plan.flaw is Flaw.DATABASE_FIRST:
        yield _ask_first(world)
    elif at == "asked":
        yield _look_second(plan, world)
    elif at == "idle":
        yield _look(plan, world)
        if plan.turns:
            yield _look(plan, world, early=True)
    elif at == "looked":
        yield _ask(plan, world)
    else:
        yield _fill(plan, world)


def turn_ends(plan: Plan, world: World) -> Iterator[Step]:
    """It does after a while, whatever has become of who has it."""
    base = world.redis.base
    if base is not None and base.turn and plan.flaw is not Flaw.TURN_FOREVER:
        yield "the turn ends", scripts.with_base(world, base._replace(turn=False))


def _look(plan: Plan, world: World, *, early: bool = False) -> Step:
    """Which generations wait; and, with a cache, a lease for what is missing there.

    Early: for what is known, too. While it is another one's turn, for nothing.
    """
    redis = scripts.begin(plan, world).redis
    missing = sum(mask for mask in plan.masks if early or not mask & _known(redis))
    if not plan.cached or (redis.base is not None and redis.base.turn):
        missing = 0
    after = scripts.look(plan, world) if missing else scripts.begin(plan, world)
    base = after.redis.base
    reader = Reader(
        "looked",
        required=world.acked & ~world.lost,
        told=scripts.told_by(after.redis),
        missing=missing,
        lease=base.lease if base is not None and missing else 0,
    )
    return "look early" if early else "look", after._replace(reader=reader)


def _known(redis: Redis) -> int:
    return redis.base.known if redis.base is not None else 0


def _ask(plan: Plan, world: World) -> Step:
    """One statement: what is counted, and which of the told generations are in it."""
    reader, database = world.reader, world.database
    world = _judge(world, reader, database.counted, database.batches)
    if not reader.missing:
        return "ask", world._replace(reader=Reader())
    filled = sum(mask for mask in plan.masks if _may_fill(plan, reader, database, mask))
    base = database.total if plan.flaw is Flaw.BASE_WITHOUT_LEDGER else database.counted
    total = base & filled
    filling = Reader("filling", missing=filled, lease=reader.lease, total=total)
    return "ask", world._replace(reader=filling if filled else Reader())


def _may_fill(plan: Plan, reader: Reader, database: Database, mask: int) -> bool:
    """Not if what Redis told of as waiting was applied already: it would count twice."""
    applied = any(
        amounts & mask and database.batches >> number & 1 for number, amounts in reader.told
    )
    allowed = not applied or plan.flaw is Flaw.FILL_IGNORES_APPLIED
    return bool(reader.missing & mask) and allowed


def _fill(plan: Plan, world: World) -> Step:
    reader = world.reader
    after = scripts.fill(plan, world, reader.lease, reader.missing, reader.total)
    return "fill", after._replace(reader=Reader())


def _judge(world: World, reader: Reader, counted: int, batches: int) -> World:
    """Whether an exact read has each acknowledged, not lost increment exactly once."""
    value = counted + sum(amounts for number, amounts in reader.told if not batches >> number & 1)
    required = reader.required & ~world.lost & ~present(world.database.quarantined)
    missed, twice = required & ~present(value), repeated(value) & ~world.resent
    if missed:
        return world._replace(fault=f"an exact read misses {spelled(missed)}")
    if twice:
        return world._replace(fault=f"an exact read has {spelled(twice)} twice")
    return world


def _ask_first(world: World) -> Step:
    database = world.database
    required = world.acked & ~world.lost
    asked = Reader("asked", required, total=database.counted, batches=database.batches)
    return "ask", world._replace(reader=asked)


def _look_second(plan: Plan, world: World) -> Step:
    asked = world.reader
    world = scripts.begin(plan, world)
    looked = asked._replace(told=scripts.told_by(world.redis))
    world = _judge(world, looked, asked.total, asked.batches)
    return "look", world._replace(reader=Reader())
