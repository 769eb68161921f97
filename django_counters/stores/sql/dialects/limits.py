"""The statements of rate limits."""

from __future__ import annotations

from dataclasses import dataclass

LIMITS = "django_counters_counterlimit"


@dataclass(frozen=True)
class Limits:
    """The statements that take from buckets. Times are microseconds, "now" is the server's clock.

    Attributes:
        take: make the bucket, or move its arrival, unless it has too little left. Parameters by
            name: ``digest``, ``cost``, ``full`` (what a full bucket holds). Rows: how far ahead of
            now the arrival is; none where there was too little.
        ahead: parameters: digest. Rows: how far ahead of now the arrival is.
        prune: forget some buckets that are full again, in the order of their digests. Parameters:
            the last digest of the page before, how many at most. Rows: digest.
    """

    take: str
    ahead: str
    prune: str


def take(now: str) -> str:
    """One statement, so that nobody comes between the look and the change.

    Whoever waits for the row evaluates ``now`` when it has it, not before. An arrival that is
    further ahead than any can be is of a clock that was set back: the bucket counts as nearly
    empty, or it would refuse until the clock is there again.
    """
    strange = f"l.arrival > {now} + %(full)s + %(full)s"
    return (
        f"INSERT INTO {LIMITS} AS l (digest, arrival) VALUES (%(digest)s, {now} + %(cost)s) "
        "ON CONFLICT (digest) DO UPDATE SET arrival = CASE "
        f"WHEN l.arrival <= {now} THEN {now} WHEN {strange} "
        f"THEN {now} + %(full)s - %(cost)s ELSE l.arrival END + %(cost)s "
        f"WHERE l.arrival + %(cost)s <= {now} + %(full)s OR {strange} "
        f"RETURNING arrival - {now}"
    )


def ahead(now: str) -> str:
    """How far ahead of now the arrival of a bucket is."""
    return f"SELECT arrival - {now} FROM {LIMITS} WHERE digest = %s"


def page(name: str, now: str) -> str:
    """Some buckets that are full again."""
    return (
        f"SELECT {name} FROM {LIMITS} WHERE digest > %s AND arrival <= {now} "
        "ORDER BY digest LIMIT %s"
    )
