"""What is explored, and with which flaw."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tests.protocol.amounts import one
from tests.protocol.state import Flusher, Redis, World


class Flaw(Enum):
    """A protocol that lacks one thing. Each has to be found out."""

    PAGES_OF_TWO = "a read does not mind that the history changed between its pages"
    MINTED_AT_CUT = "the id is minted at the cut"
    NO_TIMELINE = "nobody looks whether the history changed"
    NO_DEDUPE = "what was applied is applied again"
    ACK_FIRST = "acknowledged before it is applied"
    DATABASE_FIRST = "a read asks the database first"
    ACK_ANY = "whatever stands in the place is acknowledged"
    RING_OVERWRITTEN = "a full ring is overwritten"
    RING_STUCK = "a full ring refuses a cut, too"
    BIRTH_BLIND = "a P born from nothing takes the ring to be empty"

    ACK_UNFOLDED = "an acknowledge leaves the base as it is"
    ACK_FOLDS_FOREIGN = "a foreign generation is folded into the base"
    ACK_KEEPS_FOREIGN = "a foreign acknowledge keeps the base"
    ACK_KEEPS_LEASE = "an acknowledge keeps the lease"
    ACK_MISSING_KEEPS = "an acknowledge of what is not there keeps the base"
    ACK_FOLDS_BLINDLY = "what somebody else applied is folded"
    ACK_FOLDS_TOKENS = "a token that counted elsewhere is folded"
    ACK_FOLDS_QUARANTINED = "what was quarantined is folded"
    SEAL_KEEPS_LEASE = "a seal keeps the lease"
    EARLY_KEEPS_LEASE = "an early seal keeps the lease"
    NO_LEASE = "everybody may fill"
    FILL_IGNORES_APPLIED = "filled with what was applied already"
    BASE_WITHOUT_TIMELINE = "the base outlives its history"
    BASE_WITHOUT_LEDGER = "the base leaves out the ledger"
    LEASE_WITHOUT_TIMELINE = "the lease outlives its history"
    GAP_KEEPS_BASE = "an empty place that should be occupied keeps the base"
    BIRTH_KEEPS_BASE = "a P born from nothing keeps the base"
    ADJUST_FORGETS_NOTHING = "an adjustment does not forget"
    SPILL_FORGETS_NOTHING = "a spill does not forget"
    FORGET_KEEPS_LEASE = "a forget keeps the lease"

    TOKEN_IN_SUM = "a token is not taken out of the sum"
    TOKEN_TWICE_IN_LEDGER = "the ledger does not know the token"
    TOKEN_WITHOUT_ENTRY = "a token leaves no entry in P"
    TOKEN_KEY_ONLY = "a token is looked for in its key alone"
    SPILL_WITHOUT_TOKEN = "a spill does not bring its token"

    FENCE_WITHOUT_BIRTH = "the fence does not mind a birth from nothing"
    FENCE_WITHOUT_PARENTS = "the fence does not ask for parents"
    FENCE_STARTS_UNKNOWN = "the fence does not ask for parents at a first flush"
    FENCE_WITHOUT_SEEN = "the fence does not look for what was seen"
    FENCE_WITHOUT_TIMELINE = "the fence does not compare timelines"
    FENCE_MINDS_APPLIED = "the fence minds a birth from nothing that it has minded before"
    FENCE_TRUSTS_CUT = "the fence does not mind what could not be read"
    FENCE_SEEN_LATE = "the fence reads what was seen after the cut"
    FENCE_SEEN_EARLY = "the fence takes the slot for unknown as it was before the cut"

    QUARANTINE_DROPS = "the amount in quarantine is not written down"
    QUARANTINE_BLOCKS = "what does not fit stops its neighbours"


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
        pages: Whether a flusher reads the tokens of a generation before its amounts.
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
