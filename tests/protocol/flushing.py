"""A flusher: recall, cut, read, apply, acknowledge. It may die after each."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol import scripts
from tests.protocol.landing import apply
from tests.protocol.plan import Flaw, Plan
from tests.protocol.spending import KILLS, spend, times
from tests.protocol.state import Ack, Chart, Flusher, Generation, Step, World

Moved = tuple[str, World, Flusher]


def flushing(plan: Plan, world: World) -> Iterator[Step]:
    """The next step of each flusher, and its end."""
    for at, flusher in enumerate(world.flushers):
        # Of two in the same state it does not matter which one moves.
        if flusher not in world.flushers[:at]:
            yield from _next(plan, world, at)


def _next(plan: Plan, world: World, at: int) -> Iterator[Step]:
    flusher = world.flushers[at]
    label, after, moved = _move(plan, world, flusher)
    if label:
        yield f"{label} [flusher {at}]", _with(after, at, moved)
    if flusher.at != "idle" and times(world.spent, KILLS) < plan.kills:
        killed = world._replace(spent=spend(world.spent, KILLS))
        # After it landed, this is also a COMMIT whose answer was lost.
        yield f"kill when {flusher.at} [flusher {at}]", _with(killed, at, Flusher())


def _with(world: World, at: int, flusher: Flusher) -> World:
    """Flushers do not differ: only one order of them is kept."""
    others = (*world.flushers[:at], *world.flushers[at + 1 :])
    return world._replace(flushers=tuple(sorted((flusher, *others))))


def _move(plan: Plan, world: World, flusher: Flusher) -> Moved:
    """The one next step of a flusher."""
    if flusher.at == "idle":
        return _recall(world) if plan.fence else _cut(plan, world, flusher)
    if flusher.at == "recalled":
        return _cut(plan, world, flusher)
    if flusher.at == "reading" and flusher.todo:
        turns = plan.pages and not flusher.page
        return _turn(world, flusher) if turns else _read(plan, world, flusher)
    if flusher.at == "reading" and plan.flaw is Flaw.ACK_FIRST:
        return _acknowledge_early(plan, world, flusher)
    if flusher.at == "landed":
        return _acknowledge(plan, world, flusher)
    if flusher.at == "uniting":
        return _unite(world, flusher)
    return "apply", *apply(plan, world, flusher)


def _recall(world: World) -> Moved:
    """Ask what the last flush has seen, before the cut: Redis may only be newer than that."""
    return "recall", world, Flusher("recalled", world.database.seen, world.unreported)


def _cut(plan: Plan, world: World, flusher: Flusher) -> Moved:
    after = scripts.cut(plan, world)
    todo = tuple((place, kept.number) for place, kept in scripts.sealed_of(after.redis))
    if plan.flaw is Flaw.RING_STUCK and scripts.is_foreign(plan, after):
        return "", world, flusher
    if not plan.fence:
        return "cut", after, Flusher("reading", todo=todo) if todo else Flusher()
    chart = _chart(after)
    flusher = flusher._replace(at="reading", todo=todo, chart=chart, might=world.unreported)
    return "cut", after, flusher


def _chart(world: World) -> Chart:
    kept = [sealed for _, sealed in scripts.sealed_of(world.redis)]
    if world.redis.open is not None:
        kept.append(world.redis.open)
    generations = tuple((one.number, one.parent) for one in kept)
    return Chart(generations, any(generation.foreign for generation in kept))


def _turn(world: World, flusher: Flusher) -> Moved:
    """Read the first page of a generation, which has its tokens, cells and members."""
    place, number = flusher.todo[0]
    kept = world.redis.ring[place]
    if kept is None or kept.number != number:
        return _miss(world, flusher)
    page = kept.tokens, kept.cells, kept.members
    return f"read the first page of g{number}", world, flusher._replace(page=page)


def _read(plan: Plan, world: World, flusher: Flusher) -> Moved:
    """Copy a generation, if it still stands there.

    Pages are of one copy only if the history is still the one of the cut: another history may have
    a shorter one, of the same name.
    """
    (place, number), *rest = flusher.todo
    kept = world.redis.ring[place]
    if flusher.outdated and plan.flaw is not Flaw.PAGES_OF_TWO:
        return "history changed", world, Flusher()
    if kept is None or kept.number != number:
        return _miss(world, flusher)
    tokens, cells, members = flusher.page or (kept.tokens, kept.cells, kept.members)
    copy = Generation(number, 0, kept.amounts, tokens, cells, members)
    copies = (*flusher.copies, (place, copy))
    return f"read g{number}", world, flusher._replace(todo=tuple(rest), page=(), copies=copies)


def _miss(world: World, flusher: Flusher) -> Moved:
    """Go on without a generation: it is lost, or somebody else has landed it."""
    (_, number), *rest = flusher.todo
    flusher = flusher._replace(todo=tuple(rest), page=())
    might = flusher.might | world.unreported
    missed = flusher.missed | 1 << number
    return f"miss g{number}", world, flusher._replace(missed=missed, might=might)


def _acknowledge(plan: Plan, world: World, flusher: Flusher) -> Moved:
    if not flusher.acks:
        return "", world, flusher
    ack, *rest = flusher.acks
    after = scripts.acknowledge(plan, world, ack)
    after = after._replace(unacked=after.unacked & ~(1 << ack.number))
    left = flusher._replace(acks=tuple(rest)) if rest else _united(flusher)
    return f"acknowledge g{ack.number}", after, left


def _united(flusher: Flusher) -> Flusher:
    """What follows the last acknowledgement: nothing, but in a mutant."""
    return Flusher("uniting", members=flusher.members) if flusher.members else Flusher()


def _unite(world: World, flusher: Flusher) -> Moved:
    database = world.database
    united = database._replace(members=database.members | flusher.members)
    return "unite", world._replace(database=united), Flusher()


def _acknowledge_early(plan: Plan, world: World, flusher: Flusher) -> Moved:
    for place, copy in flusher.copies:
        world = scripts.acknowledge(plan, world, Ack(copy.number, place, forget=0))
    return "acknowledge", world, flusher._replace(at="early")


def flush(plan: Plan, world: World) -> World:
    """One whole flush by a flusher whom nobody disturbs."""
    flusher = Flusher()
    label, world, flusher = _move(plan, world, flusher)
    while label and flusher.at != "idle":
        label, world, flusher = _move(plan, world, flusher)
    return world
