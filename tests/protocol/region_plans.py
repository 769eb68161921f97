"""Where regions are explored: what may happen how often, and which rules are left out."""

from __future__ import annotations

from dataclasses import dataclass

from tests.protocol.flaws import Flawed

Amount = tuple[int, ...]
TWICE, GONE, DISAGREE = "is counted twice", "is gone", "do not agree"
ENDLESS = "the exchange has no end"


class Flaw(Flawed):
    """Without which rule regions do not agree."""

    NO_CAS = "a page is applied whatever the cursor says", "a restore", GONE
    NO_GREETING = "a new life publishes without asking", "a restore", DISAGREE
    GREETS_SOME = "a new life asks one peer alone", "three, a restore", DISAGREE
    KEEPS_LABEL = "pages of the former life stay valid", "a restore", DISAGREE
    LABELS_KNOWN = "who has pulled nothing is not greeted", "a restore", DISAGREE
    SAME_INCARNATION = "a restored region goes on in its incarnation", "a restore", ENDLESS
    ASKS_ONE = "a fence asks one peer alone", "three, a restore", DISAGREE
    LEARNS_NOTHING = "a fence does not learn back", "a restore", TWICE
    NO_BASE = "what others have is counted again", "a restore", TWICE
    BASE_WHOLE = "what nobody has is taken for known", "a restore", GONE
    BASE_PUBLISHED = "what others have learned since is counted again", "a restore", TWICE
    NOT_CLOSED = "a fence leaves old pages valid", "a restore", DISAGREE
    NOT_RESERVED = "two fences begin the same incarnation", "two restores", ENDLESS
    TRAFFIC = "increments come in before the fence", "a restore", GONE
    CURSOR_ALONE = "what peers have seen and not pulled is not noticed", "a restore", DISAGREE
    OLD_VERSIONS = "an incarnation that ends keeps its versions", "a restore", DISAGREE
    NOT_SETTLED = "what is published may be in Redis, too", "cached, a restore", TWICE
    EARLY = "what waits in Redis lands before the fence", "cached, a restore", GONE


@dataclass(frozen=True)
class Plan:
    """What may happen, and how often.

    Attributes:
        counters: one letter for each increment: its counter.
        who: the region that makes each increment.
        hands: whether pages may be applied late.
        cached: whether the increments of region 0 wait in a Redis, which is not restored.
        careless: whether increments may come in between a restore and its fence, and be lost.
    """

    name: str
    counters: str
    who: str
    regions: int = 2
    restores: int = 0
    hands: bool = True
    careless: bool = False
    cached: bool = False
    flaw: Flaw | None = None

    @property
    def zero(self) -> Amount:
        return (0,) * len(self.counters)

    def part(self, amount: Amount, counter: str) -> Amount:
        """The increments of one counter."""
        return tuple(
            n if one == counter else 0 for n, one in zip(amount, self.counters, strict=True)
        )


PLANS = (
    Plan("two", "aba", "010"),
    Plan("three", "ab", "01", regions=3, hands=False),
    Plan("a restore", "aba", "000", restores=1),
    Plan("a restore, both count", "aab", "010", restores=1),
    Plan("three, a restore", "ab", "00", regions=3, restores=1, hands=False),
    Plan("three, a restore, late pages", "a", "0", regions=3, restores=1),
    Plan("two restores", "ab", "00", restores=2),
    Plan("cached, a restore", "aa", "00", restores=1, cached=True),
    Plan("cached, three, a restore", "aa", "00", 3, restores=1, hands=False, cached=True),
    Plan("cached, two restores", "ab", "00", restores=2, hands=False, cached=True),
    Plan("traffic before the fence", "aab", "000", restores=1, careless=True),
)
