"""What is explored: plans that have to hold, and flaws that have to be found out."""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.plan import Flaw, Plan

PLANS = (
    Plan("flush", "aba", flushers=2, kills=1, crashes=1, drains=True),
    Plan("two crashes", "ab", kills=1, crashes=2, drains=True),
    Plan("a full ring", "aba", kills=1, crashes=1, early=1, drains=True),
    Plan("a ring with gaps", "ab", kills=1, evictions=1, drains=True, reader=True),
    Plan("read", "ab", flushers=2, crashes=1, reader=True),
    Plan("cache", "ab", kills=1, crashes=1, reader=True, cached=True),
    Plan("cache, two flushers", "ab", flushers=2, kills=1, reader=True, cached=True),
    Plan("cache, a ring of one", "ab", ring=1, early=1, crashes=1, reader=True, cached=True),
    Plan("cache, early seals", "aab", early=2, reader=True, cached=True, base_expires=True),
    Plan("cache with gaps", "ab", kills=1, evictions=1, reader=True, cached=True),
    Plan("adjustment", "a", kills=1, crashes=1, reader=True, cached=True, adjust=True),
    Plan("spill", "ab", kills=1, crashes=1, spill=True, reader=True),
    Plan("spill, cache", "ab", kills=1, spill=True, reader=True, cached=True),
    Plan("tokens", "Aa", kills=1, crashes=1, spill=True, tokens_expire=True, drains=True),
    Plan("tokens, pages", "Aa", kills=1, crashes=1, pages=True, drains=True),
    Plan("tokens, read", "A", kills=1, crashes=1, spill=True, tokens_expire=True, reader=True),
    Plan(
        "tokens, cache",
        "Ab",
        kills=1,
        spill=True,
        tokens_expire=True,
        reader=True,
        cached=True,
    ),
    Plan("fence, no fault", "ab", flushers=2, kills=2, early=1, fence=True),
    Plan("fence, evictions", "ab", flushers=2, kills=1, evictions=1, fence=True),
    Plan("fence, early seals", "ab", flushers=2, evictions=1, early=1, fence=True),
    Plan("fence, a crash", "ab", flushers=2, crashes=1, fence=True),
    Plan("quarantine", "ab", kills=1, crashes=1, poisoned="a", drains=True, fence=True),
    Plan(
        "quarantine, cache",
        "ab",
        flushers=2,
        kills=1,
        poisoned="a",
        reader=True,
        cached=True,
        drains=True,
    ),
)

LARGE = (
    Plan("flush, two crashes", "ab", flushers=2, kills=1, crashes=2, drains=True),
    Plan("flush, early seals", "aab", flushers=2, kills=1, crashes=1, early=1, drains=True),
    Plan("cache, three increments", "aab", kills=1, crashes=1, reader=True, cached=True),
    Plan("cache, two and a crash", "ab", flushers=2, crashes=1, reader=True, cached=True),
    Plan("cache, gaps and a crash", "a", evictions=1, crashes=1, reader=True, cached=True),
    Plan("adjustments", "ab", kills=1, crashes=1, reader=True, cached=True, adjust=True),
    Plan(
        "tokens, two flushers",
        "A",
        flushers=2,
        kills=1,
        crashes=1,
        spill=True,
        tokens_expire=True,
        reader=True,
        drains=True,
    ),
    Plan(
        "tokens, cache and a crash",
        "A",
        kills=1,
        crashes=1,
        spill=True,
        tokens_expire=True,
        reader=True,
        cached=True,
    ),
    Plan(
        "tokens, cache with gaps",
        "A",
        kills=1,
        evictions=1,
        spill=True,
        tokens_expire=True,
        reader=True,
        cached=True,
    ),
    Plan("fence, a crash and a kill", "ab", flushers=2, kills=1, crashes=1, fence=True),
    Plan("fence, three increments", "aba", flushers=2, crashes=1, fence=True),
    Plan("fence, long ring", "aba", flushers=2, evictions=1, early=1, fence=True),
    Plan("fence, two losses", "ab", flushers=2, evictions=2, fence=True),
    Plan("fence, both losses", "ab", flushers=2, crashes=1, evictions=1, fence=True),
)


class Found(NamedTuple):
    """Where a flaw is found out, and as what."""

    plan: str
    fault: str


_GONE = Found("flush", "acknowledged and gone")
_TWICE = Found("flush", "counted twice in the database")
_CACHE = "a cached read"
_UNNOTICED = "a loss, and no incident"

FLAWS = {
    Flaw.PAGES_OF_TWO: Found("tokens, pages", "a sum that it is not in"),
    Flaw.MINTED_AT_CUT: _TWICE,
    Flaw.NO_TIMELINE: _GONE,
    Flaw.NO_DEDUPE: _TWICE,
    Flaw.ACK_FIRST: _GONE,
    Flaw.ACK_ANY: _GONE,
    Flaw.DATABASE_FIRST: Found("read", "an exact read"),
    Flaw.RING_OVERWRITTEN: Found("a full ring", "acknowledged and gone"),
    Flaw.RING_STUCK: Found("a full ring", "cannot be flushed"),
    Flaw.BIRTH_BLIND: Found("a ring with gaps", "cannot be flushed"),
    Flaw.ACK_UNFOLDED: Found("cache", _CACHE),
    Flaw.ACK_FOLDS_FOREIGN: Found("cache", _CACHE),
    Flaw.ACK_KEEPS_FOREIGN: Found("cache", _CACHE),
    Flaw.ACK_KEEPS_LEASE: Found("cache", _CACHE),
    Flaw.ACK_MISSING_KEEPS: Found("cache", _CACHE),
    Flaw.ACK_FOLDS_BLINDLY: Found("quarantine, cache", _CACHE),
    Flaw.ACK_FOLDS_TOKENS: Found("tokens, cache", _CACHE),
    Flaw.ACK_FOLDS_QUARANTINED: Found("quarantine, cache", _CACHE),
    Flaw.SEAL_KEEPS_LEASE: Found("cache", _CACHE),
    Flaw.EARLY_KEEPS_LEASE: Found("cache, early seals", _CACHE),
    Flaw.NO_LEASE: Found("cache", _CACHE),
    Flaw.FILL_IGNORES_APPLIED: Found("cache", _CACHE),
    Flaw.BASE_WITHOUT_TIMELINE: Found("cache", _CACHE),
    Flaw.BASE_WITHOUT_LEDGER: Found("spill, cache", _CACHE),
    Flaw.LEASE_WITHOUT_TIMELINE: Found("cache, a ring of one", _CACHE),
    Flaw.GAP_KEEPS_BASE: Found("cache with gaps", _CACHE),
    Flaw.BIRTH_KEEPS_BASE: Found("cache with gaps", _CACHE),
    Flaw.ADJUST_FORGETS_NOTHING: Found("adjustment", _CACHE),
    Flaw.SPILL_FORGETS_NOTHING: Found("spill, cache", _CACHE),
    Flaw.FORGET_KEEPS_LEASE: Found("adjustment", _CACHE),
    Flaw.TOKEN_IN_SUM: Found("tokens", "counted twice in the database"),
    Flaw.TOKEN_TWICE_IN_LEDGER: Found("tokens", "counted twice in the database"),
    Flaw.TOKEN_WITHOUT_ENTRY: Found("tokens", "counted twice in the database"),
    Flaw.TOKEN_KEY_ONLY: Found("tokens", "counted twice in the database"),
    Flaw.SPILL_WITHOUT_TOKEN: Found("tokens", "counted twice in the database"),
    Flaw.FENCE_WITHOUT_BIRTH: Found("fence, evictions", _UNNOTICED),
    Flaw.FENCE_WITHOUT_PARENTS: Found("fence, evictions", _UNNOTICED),
    Flaw.FENCE_STARTS_UNKNOWN: Found("fence, evictions", _UNNOTICED),
    Flaw.FENCE_WITHOUT_SEEN: Found("fence, evictions", _UNNOTICED),
    Flaw.FENCE_WITHOUT_TIMELINE: Found("fence, a crash", _UNNOTICED),
    Flaw.FENCE_MINDS_APPLIED: Found("fence, no fault", "an incident, and nothing was lost"),
    Flaw.FENCE_TRUSTS_CUT: Found("fence, early seals", _UNNOTICED),
    Flaw.FENCE_SEEN_LATE: Found("fence, no fault", "an incident, and nothing was lost"),
    Flaw.FENCE_SEEN_EARLY: Found("fence, evictions", _UNNOTICED),
    Flaw.QUARANTINE_DROPS: Found("quarantine", "acknowledged and gone"),
    Flaw.QUARANTINE_BLOCKS: Found("quarantine", "cannot be flushed"),
}
