"""The transaction of a flush: generations are claimed and applied, and the fence looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.protocol.amounts import present
from tests.protocol.plan import Flaw, Plan
from tests.protocol.spending import CRASHES, EVICTIONS, times
from tests.protocol.state import Ack, Chart, Database, Flusher, Generation, World


def apply(plan: Plan, world: World, flusher: Flusher) -> tuple[World, Flusher]:
    """Commit what a flusher has read, what the fence found, and what to remember for the next."""
    if plan.flaw is Flaw.QUARANTINE_BLOCKS and _blocked(plan, flusher):
        return world, Flusher()
    before, acks, members = world.database, [], 0
    for place, copy in flusher.copies:
        world, forgotten = _land(plan, world, copy)
        acks.append(Ack(copy.number, place, forgotten))
        members |= copy.members if plan.flaw is Flaw.ACK_BEFORE_UNION else 0
    if plan.fence:
        world = _fence(plan, world, flusher, before)
    return world, Flusher("landed", acks=tuple(acks), members=members) if acks else Flusher()


def _blocked(plan: Plan, flusher: Flusher) -> bool:
    return any(copy.amounts & plan.poison for _, copy in flusher.copies)


def _land(plan: Plan, world: World, copy: Generation) -> tuple[World, int]:
    """Apply a generation if nobody has; and what of it must not be folded into a base."""
    bit = 1 << copy.number
    if world.database.batches & bit and plan.flaw is not Flaw.NO_DEDUPE:
        return _land_again(plan, world, copy), _forgotten_by_others(plan, copy)
    if copy.tokens & ~present(copy.amounts):
        return world._replace(fault="a token is taken out of a sum that it is not in"), 0
    landed = _sort(plan, world.database, copy)
    database = landed.database._replace(batches=world.database.batches | bit)
    unacked = world.unacked | bit if plan.cached else 0
    world = world._replace(database=database, unacked=unacked)
    return world, plan.counters_of(landed.forgotten)


def _land_again(plan: Plan, world: World, copy: Generation) -> World:
    """The claim is for the cells, too."""
    if plan.flaw is not Flaw.CELLS_WITHOUT_CLAIM:
        return world
    database = world.database
    return world._replace(database=database._replace(cells=database.cells + copy.cells))


def _forgotten_by_others(plan: Plan, copy: Generation) -> int:
    """Whoever applied it knows what did not go into the totals; this flusher does not."""
    return 0 if plan.flaw is Flaw.ACK_FOLDS_BLINDLY else plan.counters_of(copy.amounts)


class Landed(NamedTuple):
    """What an apply makes of the database, and what it did not count there."""

    database: Database
    forgotten: int


def _sort(plan: Plan, database: Database, copy: Generation) -> Landed:
    """Amounts go to the totals, tokens to the ledger, and what does not fit into quarantine.

    The cells go with what they belong to.
    """
    flaw = plan.flaw
    rest = copy.amounts - (0 if flaw is Flaw.TOKEN_IN_SUM else copy.tokens)
    refused = rest & (plan.poison | database.deleted)
    used = copy.tokens & present(database.ledger)
    new = copy.tokens if flaw is Flaw.TOKEN_TWICE_IN_LEDGER else copy.tokens & ~used
    kept = 0 if flaw is Flaw.QUARANTINE_DROPS else refused
    database = database._replace(
        total=database.total + rest - refused,
        ledger=database.ledger + new,
        quarantined=database.quarantined + kept,
        cells=database.cells + _cells(plan, database, copy, new),
        members=database.members | _members(plan, database, copy, new),
    )
    used = 0 if flaw is Flaw.ACK_FOLDS_TOKENS else used
    return Landed(database, used | (0 if flaw is Flaw.ACK_FOLDS_QUARANTINED else refused))


def _cells(plan: Plan, database: Database, copy: Generation, new: int) -> int:
    """Those of totals that take what comes, and those of tokens that are new in the ledger."""
    flaw, refusing = plan.flaw, plan.poison | database.deleted
    if flaw is Flaw.CELLS_OF_DELETED:
        # As if only a sum could be refused.
        refusing &= plan.counters_of(copy.amounts)
    tokens = copy.tokens if flaw is Flaw.TOKEN_CELL_AGAIN else new
    if flaw is Flaw.TOKEN_CELL_REFUSED and copy.amounts & ~copy.tokens & refusing:
        tokens &= ~refusing
    return (copy.cells if flaw is Flaw.CELLS_OF_REFUSED else copy.cells & ~refusing) + tokens


def _members(plan: Plan, database: Database, copy: Generation, new: int) -> int:
    """Those of totals that take what comes, and those of tokens that are new in the ledger.

    Who is in a set already stays in it: whoever is not sure may put them in again.
    """
    if plan.flaw is Flaw.ACK_BEFORE_UNION:
        return new
    deleted = 0 if plan.flaw is Flaw.MEMBERS_OF_DELETED else database.deleted
    return copy.members & ~(plan.poison | deleted) | new


def _fence(plan: Plan, world: World, flusher: Flusher, before: Database) -> World:
    """Write an incident if something is missing, and remember P."""
    chart = flusher.chart
    after = world.database
    alarm = _finds_loss(plan, flusher, before, after) or (
        plan.flaw is not Flaw.FENCE_WITHOUT_TIMELINE and before.age not in (-1, chart.age)
    )
    remembered = after._replace(seen=chart.generations[-1][0], age=chart.age)
    return _judge(world._replace(database=remembered), flusher, alarm=alarm or chart.foreign)


def _finds_loss(plan: Plan, flusher: Flusher, before: Database, after: Database) -> bool:
    """Whether a generation is missing. ``before`` is locked: nobody else flushes meanwhile."""
    flaw, chart = plan.flaw, flusher.chart
    recalled = before.seen if flaw is Flaw.FENCE_SEEN_LATE else flusher.seen
    told = {number for number, _ in chart.generations}
    asked = _asked(plan, chart, recalled)
    parents = {parent for _, parent in asked if parent} - told - {recalled}
    born = {number for number, parent in chart.generations if not parent}
    known = flusher.seen if flaw is Flaw.FENCE_SEEN_EARLY else before.seen
    return (
        (flaw is not Flaw.FENCE_WITHOUT_PARENTS and not _applied(parents, after))
        or (flaw is not Flaw.FENCE_WITHOUT_BIRTH and _strange(plan, born, known, before))
        or (flaw is not Flaw.FENCE_WITHOUT_SEEN and not _applied({recalled} - told, after))
        or (flaw is not Flaw.FENCE_TRUSTS_CUT and flusher.missed & ~after.batches != 0)
    )


def _asked(plan: Plan, chart: Chart, recalled: int) -> Sequence[tuple[int, int]]:
    """The generations whose parents have to be somewhere: all of them, whatever was seen."""
    starts = plan.flaw is Flaw.FENCE_STARTS_UNKNOWN and not recalled
    return () if starts else chart.generations


def _applied(generations: set[int], database: Database) -> bool:
    return all(database.batches >> number & 1 for number in generations if number)


def _strange(plan: Plan, born: set[int], known: int, before: Database) -> bool:
    """Whether a generation was born from nothing on a slot that was flushed before."""
    applied = before._replace(batches=0) if plan.flaw is Flaw.FENCE_MINDS_APPLIED else before
    return known != 0 and not _applied(born - {known}, applied)


def _judge(world: World, flusher: Flusher, *, alarm: bool) -> World:
    """Compare with what a ghost knows to be lost."""
    if alarm and not (times(world.spent, CRASHES) or times(world.spent, EVICTIONS)):
        return world._replace(fault="an incident, and nothing was lost")
    if alarm:
        return world._replace(unreported=world.unreported & ~flusher.might)
    if flusher.chart.age:
        # The incident is due at the next flush, which is the first to see the new history.
        return world
    database = world.database
    landed = present(database.counted + database.quarantined)
    if flusher.due & world.unreported & ~landed:
        return world._replace(fault="a loss, and no incident at the next flush")
    return world
