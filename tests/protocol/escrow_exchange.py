"""How regions tell each other what they have sent, and how one that was restored begins anew.

The protocol of `regions`, where any region may be restored, and several at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.escrow_world import (
    CLOSED,
    OPEN,
    RESTORED,
    RIGHTS,
    Entry,
    Flaw,
    Key,
    Mark,
    Page,
    Place,
    Plan,
    Region,
    Steps,
    World,
    items,
    swapped,
)

Known = dict[tuple[int, int, Key], Entry]


def exchange(plan: Plan, world: World) -> Steps:
    """What upkeep does, in whatever order."""
    for at in range(len(world.regions)):
        yield from publish(plan, world, at)
        for other in range(len(world.regions)):
            if other != at and world.phases[at] == OPEN:
                yield from pull(plan, world, at, other)
        page = world.hands[at]
        if page is not None:
            yield f"{at} goes on", apply(plan, world, at, page).hold(at, None)
        yield from greet(world, at)
        yield from fence(plan, world, at)


def publish(plan: Plan, world: World, at: int) -> Steps:
    """One page of all that has changed: the clock and the entries in one transaction."""
    region, place = world.regions[at], (at, world.regions[at].incarnation)
    mark = dict(region.marks)[place]
    if world.phases[at] != OPEN or mark.life != world.lives[at]:
        return
    clock, known = mark.position + 1, dict(region.entries)
    changed: Known = {}
    for key, value in region.local:
        own = known.get((*place, key), Entry(0, 0, 0))
        assert own.base is not None
        if (plan.read or key[0] == "sent") and value - own.base != own.value:
            changed[*place, key] = Entry(clock, value - own.base, own.base)
    if changed:
        marks = {**dict(region.marks), place: Mark(clock, mark.life, clock)}
        after = region._replace(entries=items({**known, **changed}), marks=items(marks))
        yield f"{at} publishes", world.put(at, after)


def pull(plan: Plan, world: World, at: int, other: int) -> Steps:
    """Copy the next page of the first incarnation of another region that is not done."""
    for page in pages(world, at, other):
        if (copied := apply(plan, world, at, page)) != world:
            yield f"{at} pulls of {other}", copied
            if plan.hands and page.entries and world.hands[at] is None:
                yield f"{at} pulls of {other}, and stands still", world.hold(at, page)
            return


def pages(world: World, at: int, other: int) -> Iterator[Page]:
    """The next page of each incarnation of another region; an empty one of what is unknown."""
    mine, there = dict(world.regions[at].marks), world.regions[other]
    for place, mark in there.marks:
        if place[0] != other:
            continue
        before = mine.get(place, Mark())
        entries = {
            key: entry._replace(base=None)
            for key, entry in there.entries
            if key[:2] == place and entry.version > before.position
        }
        if entries:
            last = max(entry.version for entry in entries.values())
            yield Page(place, before.position, Mark(last, mark.life, mark.position), items(entries))
        elif place not in mine:
            yield Page(place, 0, before, ())


def apply(plan: Plan, world: World, at: int, page: Page) -> World:
    """Entries and cursor in one transaction: a compare-and-set of place and life.

    The entries of an incarnation that has ended are final, whatever life was known.
    """
    region = world.regions[at]
    mark = dict(region.marks).get(page.place, Mark())
    final = page.after.life == CLOSED and not plan.lacks(Flaw.OLD_END)
    if mark.position != page.before or not (final or mark.life in (0, page.after.life)):
        return world
    marks = {**dict(region.marks), page.place: page.after}
    newer = _newer(dict(region.entries), page.entries)
    return world.put(at, region._replace(entries=items(newer), marks=items(marks)))


def _newer(known: Known, entries: tuple[tuple[tuple[int, int, Key], Entry], ...]) -> Known:
    """The newest version wins."""
    for key, entry in entries:
        if key not in known or known[key].version < entry.version:
            known[key] = entry._replace(base=None)
    return known


def others(world: World, at: int) -> list[int]:
    return [other for other in range(len(world.regions)) if other != at]


def _known_of(world: World, at: int) -> dict[int, list[Mark]]:
    """What the others know of each incarnation of a region."""
    found: dict[int, list[Mark]] = {}
    for peer in others(world, at):
        for (who, incarnation), mark in world.regions[peer].marks:
            if who == at:
                found.setdefault(incarnation, []).append(mark)
    return found


def is_ahead(world: World, at: int) -> bool:
    """Whether another region knows more of a region than itself."""
    region, known = world.regions[at], _known_of(world, at)
    clock = dict(region.marks)[at, region.incarnation].position
    marks = known.get(region.incarnation, [])
    later = max(known, default=0) > region.incarnation
    return later or any(mark.seen > clock or mark.life == CLOSED for mark in marks)


def restores(plan: Plan, world: World) -> Steps:
    for at in plan.restorable if world.restores < plan.restores else ():
        backup = world.backups[at]
        if backup is None:
            backups = swapped(world.backups, at, world.regions[at])
            yield f"backup of {at}", world._replace(backups=backups)
            continue
        after = world.put(at, backup).hold(at, None).phase(at, RESTORED)
        yield (
            f"restore of {at}",
            after._replace(
                lives=swapped(world.lives, at, world.lives[at] + 1),
                restores=world.restores + 1,
                dues=tuple(due for due in world.dues if due[0] != at),
                debts=tuple(debt for debt in world.debts if debt[0] != at),
            ),
        )


def restarts(plan: Plan, world: World) -> Steps:
    for at in range(len(world.regions)) if world.restarts < plan.restarts else ():
        after = world.hold(at, None)._replace(restarts=world.restarts + 1)
        # A fence that dies begins again.
        after = after.phase(at, RESTORED if world.phases[at] else OPEN)
        lives = swapped(world.lives, at, world.lives[at] + 1)
        yield f"restart of {at}", after._replace(lives=lives)


def greet(world: World, at: int) -> Steps:
    """A new life asks all others before it publishes, and tells them."""
    region = world.regions[at]
    life = dict(region.marks)[at, region.incarnation].life
    if world.phases[at] == OPEN and life != world.lives[at] and not is_ahead(world, at):
        yield f"{at} greets", _greeted(world, at)


def fence(plan: Plan, world: World, at: int) -> Steps:
    """Close what peers know, then learn it back and begin anew, though nobody knows more."""
    if world.phases[at] == OPEN:
        return
    region, known = world.regions[at], _known_of(world, at)
    new = max([*known, region.incarnation]) + 1
    if plan.lacks(Flaw.WHERE_KNOWN) and not is_ahead(world, at):
        yield f"{at} greets", _greeted(world, at)
    elif world.phases[at] == RESTORED:
        yield f"{at} closes its pages", _closed(world, at, new).phase(at, new)
    else:
        yield f"{at} begins anew", _begun(plan, world, at, world.phases[at]).phase(at, OPEN)


def _greeted(world: World, at: int) -> World:
    place = (at, world.regions[at].incarnation)
    for region in range(len(world.regions)):
        known = dict(world.regions[region].marks).get(place, Mark())
        world = _marked(world, region, {place: known._replace(life=world.lives[at])})
    return world.phase(at, OPEN)


def _marked(world: World, at: int, marks: dict[Place, Mark]) -> World:
    region = world.regions[at]
    return world.put(at, region._replace(marks=items({**dict(region.marks), **marks})))


def _closed(world: World, at: int, new: int) -> World:
    """Pages of what ends are of no use any more. The next number is taken, in this life."""
    for peer in others(world, at):
        marks = dict(world.regions[peer].marks)
        ended = range(world.regions[at].incarnation, new)
        closed = {(at, one): marks.get((at, one), Mark())._replace(life=CLOSED) for one in ended}
        world = _marked(world, peer, {**closed, (at, new): Mark(0, world.lives[at])})
    return world


def _begun(plan: Plan, world: World, at: int, new: int) -> World:
    """One transaction, which holds the lock of who receives."""
    region, known = world.regions[at], _known_of(world, at)
    first = (at, region.incarnation)
    clock = dict(region.marks)[first].position
    seen = {one: [mark.seen for mark in known.get(one, [])] for one in range(first[1], new)}
    later = any(any(seen[one]) for one in seen if one > first[1])
    learned = _learned(world, at, 0 if later else clock)
    entries = {
        key: entry._replace(base=None) if key[:2] == first else entry
        for key, entry in region.entries
        if not (later and key[0] == at and key[:2] >= first)
    }
    entries.update(learned)
    region = _frozen(plan, region)
    for key, value in region.local:
        own = dict(region.entries).get((*first, key), Entry(0, 0, 0))
        assert own.base is not None
        whole = later or (*first, key) in learned
        base = value if whole else own.base + own.value
        entries[at, new, key] = Entry(0, 0, 0 if key == RIGHTS else base)
    marks = dict(region.marks)
    for one, clocks in seen.items():
        marks[at, one] = _ended(plan, entries, (at, one), max([clock, *clocks]))
    marks[at, new] = Mark(0, world.lives[at])
    if not plan.lacks(Flaw.KEEPS_LABELS):
        _relabel(world, at, marks)
    begun = region._replace(incarnation=new, entries=items(entries), marks=items(marks))
    return world.put(at, begun)


def _learned(world: World, at: int, clock: int) -> Known:
    """The newest entry of each counter that a peer has of a region."""
    best: Known = {}
    first = (at, world.regions[at].incarnation)
    for peer in others(world, at):
        for key, entry in world.regions[peer].entries:
            if key[0] == at and key[:2] >= first and (key[:2] > first or entry.version > clock):
                best[key] = max(entry, best.get(key, entry), key=lambda one: one.version)
    return best


def _ended(plan: Plan, entries: Known, place: Place, clock: int) -> Mark:
    """All entries of an incarnation that ends get new versions. Rights that were are none."""
    for key in sorted(key for key in entries if key[:2] == place):
        clock += 1
        gone = key[2] == RIGHTS and not plan.lacks(Flaw.RIGHTS_COUNT)
        entries[key] = Entry(clock, 0 if gone else entries[key].value)
    return Mark(clock, CLOSED, clock)


def _relabel(world: World, at: int, marks: dict[Place, Mark]) -> None:
    """What a backup knew of the lives of others is of no use: ask them. Nobody holds a page."""
    for peer in others(world, at):
        for place, theirs in world.regions[peer].marks:
            if place[0] == peer and place in marks and marks[place].life != CLOSED:
                marks[place] = marks[place]._replace(life=theirs.life)


def _frozen(plan: Plan, region: Region) -> Region:
    """Nobody can tell which rights are left."""
    rights = 0 if plan.lacks(Flaw.NOT_FROZEN) else -region.has(RIGHTS)
    return region.add((RIGHTS, rights))
