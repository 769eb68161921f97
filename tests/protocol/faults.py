"""What goes wrong in Redis: it comes back older, or it loses keys."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.amounts import ONES, one, present
from tests.protocol.plan import Plan
from tests.protocol.spending import CRASHES, EVICTIONS, spend, times
from tests.protocol.state import LEASE, Base, Flusher, Redis, Step, World


def faults(plan: Plan, world: World) -> Iterator[Step]:
    """Every fault that the plan still allows."""
    if times(world.spent, CRASHES) < plan.crashes:
        yield from _crash(plan, world)
    if times(world.spent, EVICTIONS) < plan.evictions:
        yield from _evict(plan, world)
    if plan.base_expires and world.redis.base is not None:
        yield "BASE expires", world._replace(redis=world.redis._replace(base=None))
    if plan.tokens_expire:
        yield from _expire_tokens(plan, world)


def _crash(plan: Plan, world: World) -> Iterator[Step]:
    """Save now and crash later, or crash: memory is what was saved, and a new history begins.

    Of many saves only the last one before a crash is ever seen, so there is one for each crash.
    """
    if world.saved is None:
        yield "save", world._replace(saved=_saved(plan, world.redis))
        return
    database = world.database
    after = world._replace(
        redis=_foreign(world.saved),
        database=database._replace(age=database.age + 1) if database.age >= 0 else database,
        flushers=tuple(sorted(_outdated(plan, flusher) for flusher in world.flushers)),
        spent=spend(world.spent, CRASHES),
        saved=None,
    )
    yield "CRASH", _note_loss(world, after)


def _saved(plan: Plan, redis: Redis) -> Redis:
    """What is on the disk. Its base is nonsense: nobody may believe one of another history."""
    nonsense = Base(LEASE, known=sum(plan.masks))
    return redis._replace(base=nonsense) if plan.cached else redis


def _foreign(redis: Redis) -> Redis:
    """Whatever was saved is of a history that is over."""
    return redis._replace(
        open=redis.open and redis.open._replace(foreign=True),
        ring=tuple(kept and kept._replace(foreign=True) for kept in redis.ring),
        base=redis.base and redis.base._replace(foreign=True),
    )


def _outdated(plan: Plan, flusher: Flusher) -> Flusher:
    chart = flusher.chart
    if chart.generations:
        chart = chart._replace(age=chart.age + 1)
    return flusher._replace(chart=chart, outdated=plan.pages and flusher.at != "idle")


def _note_loss(before: World, after: World) -> World:
    """What Redis had, has not any more, and the database has not yet, is lost."""
    database = before.database
    landed = present(database.counted + database.quarantined)
    gone = before.redis.held & ~after.redis.held & ~landed
    # Nothing can tell that a slot lost something before its first flush was committed.
    noticed = gone if database.seen else 0
    return after._replace(lost=after.lost | gone, unreported=after.unreported | noticed)


def _evict(plan: Plan, world: World) -> Iterator[Step]:
    redis = world.redis
    nothing = Redis(None, 0, (None,) * plan.ring)
    if redis != nothing:
        yield "FLUSHALL", _losing(world, nothing)
        kept = nothing._replace(base=redis.base)
        yield "P and all B evicted", _losing(world, kept)
    if redis.open is not None:
        yield "P evicted", _losing(world, redis._replace(open=None, marks=0))
    for place, kept_b in enumerate(redis.ring):
        if kept_b is not None:
            ring = (*redis.ring[:place], None, *redis.ring[place + 1 :])
            yield f"B{place} evicted", _losing(world, redis._replace(ring=ring))


def _losing(world: World, redis: Redis) -> World:
    after = world._replace(redis=redis, spent=spend(world.spent, EVICTIONS))
    return _note_loss(world, after)


def _expire_tokens(plan: Plan, world: World) -> Iterator[Step]:
    for increment in range(plan.increments):
        token = one(increment)
        if world.redis.tokens & token:
            redis = world.redis._replace(tokens=world.redis.tokens & ONES & ~token)
            yield f"token of {increment} expires", world._replace(redis=redis)
