"""The protocol of regions as a model: what each database has, and what may happen next.

An amount is a tuple with a number for each increment, so that it can be seen twice or not at all.
Each increment is of a counter, and each version is of one counter: a page of one entry.

Region 0 may be restored from a backup. Its life is what the server says of itself: it is another
one after a restore. A page that was read may be applied at any later moment, or never.

Its increments may wait in a Redis, each in a generation of its own. Redis is not restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

from tests.protocol.explore import without_gc
from tests.protocol.region_plans import DISAGREE, ENDLESS, GONE, TWICE, Amount, Flaw, Plan

CLOSED = -1


class Entry(NamedTuple):
    """What a region has counted, as a database knows it. ``base``: of its own, at present."""

    version: int
    value: Amount
    base: Amount | None = None


class Mark(NamedTuple):
    """How far an incarnation is, in which life. Of its own: the clock. Of others: the cursor.

    ``seen``: how far the clock was that was seen together with the position.
    """

    position: int = 0
    life: int = 0
    seen: int = 0


Place = tuple[int, int]
Entries = tuple[tuple[tuple[int, int, str], Entry], ...]


class Region(NamedTuple):
    """The database of one region. Dictionaries are sorted tuples of their items.

    ``landed``: the increments that came from Redis.
    """

    local: Amount
    incarnation: int = 1
    entries: Entries = ()
    marks: tuple[tuple[Place, Mark], ...] = ()
    landed: frozenset[int] = frozenset()


class Page(NamedTuple):
    """What somebody has read in another region, and holds in his hand."""

    place: Place
    before: int
    after: Mark
    entries: Entries


class World(NamedTuple):
    """One state. ``fenced``: whether region 0 may count. ``excused``: what may be lost.

    ``waiting``: what the Redis of region 0 has.
    """

    regions: tuple[Region, ...]
    hands: tuple[Page | None, ...]
    life: int = 1
    backup: Region | None = None
    counted: int = 0
    excused: frozenset[int] = frozenset()
    restores: int = 0
    fenced: bool = True
    waiting: frozenset[int] = frozenset()

    def put(self, at: int, region: Region) -> World:
        changed = (*self.regions[:at], region, *self.regions[at + 1 :])
        return self._replace(regions=changed)

    def hold(self, at: int, page: Page | None) -> World:
        return self._replace(hands=(*self.hands[:at], page, *self.hands[at + 1 :]))

    def life_of(self, at: int) -> int:
        return self.life if at == 0 else 1


def plus(*amounts: Amount) -> Amount:
    return tuple(map(sum, zip(*amounts, strict=True)))


def minus(amount: Amount, less: Amount) -> Amount:
    return tuple(a - b for a, b in zip(amount, less, strict=True))


def start(plan: Plan) -> World:
    regions = tuple(Region(plan.zero, marks=(((at, 1), Mark(0, 1)),)) for at in range(plan.regions))
    return World(regions, (None,) * plan.regions)


def value(plan: Plan, region: Region) -> Amount:
    """What a read adds up: all that is here, and what others have counted."""
    parts = [
        one.value if one.base is None else minus(plan.zero, one.base) for _, one in region.entries
    ]
    return plus(region.local, *parts)


Step = tuple[str, World]


def steps(plan: Plan, world: World) -> Iterator[Step]:
    yield from counts(plan, world)
    yield from lands(plan, world)
    for at in range(plan.regions):
        yield from publish(plan, world, at)
        for other in range(plan.regions):
            if other != at:
                for number, page in enumerate(pages(world, at, other)):
                    name = f"{at} pulls page {number} of {other}"
                    yield name, apply(plan, world, at, page)
                    if plan.hands and world.hands[at] is None:
                        yield f"{name}, and stands still", world.hold(at, page)
        held = world.hands[at]
        if held is not None:
            yield f"{at} goes on", apply(plan, world, at, held).hold(at, None)
    yield from greet(plan, world)
    yield from restores(plan, world)
    yield from fence(plan, world)


def counts(plan: Plan, world: World) -> Iterator[Step]:
    number = world.counted
    if number == len(plan.counters):
        return
    at = int(plan.who[number])
    if plan.cached and at == 0:
        waiting = world.waiting | {number}
        yield f"{at} counts {number}", world._replace(counted=number + 1, waiting=waiting)
        return
    early = at == 0 and not world.fenced
    if early and not (plan.careless or plan.flaw is Flaw.TRAFFIC):
        return
    excused = world.excused | ({number} if early and plan.careless else set())
    after = world.put(at, _counted(plan, world.regions[at], number))
    yield f"{at} counts {number}", after._replace(counted=number + 1, excused=excused)


def _counted(plan: Plan, region: Region, number: int) -> Region:
    one = tuple(int(n == number) for n in range(len(plan.counters)))
    return region._replace(local=plus(region.local, one))


def lands(plan: Plan, world: World) -> Iterator[Step]:
    """Each increment becomes part of region 0 once, and leaves Redis after that."""
    region = world.regions[0]
    for number in sorted(world.waiting):
        if number in region.landed:
            yield f"Redis forgets {number}", world._replace(waiting=world.waiting - {number})
        elif world.fenced or plan.flaw is Flaw.EARLY:
            landed = _counted(plan, region, number)._replace(landed=region.landed | {number})
            yield f"{number} lands", world.put(0, landed)


def publish(plan: Plan, world: World, at: int) -> Iterator[Step]:
    """The clock is raised, and the entry of a counter gets its version: one transaction."""
    region = world.regions[at]
    place, entries, marks = (at, region.incarnation), dict(region.entries), dict(region.marks)
    if marks[place].life != world.life_of(at) and plan.flaw is not Flaw.NO_GREETING:
        return
    for counter in sorted(set(plan.counters)):
        known = entries.get((*place, counter), Entry(0, plan.zero, plan.zero))
        assert known.base is not None
        present = minus(plan.part(region.local, counter), known.base)
        if present != known.value:
            number = marks[place].position + 1
            clock = Mark(number, marks[place].life, number)
            made = Entry(clock.position, present, known.base)
            changed = region._replace(
                entries=_with(region.entries, {(*place, counter): made}),
                marks=_with(region.marks, {place: clock}),
            )
            yield f"{at} publishes {counter}", _settled(plan, world, region).put(at, changed)


def _settled(plan: Plan, world: World, region: Region) -> World:
    """What has landed leaves Redis, before others can hear of it."""
    if plan.flaw is Flaw.NOT_SETTLED:
        return world
    return world._replace(waiting=world.waiting - region.landed)


def _with(items: tuple, changes: dict) -> tuple:  # type: ignore[type-arg]
    return tuple(sorted({**dict(items), **changes}.items()))


def pages(world: World, at: int, other: int) -> Iterator[Page]:
    """The next page of another region, short or long: of its first incarnation that is not done."""
    there, mine = dict(world.regions[other].marks), dict(world.regions[at].marks)
    for place in sorted(place for place in there if place[0] == other):
        cursor = mine.get(place, Mark()).position
        found = sorted(
            (entry.version, key, entry._replace(base=None))
            for key, entry in world.regions[other].entries
            if key[:2] == place and entry.version > cursor
        )
        for length in {1, len(found)} if found else set():
            after = Mark(found[length - 1][0], there[place].life, there[place].position)
            entries = tuple((key, entry) for _, key, entry in found[:length])
            yield Page(place, cursor, after, entries)
        if found:
            return


def apply(plan: Plan, world: World, at: int, page: Page) -> World:
    """Entries and cursor in one transaction: a compare-and-set of place and life."""
    region = world.regions[at]
    mark = dict(region.marks).get(page.place, Mark())
    stands = mark.position == page.before and mark.life in (0, page.after.life)
    if not stands and plan.flaw is not Flaw.NO_CAS:
        return world
    changed = region._replace(
        entries=_with(region.entries, dict(page.entries)),
        marks=_with(region.marks, {page.place: page.after}),
    )
    return world.put(at, changed)


def known_of(world: World, at: int = 0, peers: range | None = None) -> dict[int, list[Mark]]:
    """What peers know of each incarnation of a region."""
    found: dict[int, list[Mark]] = {}
    for peer in peers or range(1, len(world.regions)):
        for (who, incarnation), mark in world.regions[peer].marks:
            if who == at:
                found.setdefault(incarnation, []).append(mark)
    return found


def is_ahead(plan: Plan, world: World, peers: range | None = None) -> bool:
    """Whether a peer knows more of region 0 than itself: it was restored."""
    region, known = world.regions[0], known_of(world, peers=peers)
    clock = dict(region.marks)[0, region.incarnation].position
    if max(known, default=0) > region.incarnation:
        return True
    marks = known.get(region.incarnation, [])
    if plan.flaw is Flaw.CURSOR_ALONE:
        return any(mark.position > clock or mark.life == CLOSED for mark in marks)
    return any(mark.seen > clock or mark.life == CLOSED for mark in marks)


def greet(plan: Plan, world: World) -> Iterator[Step]:
    """A new life of region 0 asks all peers, and lets pages of the former one be of no use.

    Each peer is greeted before it is known whether it knows more: whoever greets may stop there.
    """
    region = world.regions[0]
    place = (0, region.incarnation)
    mark = dict(region.marks)[place]
    peers = range(1, 2) if plan.flaw is Flaw.GREETS_SOME else range(1, len(world.regions))
    if mark.life == world.life:
        return
    told = [world]
    for peer in () if plan.flaw is Flaw.KEEPS_LABEL else peers:
        told.append(_greeted(plan, told[-1], peer, place))
    if not is_ahead(plan, world, peers):
        after = _marked(told[-1], 0, {place: mark._replace(life=world.life)})
        yield "0 greets", _accounted(after)._replace(fenced=True)
    for number, after in enumerate(told):
        if after != world:
            yield f"0 greets {number} peers, and dies", after


def _greeted(plan: Plan, world: World, peer: int, place: Place) -> World:
    """A peer is told in which life its pages are of use. What has ended stays so."""
    known = dict(world.regions[peer].marks).get(place)
    if (known is None and plan.flaw is Flaw.LABELS_KNOWN) or (known and known.life == CLOSED):
        return world
    return _marked(world, peer, {place: (known or Mark())._replace(life=world.life)})


def _marked(world: World, at: int, marks: dict[Place, Mark]) -> World:
    region = world.regions[at]
    return world.put(at, region._replace(marks=_with(region.marks, marks)))


def restores(plan: Plan, world: World) -> Iterator[Step]:
    if world.restores < plan.restores:
        if world.backup is None:
            yield "backup of 0", world._replace(backup=world.regions[0])
        else:
            after = world.put(0, world.backup).hold(0, None)
            after = after._replace(life=world.life + 1, restores=world.restores + 1, fenced=False)
            yield "restore of 0", after


def fence(plan: Plan, world: World) -> Iterator[Step]:
    """Close what peers know, learn it back, begin anew. Whoever dies meanwhile begins again."""
    if not is_ahead(plan, world):
        return
    region, known = world.regions[0], known_of(world)
    last = max([*known, region.incarnation])
    peers = range(1, 2 if plan.flaw is Flaw.ASKS_ONE else len(world.regions))
    closed = world
    for peer in peers if plan.flaw is not Flaw.NOT_CLOSED else ():
        closed = _closed(plan, closed, peer, range(region.incarnation, last + 1))
        if last == region.incarnation:
            yield f"0 closes its pages at {peer}, and dies", closed
    yield "0 begins anew", _begun(plan, closed, last, peers)


def _closed(plan: Plan, world: World, peer: int, ended: range) -> World:
    """Pages of what ends are of no use any more. The next number is taken, in this life."""
    marks = dict(world.regions[peer].marks)
    closed = {(0, one): marks.get((0, one), Mark())._replace(life=CLOSED) for one in ended}
    if plan.flaw is not Flaw.NOT_RESERVED:
        closed[0, ended.stop] = Mark(0, world.life)
    return _marked(world, peer, closed)


def _begun(plan: Plan, world: World, last: int, peers: range) -> World:
    region = world.regions[0]
    mine = (0, region.incarnation)
    clock = dict(region.marks)[mine].position
    marks_of = known_of(world, peers=peers).items()
    later = any(one.seen for number, found in marks_of if number > mine[1] for one in found)
    learned = _learned(world, peers, mine, 0 if later else clock)
    if plan.flaw is Flaw.LEARNS_NOTHING:
        learned = {}
    keeps = {
        key: entry
        for key, entry in region.entries
        if not (later and key[:2] >= mine and not key[0])
    }
    changes: dict[tuple[int, int, str], Entry] = dict(learned)
    new = region.incarnation if plan.flaw is Flaw.SAME_INCARNATION else last + 1
    ended = {key: one._replace(base=None) for key, one in keeps.items() if key[:2] == mine}
    for counter in sorted(set(plan.counters)):
        own = keeps.get((*mine, counter), Entry(0, plan.zero, plan.zero))
        assert own.base is not None
        whole = plan.part(region.local, counter)
        base = plus(own.base, own.value)
        if later or (*mine, counter) in learned:
            base = base if plan.flaw is Flaw.BASE_PUBLISHED else whole
        base = whole if plan.flaw is Flaw.BASE_WHOLE else base
        base = own.base if plan.flaw is Flaw.NO_BASE else base
        changes[0, new, counter] = Entry(0, plan.zero, base)
    entries = {**keeps, **ended, **changes}
    marks = dict[Place, Mark]()
    for number in range(region.incarnation, last + 1):
        seen = [one.seen for one in known_of(world, peers=peers).get(number, [])]
        marks[0, number] = _ended(plan, entries, number, max([clock, *seen]))
    marks[0, new] = Mark(0, world.life)
    begun = region._replace(
        incarnation=new,
        entries=tuple(sorted(entries.items())),
        marks=_with(region.marks, marks),
    )
    return _accounted(world.put(0, begun), again=world.restores > 1)._replace(fenced=True)


def _ended(
    plan: Plan, entries: dict[tuple[int, int, str], Entry], incarnation: int, clock: int
) -> Mark:
    """Give all entries of an incarnation that ends new versions: peers may have any of them."""
    if plan.flaw is not Flaw.OLD_VERSIONS:
        for key in sorted(key for key in entries if key[:2] == (0, incarnation)):
            clock += 1
            entries[key] = entries[key]._replace(version=clock)
    return Mark(clock, CLOSED, clock)


def _learned(
    world: World, peers: range, since: Place, clock: int
) -> dict[tuple[int, int, str], Entry]:
    """The newest entry of each counter that a peer has of region 0."""
    best: dict[tuple[int, int, str], Entry] = {}
    for peer in peers:
        for key, entry in world.regions[peer].entries:
            newer = key[:2] > since or entry.version > clock
            if key[0] == 0 and key[:2] >= since and newer:
                best[key] = max(entry, best.get(key, entry), key=lambda one: one.version)
    return best


def _accounted(world: World, *, again: bool = False) -> World:
    """What no database has may be lost; of a backup from before a fence, what it has alone."""
    regions = world.regions[1:] if again else world.regions
    seen = [region.local for region in regions]
    seen += [entry.value for region in regions for _, entry in region.entries]
    total = reduce(plus, seen)
    gone = {number for number in range(world.counted) if not total[number]}
    return world._replace(excused=world.excused | (gone - world.waiting))


def settled(plan: Plan, world: World) -> World | None:
    """What becomes of a state in which nothing more happens but upkeep; None: there is no end."""
    for _ in range(60):
        move = next(_upkeep(plan, world), None)
        if move is None:
            return world
        world = move[1]
    return None


def _upkeep(plan: Plan, world: World) -> Iterator[tuple[str, World]]:
    yield from greet(plan, world)
    yield from fence(plan, world)
    yield from lands(plan, world)
    for at in range(plan.regions):
        yield from publish(plan, world, at)
        for other in range(plan.regions):
            if other != at:
                for page in pages(world, at, other):
                    after = apply(plan, world, at, page)
                    if after != world:
                        yield "", after


def fault_of(plan: Plan, world: World, done: dict[World, str]) -> str:
    """What is wrong with a state, now or as soon as all is exchanged."""
    for at, region in enumerate(world.regions):
        found = value(plan, region)
        if max(found, default=0) > 1:
            return f"{at} reads {found}: one {TWICE}"
    bare = world._replace(hands=(None,) * plan.regions)
    if bare not in done:
        done[bare] = unsettled(plan, settled(plan, bare))
    return done[bare]


def unsettled(plan: Plan, world: World | None) -> str:
    if world is None:
        return ENDLESS
    found = [value(plan, region) for region in world.regions]
    if max(map(max, found)) > 1:
        return f"one {TWICE}: {found}"
    if len(set(found)) > 1:
        return f"they {DISAGREE}: {found}"
    missed = [n for n in range(world.counted) if not found[0][n] and n not in world.excused]
    return f"{missed} {GONE}" if missed else ""


class Explored(NamedTuple):
    """How many states there are; the first fault, and the shortest way to it."""

    states: int
    fault: str
    trace: tuple[str, ...]


def explore(plan: Plan, most: int = 400_000) -> Explored:
    """Every state, the nearest first, until one is wrong."""
    with without_gc():
        return _explore(plan, most)


def _explore(plan: Plan, most: int) -> Explored:
    first = start(plan)
    origins: dict[World, tuple[World, str] | None] = {first: None}
    todo, done = [first], dict[World, str]()
    for world in todo:
        for label, after in steps(plan, world):
            if after in origins:
                continue
            origins[after] = (world, label)
            fault = fault_of(plan, after, done)
            if fault:
                return Explored(len(origins), fault, _trace(origins, after))
            if len(origins) > most:
                return Explored(len(origins), "too many states", ())
            todo.append(after)
    return Explored(len(origins), "", ())


def _trace(origins: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels, at = [], origins[world]
    while at is not None:
        labels.append(at[1])
        at = origins[at[0]]
    return tuple(reversed(labels))
