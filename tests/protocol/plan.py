"""What is explored, and with which flaw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tests.protocol.amounts import one
from tests.protocol.flaws import Flawed
from tests.protocol.state import Flusher, Redis, World

CELLS, MEMBERS = "not what is counted", "not who was counted"
GONE, TWICE, CACHE = "acknowledged and gone", "counted twice in the database", "a cached read"
STUCK, UNNOTICED = "cannot be flushed", "a loss, and no incident"
NO_LOSS = "an incident, and nothing was lost"


class Flaw(Flawed):
    """Without which rule cached counters are wrong."""

    PAGES_OF_TWO = "pages of two histories are read as one", "tokens, pages", CELLS
    MINTED_AT_CUT = "the id is minted at the cut", "flush", TWICE
    NO_TIMELINE = "nobody looks whether the history changed", "flush", GONE
    NO_DEDUPE = "what was applied is applied again", "flush", TWICE
    ACK_FIRST = "acknowledged before it is applied", "flush", GONE
    DATABASE_FIRST = "a read asks the database first", "read", "an exact read"
    ACK_ANY = "whatever stands in the place is acknowledged", "flush", GONE
    RING_OVERWRITTEN = "a full ring is overwritten", "a full ring", GONE
    RING_STUCK = "a full ring refuses a cut, too", "a full ring", STUCK
    BIRTH_BLIND = "a P born from nothing takes the ring to be empty", "a ring with gaps", STUCK

    ACK_UNFOLDED = "an acknowledge leaves the base as it is", "cache", CACHE
    ACK_FOLDS_FOREIGN = "a foreign generation is folded into the base", "cache", CACHE
    ACK_KEEPS_FOREIGN = "a foreign acknowledge keeps the base", "cache", CACHE
    ACK_KEEPS_LEASE = "an acknowledge keeps the lease", "cache", CACHE
    ACK_MISSING_KEEPS = "an acknowledge of what is not there keeps the base", "cache", CACHE
    ACK_FOLDS_BLINDLY = "what somebody else applied is folded", "quarantine, cache", CACHE
    ACK_FOLDS_TOKENS = "a token that counted elsewhere is folded", "tokens, cache", CACHE
    ACK_FOLDS_QUARANTINED = "what was quarantined is folded", "quarantine, cache", CACHE
    SEAL_KEEPS_LEASE = "a seal keeps the lease", "cache", CACHE
    EARLY_KEEPS_LEASE = "an early seal keeps the lease", "cache, early seals", CACHE
    NO_LEASE = "everybody may fill", "cache", CACHE
    FILL_IGNORES_APPLIED = "filled with what was applied already", "cache", CACHE
    BASE_WITHOUT_TIMELINE = "the base outlives its history", "cache", CACHE
    BASE_WITHOUT_LEDGER = "the base leaves out the ledger", "spill, cache", CACHE
    LEASE_WITHOUT_TIMELINE = "the lease outlives its history", "cache, a ring of one", CACHE
    GAP_KEEPS_BASE = "an empty place keeps the base", "cache with gaps", CACHE
    BIRTH_KEEPS_BASE = "a P born from nothing keeps the base", "cache with gaps", CACHE
    ADJUST_FORGETS_NOTHING = "an adjustment does not forget", "adjustment", CACHE
    SPILL_FORGETS_NOTHING = "a spill does not forget", "spill, cache", CACHE
    KNOWN_WITHOUT_LEASE = "what is known is renewed without a lease", "cache, turns", CACHE
    TURN_FOREVER = "a turn does not end with who has it", "cache, turns", "nobody may ask"
    FORGET_KEEPS_LEASE = "a forget keeps the lease", "adjustment", CACHE

    TOKEN_IN_SUM = "a token is not taken out of the sum", "tokens", TWICE
    TOKEN_TWICE_IN_LEDGER = "the ledger does not know the token", "tokens", TWICE
    TOKEN_WITHOUT_ENTRY = "a token leaves no entry in P", "tokens", TWICE
    TOKEN_KEY_ONLY = "a token is looked for in its key alone", "tokens", TWICE
    SPILL_WITHOUT_TOKEN = "a spill does not bring its token", "tokens", TWICE

    FENCE_WITHOUT_BIRTH = "a birth from nothing is not minded", "fence, evictions", UNNOTICED
    FENCE_WITHOUT_PARENTS = "the fence does not ask for parents", "fence, evictions", UNNOTICED
    FENCE_STARTS_UNKNOWN = "a first flush does not ask for parents", "fence, evictions", UNNOTICED
    FENCE_WITHOUT_SEEN = "the fence does not look for what was seen", "fence, evictions", UNNOTICED
    FENCE_WITHOUT_TIMELINE = "the fence does not compare timelines", "fence, a crash", UNNOTICED
    FENCE_MINDS_APPLIED = "a birth from nothing is minded twice", "fence, no fault", NO_LOSS
    FENCE_TRUSTS_CUT = "what could not be read is not minded", "fence, early seals", UNNOTICED
    FENCE_SEEN_LATE = "the fence reads what was seen after the cut", "fence, no fault", NO_LOSS
    FENCE_SEEN_EARLY = "the slot is known as before the cut", "fence, evictions", UNNOTICED

    QUARANTINE_DROPS = "the amount in quarantine is not written down", "quarantine", GONE
    QUARANTINE_BLOCKS = "what does not fit stops its neighbours", "quarantine", STUCK

    CELL_ELSEWHERE = "a cell waits in another generation than its counter", "flush", CELLS
    CELLS_WITHOUT_CLAIM = "a generation that has landed lands its cells again", "flush", CELLS
    CELLS_OF_REFUSED = "the cells of what is refused are landed", "quarantine", CELLS
    SPILL_WITHOUT_CELL = "a spill forgets its cell", "tokens", CELLS
    TOKEN_CELL_AGAIN = "a token that was counted lands its cell again", "tokens", CELLS
    TOKEN_CELL_AT_ONCE = "the cell of a token waits beside its entry", "tokens", CELLS
    TOKEN_CELL_REFUSED = "a full total refuses the cell of a token", "tokens, quarantine", CELLS
    DISCARD_LEAVES_CELLS = "a discarded counter leaves its cells", "deletion", CELLS
    ACK_BEFORE_UNION = "acknowledged before the union of its members", "flush", MEMBERS
    MEMBERS_OF_DELETED = "members of a deleted record are landed", "deletion", MEMBERS
    CELLS_OF_DELETED = "cells of a deleted record are landed", "deletion", CELLS


@dataclass(frozen=True)
class Plan:
    """What may happen, and how often.

    Attributes:
        counters: One letter for each increment: its counter. A capital letter has a token.
        tries: How often an increment with a token is sent to Redis.
        crashes: How often Redis comes back with an older state and a new timeline.
        kills: How often a flusher dies, or does not get the answer to its COMMIT.
        evictions: How often a generation is lost by eviction, DEL or FLUSHALL.
        early: The length at which an open generation is sealed by who adds to it; 0: never.
        poisoned: The counter that nothing fits into.
        pages: Whether a flusher reads the tokens and cells of a generation before its amounts.
        deletes: Whether the record of the first counter is deleted, and what waits for it after
            that.
        turns: Whether a total is asked for before it is too old, by one reader, who may die.
        drains: Whether to flush everything from each state in which all flushers are idle.
    """

    name: str
    counters: str
    flushers: int = 1
    ring: int = 2
    tries: int = 2
    crashes: int = 0
    kills: int = 0
    evictions: int = 0
    early: int = 0
    poisoned: str = ""
    reader: bool = False
    cached: bool = False
    base_expires: bool = False
    tokens_expire: bool = False
    spill: bool = False
    adjust: bool = False
    fence: bool = False
    pages: bool = False
    deletes: bool = False
    turns: bool = False
    drains: bool = False
    flaw: Flaw | None = None

    @cached_property
    def increments(self) -> int:
        return len(self.counters)

    @cached_property
    def adjustment(self) -> int:
        """The adjustment is one more increment, of the first counter."""
        return one(self.increments)

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """For each counter, 7 in the digits of its increments."""
        named = self.counters.lower() + self.counters[0].lower()
        return tuple(
            sum(7 * one(i) for i, name in enumerate(named) if name == counter)
            for counter in sorted(set(named))
        )

    @cached_property
    def poison(self) -> int:
        named = self.counters.lower()
        return sum(7 * one(i) for i, name in enumerate(named) if name == self.poisoned)

    def has_token(self, increment: int) -> bool:
        return self.counters[increment].isupper()

    def counters_of(self, amounts: int) -> int:
        """7 in all digits of all counters that have something in the amounts."""
        return sum(mask for mask in self.masks if amounts & mask)

    def start(self) -> World:
        nothing = Redis(None, 0, (None,) * self.ring)
        return World(nothing, flushers=(Flusher(),) * self.flushers)
