"""Stock over regions as a model: what each database has, and which rules there are.

Rights to sell are an ordinary counter of each region. What a region has sent is a counter that only
grows, of the sender and the incarnation of the receiver. What was received is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tests.protocol.flaws import Flawed

OVERSOLD, BELOW = "are sold of", "below 0"
ASTRAY, DISAGREE, MISREAD = "do not add up", "do not agree", "reads other rights than it has"
STUCK = "does not arrive"
CLOSED = -1
#: The phase of a region that counts, and of one that was restored. Else: the number of the
#: incarnation that its fence has reserved.
OPEN, RESTORED = 0, -1


class Flaw(Flawed):
    """Without which rule more is sold than there is, or something is lost."""

    NO_FLOOR = "it is sold without rights", "two", BELOW
    TWO_TRANSACTIONS = "a transfer is paid later", "two", ASTRAY
    NO_LOCK = "two receive at the same time", "two", ASTRAY
    FENCE_UNLOCKED = "a fence does not wait for who receives", "a restore", OVERSOLD
    LAST_INCARNATION = "what earlier incarnations have sent is forgotten", "given back", STUCK
    NOT_FROZEN = "a fence leaves rights as they are", "a restore", OVERSOLD
    WHERE_KNOWN = "a fence freezes only where a peer knows more", "a restore", OVERSOLD
    SOLD_EARLY = "it is sold before the fence", "a restore", OVERSOLD
    SENT_EARLY = "it is sent before the fence", "a restore", OVERSOLD
    NOT_ADDRESSED = "a transfer does not say to which incarnation", "a restore", OVERSOLD
    RIGHTS_COUNT = "rights that ended are read", "a restore, all is read", MISREAD
    KEEPS_LABELS = "a fence keeps what it knew of the lives of others", "a restart", DISAGREE
    OLD_END = "the end of an incarnation has a life, too", "two restores", DISAGREE


@dataclass(frozen=True)
class Plan:
    """What may happen, and how often.

    Attributes:
        stock: the rights of each region at first.
        restorable: which regions may be restored, each from one backup.
        amounts: how much may be sent at once.
        read: whether rights and what was received are published, too.
        hands: whether pages may be applied late.
        decisions: how many rights somebody may give back to a restored region.
        restarts: how many servers may start anew with all that they had.
    """

    name: str
    stock: tuple[int, ...]
    transfers: int
    restores: int = 0
    restorable: tuple[int, ...] = (0, 1)
    amounts: tuple[int, ...] = (1,)
    read: bool = False
    hands: bool = False
    decisions: int = 0
    restarts: int = 0
    flaw: Flaw | None = None

    @property
    def addressed(self) -> bool:
        return self.flaw is not Flaw.NOT_ADDRESSED

    def lacks(self, *flaws: Flaw) -> bool:
        return self.flaw in flaws


Place = tuple[int, int]
Key = tuple[str, int, int]
RIGHTS: Key = ("rights", 0, 0)
Items = tuple[tuple[Key, int], ...]


def sent(to: int, incarnation: int) -> Key:
    return ("sent", to, incarnation)


def received(incarnation: int, of: int) -> Key:
    return ("received", incarnation, of)


class Entry(NamedTuple):
    """What a region has counted, as a database knows it. ``base``: of its own, at present."""

    version: int
    value: int
    base: int | None = None


Entries = tuple[tuple[tuple[int, int, Key], Entry], ...]


class Mark(NamedTuple):
    """How far an incarnation is, in which life. See `IncarnationMark`."""

    position: int = 0
    life: int = 0
    seen: int = 0


class Region(NamedTuple):
    """The database of one region. Dictionaries are sorted tuples of their items."""

    local: Items
    incarnation: int = 1
    entries: Entries = ()
    marks: tuple[tuple[Place, Mark], ...] = ()

    def has(self, key: Key) -> int:
        return dict(self.local).get(key, 0)

    def add(self, *changes: tuple[Key, int]) -> Region:
        local = dict(self.local)
        for key, by in changes:
            local[key] = local.get(key, 0) + by
        return self._replace(local=items(local))

    def sum(self, of: int, key: Key) -> int:
        """What this database knows of a counter of a region, over all its incarnations."""
        parts = [e for (who, _, one), e in self.entries if who == of and one == key]
        return sum(e.value if e.base is None else -e.base for e in parts)


class Page(NamedTuple):
    """What somebody has read in another region, and holds in his hand."""

    place: Place
    before: int
    after: Mark
    entries: Entries


class World(NamedTuple):
    """One state.

    Attributes:
        lives: what the server of each region says of itself.
        phases: `OPEN`, `RESTORED`, or the incarnation that a fence has reserved.
        dues: who has read how much he is going to receive: region, sender, the key, amount.
        debts: what was sent and is not paid: region, amount.
    """

    regions: tuple[Region, ...]
    hands: tuple[Page | None, ...]
    lives: tuple[int, ...]
    phases: tuple[int, ...]
    backups: tuple[Region | None, ...]
    sold: int = 0
    transfers: int = 0
    restores: int = 0
    decisions: int = 0
    restarts: int = 0
    dues: tuple[tuple[int, Key, int], ...] = ()
    debts: tuple[tuple[int, int], ...] = ()

    def put(self, at: int, region: Region) -> World:
        return self._replace(regions=swapped(self.regions, at, region))

    def hold(self, at: int, page: Page | None) -> World:
        return self._replace(hands=swapped(self.hands, at, page))

    def phase(self, at: int, phase: int) -> World:
        return self._replace(phases=swapped(self.phases, at, phase))


Step = tuple[str, World]
Steps = Iterator[Step]

T = TypeVar("T")


def swapped(found: tuple[T, ...], at: int, new: T) -> tuple[T, ...]:
    return (*found[:at], new, *found[at + 1 :])


def items(found: dict) -> tuple:  # type: ignore[type-arg]
    return tuple(sorted(found.items()))


def start(plan: Plan) -> World:
    regions = tuple(
        Region(((RIGHTS, rights),), marks=(((at, 1), Mark(0, 1)),))
        for at, rights in enumerate(plan.stock)
    )
    count = len(regions)
    return World(regions, (None,) * count, (1,) * count, (OPEN,) * count, (None,) * count)
