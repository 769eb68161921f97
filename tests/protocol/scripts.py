"""The scripts of Redis: each is one atomic step, and each begins with ``begin``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.amounts import one
from tests.protocol.plan import Flaw, Plan
from tests.protocol.state import LEASE, Ack, Base, Generation, Redis, World


def begin(plan: Plan, world: World) -> World:
    """What every script does first: see that P, the ring and the base are of the present."""
    if world.redis.open is None:
        world = _bear(plan, world)
    world = _notice_gaps(plan, world)
    world = _drop_foreign_base(plan, world)
    if is_foreign(plan, world):
        world = seal(plan, world)
    return world


def is_foreign(plan: Plan, world: World) -> bool:
    """Whether P belongs to another history: then nothing may be added to it."""
    opened = world.redis.open
    if plan.flaw is Flaw.NO_TIMELINE:
        return False
    return opened is not None and opened.foreign


def _bear(plan: Plan, world: World) -> World:
    """Make a P from nothing. Its marks went with the P before it, so all places are looked at."""
    blind = plan.flaw is Flaw.BIRTH_BLIND
    marks = sum(1 << place for place, kept in enumerate(world.redis.ring) if kept and not blind)
    born = Generation(world.minted)
    redis = world.redis._replace(open=born, marks=marks)
    if plan.flaw is not Flaw.BIRTH_KEEPS_BASE:
        redis = redis._replace(base=None)
    return world._replace(redis=redis, minted=world.minted + 1)


def _notice_gaps(plan: Plan, world: World) -> World:
    """A place that P says is occupied is empty: what was in it may be in the totals by now."""
    redis = world.redis
    if not redis.marks:
        return world
    kept = sum(1 << place for place, sealed in enumerate(redis.ring) if sealed)
    if redis.marks & ~kept == 0:
        return world
    if plan.flaw is not Flaw.GAP_KEEPS_BASE:
        redis = redis._replace(base=None)
    return world._replace(redis=redis._replace(marks=redis.marks & kept))


def _drop_foreign_base(plan: Plan, world: World) -> World:
    base = world.redis.base
    if base is None or not base.foreign:
        return world
    if plan.flaw is Flaw.BASE_WITHOUT_TIMELINE:
        return with_base(world, base._replace(foreign=False, lease=0))
    if plan.flaw is Flaw.LEASE_WITHOUT_TIMELINE:
        return with_base(world, Base(base.lease))
    return with_base(world, None)


def with_base(world: World, base: Base | None) -> World:
    """A hash without fields is no key."""
    if base is not None and not (base.lease or base.known or base.turn):
        base = None
    return world._replace(redis=world.redis._replace(base=base))


def without_lease(world: World) -> World:
    """Refuse whoever has missed a total before, and did not fill it in yet."""
    base = world.redis.base
    return world if base is None else with_base(world, base._replace(lease=0))


def free_place(plan: Plan, redis: Redis) -> int | None:
    for place in range(plan.ring):
        if not redis.marks >> place & 1:
            return place
    return 0 if plan.flaw is Flaw.RING_OVERWRITTEN else None


def seal(plan: Plan, world: World, *, early: bool = False, anew: bool = False) -> World:
    """Rename P to a free place of the ring, and make the next P. Without a place: nothing."""
    redis, opened = world.redis, world.redis.open
    place = free_place(plan, redis)
    if place is None or opened is None:
        return world
    if anew:
        opened = opened._replace(number=world.minted)
        world = world._replace(minted=world.minted + 1)
    ring = (*redis.ring[:place], opened, *redis.ring[place + 1 :])
    born = Generation(world.minted, parent=opened.number if plan.fence else 0)
    redis = redis._replace(open=born, ring=ring, marks=redis.marks | 1 << place)
    world = world._replace(redis=redis, minted=world.minted + 1)
    kept = plan.flaw is Flaw.SEAL_KEEPS_LEASE or (early and plan.flaw is Flaw.EARLY_KEEPS_LEASE)
    return world if kept else without_lease(world)


def sealed_of(redis: Redis) -> Iterator[tuple[int, Generation]]:
    """The places that P names, and what is in them."""
    for place, kept in enumerate(redis.ring):
        if kept is not None and redis.marks >> place & 1:
            yield place, kept


def told_by(redis: Redis) -> tuple[tuple[int, int], ...]:
    """Each generation that has amounts, and these."""
    told = tuple((kept.number, kept.amounts) for _, kept in sealed_of(redis) if kept.amounts)
    if redis.open is not None and redis.open.amounts:
        told += ((redis.open.number, redis.open.amounts),)
    return told


def add(plan: Plan, world: World, increment: int, *, cell: bool = True) -> World | None:
    """Add to P, both to the counter and to its cell. None: RINGFULL, nothing was written."""
    world = begin(plan, world)
    opened = world.redis.open
    if is_foreign(plan, world) or opened is None:
        return None
    opened = opened._replace(amounts=opened.amounts + one(increment))
    world = world._replace(redis=world.redis._replace(open=opened))
    if plan.flaw is Flaw.CELL_ELSEWHERE:
        world = seal(plan, world)
    return _seal_early(plan, _with_cell(world, increment) if cell else world)


def _with_cell(world: World, increment: int) -> World:
    opened = world.redis.open
    if opened is None:
        return world
    new = one(increment)
    opened = opened._replace(cells=opened.cells + new, members=opened.members | new)
    return world._replace(redis=world.redis._replace(open=opened))


def _seal_early(plan: Plan, world: World) -> World:
    opened = world.redis.open
    if not plan.early or opened is None or free_place(plan, world.redis) is None:
        return world
    length = sum(1 for mask in plan.masks if opened.amounts & mask)
    return seal(plan, world, early=True) if length >= plan.early else world


def add_once(plan: Plan, world: World, increment: int) -> World | None:
    """Add to P with an entry, unless the token was used. None: RINGFULL, nothing was written.

    Its cell is kept in the entry, so that it is landed only where the entry is.
    The key of the token may be gone while its entry still waits, and P can keep one entry only.
    """
    world = begin(plan, world)
    redis, token = world.redis, one(increment)
    if redis.open is None:
        return None
    entries = [redis.open, *(kept for _, kept in sealed_of(redis))]
    waits = any(kept.tokens & token for kept in entries) and plan.flaw is not Flaw.TOKEN_KEY_ONLY
    if redis.tokens & token or waits:
        return world._replace(redis=redis._replace(tokens=redis.tokens | token))
    if is_foreign(plan, world):
        return None
    entry = 0 if plan.flaw is Flaw.TOKEN_WITHOUT_ENTRY else token
    opened = redis.open._replace(tokens=redis.open.tokens | entry)
    redis = redis._replace(tokens=redis.tokens | token, open=opened)
    beside = not entry or plan.flaw is Flaw.TOKEN_CELL_AT_ONCE
    return add(plan, world._replace(redis=redis), increment, cell=beside)


def look(plan: Plan, world: World) -> World:
    """Give a lease to whoever misses a total, if nobody has one, and the turn."""
    world = begin(plan, world)
    base = world.redis.base or Base()
    return with_base(world, base._replace(lease=base.lease or LEASE, turn=plan.turns))


def fill(plan: Plan, world: World, lease: int, known: int, total: int) -> World:
    """Store totals, if nothing happened since the lease was given that could make them wrong."""
    world = begin(plan, world)
    base = (world.redis.base or Base())._replace(turn=False)
    world = with_base(world, base)
    renewed = plan.flaw is Flaw.KNOWN_WITHOUT_LEASE and not known & ~base.known
    if base.lease != lease and plan.flaw is not Flaw.NO_LEASE and not renewed:
        return world
    total = base.total & ~known | total
    return with_base(world, base._replace(known=base.known | known, total=total))


def cut(plan: Plan, world: World) -> World:
    """Seal P if there is nothing sealed to flush."""
    world = begin(plan, world)
    opened = world.redis.open
    if not world.redis.marks and opened is not None and opened.amounts:
        world = seal(plan, world, anew=plan.flaw is Flaw.MINTED_AT_CUT)
    return world


def forget(plan: Plan, world: World, counters: int) -> World:
    """Take totals out of the base, and refuse who has read the database before."""
    world = begin(plan, world)
    base = world.redis.base
    if base is None:
        return world
    lease = base.lease if plan.flaw is Flaw.FORGET_KEEPS_LEASE else 0
    return with_base(world, _without(base, counters)._replace(lease=lease, turn=False))


def discard(plan: Plan, world: World, counter: int) -> World:
    """Take away what waits for a counter whose record is deleted, but for cells and members."""

    def left(kept: Generation | None) -> Generation | None:
        return kept and kept._replace(amounts=kept.amounts & ~counter)

    redis = world.redis
    redis = redis._replace(
        open=left(redis.open), ring=tuple(map(left, redis.ring)), discarding=counter
    )
    return forget(plan, world._replace(redis=redis), counter)


def discard_cells(plan: Plan, world: World) -> World:
    """Take away the cells and members of a discarded counter, which has no amounts."""
    counter = world.redis.discarding
    cells = 0 if plan.flaw is Flaw.DISCARD_LEAVES_CELLS else counter

    def left(kept: Generation | None) -> Generation | None:
        return kept and kept._replace(cells=kept.cells & ~cells, members=kept.members & ~counter)

    redis = world.redis
    redis = redis._replace(open=left(redis.open), ring=tuple(map(left, redis.ring)), discarding=0)
    return world._replace(redis=redis)


def _without(base: Base, counters: int) -> Base:
    return base._replace(known=base.known & ~counters, total=base.total & ~counters)


def acknowledge(plan: Plan, world: World, ack: Ack) -> World:
    """Drop a generation that was applied, and bring the base up to what the database has now."""
    world = begin(plan, world)
    place = _place_of(plan, world.redis, ack)
    kept = None if place is None else world.redis.ring[place]
    if place is None or kept is None:
        # Redis lost it, or somebody else was faster: the base may be from before it was applied.
        return world if plan.flaw is Flaw.ACK_MISSING_KEEPS else with_base(world, None)
    world = _fold(plan, world, kept, ack.forget)
    if plan.flaw is not Flaw.ACK_KEEPS_LEASE:
        world = without_lease(world)
    redis = world.redis
    ring = (*redis.ring[:place], None, *redis.ring[place + 1 :])
    return world._replace(redis=redis._replace(ring=ring, marks=redis.marks & ~(1 << place)))


def _place_of(plan: Plan, redis: Redis, ack: Ack) -> int | None:
    if plan.flaw is Flaw.ACK_ANY:
        return ack.place
    return next((place for place, kept in sealed_of(redis) if kept.number == ack.number), None)


def _fold(plan: Plan, world: World, kept: Generation, forgotten: int) -> World:
    """What was pending is in the totals now. What a foreign one had more of is not known."""
    base, flaw = world.redis.base, plan.flaw
    if base is None or flaw is Flaw.ACK_UNFOLDED:
        return world
    if kept.foreign and flaw is not Flaw.ACK_FOLDS_FOREIGN:
        return world if flaw is Flaw.ACK_KEEPS_FOREIGN else with_base(world, None)
    folded = base._replace(total=base.total + (kept.amounts & base.known))
    return with_base(world, _without(folded, forgotten))
