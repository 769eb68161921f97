"""States that differ in nothing but the numbers of their generations are one state.

A number says which generation is meant: it is compared with others, and that is all. So what can
still be named is numbered anew, in the order in which it is met, and the rest is forgotten. In a
trace a generation has the number of that moment.
"""

from __future__ import annotations

from tests.protocol.state import Ack, Flusher, Generation, Redis, World

# No generation has this number. In ``unacked``: there is one that nobody can acknowledge any more.
NOBODY = 0
Names = dict[int, int]


def canonical(world: World, before: World) -> World:
    """The same state with the smallest numbers. The one before it has them already."""
    if _names_the_same(world, before):
        return world
    met = list(dict.fromkeys(_numbers(world)))
    if len(met) == world.minted and met == sorted(met):
        return world
    return _renamed(world, {number: name for name, number in enumerate(met)})


def _names_the_same(world: World, before: World) -> bool:
    """Whether nobody has met or forgotten a number: what is told of them are the same objects."""
    return (
        world.minted == before.minted
        and world.redis.ring is before.redis.ring
        and (world.redis.open is None) == (before.redis.open is None)
        and world.saved is before.saved
        and world.flushers is before.flushers
        and world.reader is before.reader
    )


def _numbers(world: World) -> list[int]:
    """Every number that stands somewhere. In the database: if somebody else knows it, too."""
    redis, saved, database = world.redis, world.saved, world.database
    found = [NOBODY]
    for kept in (redis.open, *redis.ring, *((saved.open, *saved.ring) if saved else ())):
        if kept is not None:
            found += kept.number, kept.parent
    for flusher in world.flushers:
        if flusher.at != "idle":
            found.append(flusher.seen)
            found += [number for pair in flusher.chart.generations for number in pair]
            found += [number for _, number in flusher.todo]
            for _, copy in flusher.copies:
                found += copy.number, copy.parent
            found += [ack.number for ack in flusher.acks]
    found += [number for number, _ in world.reader.told]
    found.append(database.seen)
    return found


def _renamed(world: World, names: Names) -> World:
    database, reader, saved = world.database, world.reader, world.saved
    forgotten = world.unacked & ~sum(1 << number for number in names)
    return world._replace(
        redis=_redis(world.redis, names),
        saved=saved and _redis(saved, names),
        database=database._replace(
            batches=_bits(database.batches, names), seen=names[database.seen]
        ),
        flushers=tuple(sorted(_flusher(flusher, names) for flusher in world.flushers)),
        reader=reader._replace(
            told=tuple((names[number], amounts) for number, amounts in reader.told),
            batches=_bits(reader.batches, names),
        ),
        unacked=_bits(world.unacked, names) | (1 << NOBODY if forgotten else 0),
        minted=len(names),
    )


def _bits(bits: int, names: Names) -> int:
    return sum(1 << name for number, name in names.items() if bits >> number & 1) if bits else 0


def _redis(redis: Redis, names: Names) -> Redis:
    ring = tuple(kept and _generation(kept, names) for kept in redis.ring)
    opened = redis.open and _generation(redis.open, names)
    return redis._replace(open=opened, ring=ring)


def _generation(kept: Generation, names: Names) -> Generation:
    number, parent = names[kept.number], names[kept.parent]
    return kept._replace(number=number, parent=parent)


def _flusher(flusher: Flusher, names: Names) -> Flusher:
    if flusher.at == "idle":
        return flusher
    family = tuple((names[one], names[parent]) for one, parent in flusher.chart.generations)
    return flusher._replace(
        seen=names[flusher.seen],
        chart=flusher.chart._replace(generations=family),
        todo=tuple((place, names[number]) for place, number in flusher.todo),
        copies=tuple((place, _generation(copy, names)) for place, copy in flusher.copies),
        missed=_bits(flusher.missed, names),
        acks=tuple(Ack(names[a.number], a.place, a.forget) for a in flusher.acks),
    )
