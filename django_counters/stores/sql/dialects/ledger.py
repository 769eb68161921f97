"""The statements of the ledger: what they are for, their parameters and their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django_counters.stores.base import Outcome as Outcome
from django_counters.stores.sql.dialects.tables import (
    ARCHIVE,
    COUNTER,
    DELTAS,
    HORIZON,
    PARTITIONS,
    SHARDS,
)

# The kind of an entry that corrects.
ADJUSTMENT = 1


class Entry(NamedTuple):
    """An entry with a token, as its statement takes it."""

    key: str
    delta: int
    token: UUID
    created_at: Any
    digest: bytes


@dataclass(frozen=True)
class Appends:
    """The statements that write entries.

    Attributes:
        one: with a token that the database makes. Parameters: key, delta. Rows: token, or NULL
            where it is refused.
        once: with a token. Parameters: an `Entry`. Rows: outcome.
        many: as ``one``. Parameters: keys, deltas. Rows: outcome, key.
        many_once: as ``once``. Parameters: what ``arrange`` makes. Rows: outcome, the token that it
            concerns, how many were there before.
        open: make the totals that entries need. Parameters: keys.
        over: a counter whose total cannot take what it is given. Parameters: keys, deltas.
        adjust: an entry that corrects. Parameters: token, created_at, key, delta.
        copy: the head of a COPY of token, created_at, key, delta.
        check: whether entries may be added now. Rows: outcome, the moment.
    """

    one: str
    once: str
    many: str
    many_once: str
    arrange: Callable[[Sequence[Entry]], tuple[Any, ...]]
    open: str
    over: str
    adjust: str
    copy: str
    check: str


@dataclass(frozen=True)
class PlainAppends:
    """The statements that write entries where there are no functions, and one writer at a time.

    Attributes:
        open: make the totals that entries need. Parameters: keys.
        add: parameters: what ``arrange`` makes. Rows: the tokens that were not there.
        adjust: an entry that corrects. Parameters: token, created_at, key, delta.
        over: a counter whose total cannot take what it is given. Parameters: keys and deltas.
        present: parameters: tokens. Rows: token, key, delta.
        claimed: parameters: digests. Rows: those that were used by counters without a ledger.
    """

    open: str
    add: str
    adjust: str
    over: str
    present: str
    claimed: str
    arrange: Callable[[Sequence[Entry]], tuple[Any, ...]]


@dataclass(frozen=True)
class Inquiry:
    """The statements that ask the ledger.

    Attributes:
        total: parameters: key. Rows: total, as of.
        history: parameters: moments, key, since, until. Rows: number of a bucket, sum, count.
        after: total, pending, and the sum of what is later than a moment. Parameters: key, moment,
            those of ``Reads.one``, which stands where the braces are.
        parts: parameters: ``key`` and ``limit`` by name. Rows: total, shards, tail, outside,
            archived, and of each of the last entries token, time, delta, kind, pending.
        entry: parameters: token. Rows: key, delta.
        kept: until when entries are dropped, and whether a counter ever had one. Parameters: key.
            Rows: a moment or NULL, a boolean or NULL.
        tail: how many entries wait, of how many counters.
        drift: parameters: ``keys`` or None and ``prefix`` by name. Rows: key, what the total should
            have from the ledger, what it has.
        sample: some keys. Parameters: ``prefix`` and ``limit`` by name.
    """

    total: str
    history: str
    after: str
    parts: str
    entry: str
    kept: str
    tail: str
    drift: str
    sample: str


@dataclass(frozen=True)
class Rolling:
    """The statements of the rollup of the ledger.

    Attributes:
        mark: the moment, and the number of the next transaction.
        may_ask: whether ``cluster`` may be asked. Empty where it need not be.
        cluster: the number of this server. Empty where there is none.
        summary: how many entries ``fold`` will fold, of how many counters. Empty where it says so.
        fold: fold all that is finished. Parameters: ``horizon`` and ``fence`` by name. Rows: new
            horizon, entries, counters, keys that did not fit as an array, and keys that did not fit
            before and do now. No row: somebody else moved the horizon.
        hold: let entries wait that did not fit. Parameters: ``keys``, ``horizon``, ``edge`` and
            ``fence`` by name.
        release: let them be rolled up that do now. Parameters: ``keys`` by name.
        advance: move the horizon. Rows: where it is now. Empty where ``fold`` does it.
        isolation: of the transaction.
        numbered: how far entries are numbered. Empty where they are numbered by themselves.
        keep_out: let nobody write until the transaction ends. Empty where nobody can.
        recompute: all totals from the entries. A row for each that changed.
        restart: parameters: none. Rows: the horizon and the fence of a new beginning.
        holders: who holds the horizon back. Rows: what it is, its name, since when, what it does.
    """

    mark: str
    may_ask: str
    cluster: str
    summary: str
    fold: str
    advance: str
    hold: str
    release: str
    isolation: str
    numbered: str
    keep_out: str
    recompute: str
    restart: str
    holders: str


class Extent(NamedTuple):
    """A partition and the time of its entries, as the database has it."""

    name: str
    since: datetime
    until: datetime


@dataclass(frozen=True)
class Partitioning:
    """The statements of partitions. ``format`` puts quoted names into them.

    Attributes:
        partitioned: whether the table has partitions, and its schema. No row: there is none.
        present: rows: name, since, until of each that is attached.
        one_at_a_time: wait for others who make partitions.
        create: make a detached one. ``format``: name, since, until.
        attach: ``format``: name, since, until.
        still: let nobody write to it. ``format``: name.
        unfolded: a row where some of it is not rolled up. ``format``: name.
        close: let nobody write to it ever. ``format``: name.
        archive: keep what it has. ``format``: name. Parameters: name. Rows: entries, sum.
        merge: add what was kept of it to what is kept of all. Parameters: name.
        lock_parent: let nobody use the ledger.
        detach: ``format``: name.
        drop: ``format``: name.
    """

    partitioned: str
    present: str
    one_at_a_time: str
    create: str
    attach: str
    still: str
    unfolded: str
    close: str
    archive: str
    merge: tuple[str, str]
    lock_parent: str
    detach: str
    drop: str


@dataclass(frozen=True)
class Ledger:
    """All statements of the ledger, and how its table is made.

    Attributes:
        partitioned: what follows the definition of the table of entries.
        prepare: statements that make what Django does not know of.
        partitions: None where entries stand in one table.
        forget: delete the entries of before a moment, where there are no partitions. Parameters:
            a moment; statements in turn.
    """

    partitioned: str
    prepare: tuple[str, ...]
    appends: Appends | PlainAppends
    inquiry: Inquiry
    rolling: Rolling
    partitions: Partitioning | None
    forget: tuple[str, ...]


def state(beginning: str) -> str:
    """Horizon, fence, and the time of the tail, also where there is no row of them yet."""
    return (
        "SELECT COALESCE(MAX(horizon), 0) AS h, COALESCE(MAX(fence), 0) AS f, "
        f"COALESCE(MAX(tail_since), {beginning}) AS since FROM {HORIZON}"
    )


IN_TAIL = "e.xid >= s.h AND e.seq > s.f"


def drift(now: str, among: str, whole: str) -> str:
    """Rolled-up entries and archived ones, against what the totals have of them."""
    asked = (
        "(%(keys)s IS NULL OR {key} " + among + ") "
        "AND SUBSTR({key}, 1, LENGTH(%(prefix)s)) = %(prefix)s"
    )
    return (
        "SELECT u.key, SUM(u.due), SUM(u.had) FROM ("
        f"SELECT e.key AS key, SUM(e.delta) AS due, 0 AS had FROM {DELTAS} e, ({now}) s "
        f"WHERE NOT ({IN_TAIL}) AND {asked.format(key='e.key')} GROUP BY e.key UNION ALL "
        f"SELECT key, delta_sum, 0 FROM {ARCHIVE} WHERE partition = '' "
        f"AND {asked.format(key='key')} UNION ALL "
        f"SELECT key, 0, {whole} FROM {COUNTER} WHERE outside IS NOT NULL "
        f"AND {asked.format(key='key')}) u GROUP BY u.key HAVING SUM(u.due) <> SUM(u.had) "
        "ORDER BY u.key"
    )


def parts(now: str, tail: str) -> str:
    """What a value is made of, and the last entries, in one statement and so of one moment."""
    last = f"SELECT * FROM {DELTAS} WHERE key = %(key)s ORDER BY xid DESC, seq DESC LIMIT %(limit)s"
    return (
        f"SELECT t.value, (SELECT SUM(value) FROM {SHARDS} WHERE key = %(key)s), {tail}, "
        "t.outside, "
        f"(SELECT SUM(delta_sum) FROM {ARCHIVE} WHERE partition = '' AND key = %(key)s), "
        "e.token, e.created_at, e.delta, e.kind, e.waits FROM (SELECT 1) one "
        f"LEFT JOIN {COUNTER} t ON t.key = %(key)s "
        f"LEFT JOIN (SELECT e.*, {IN_TAIL} AS waits FROM ({last}) e, ({now}) s) e ON true "
        "ORDER BY e.xid DESC, e.seq DESC"
    )


def after() -> str:
    """Total, pending, and what is later than a moment."""
    return (
        f"SELECT (SELECT SUM(delta) FROM {DELTAS} WHERE key = %s AND created_at > %s), r.* "
        "FROM ({}) r"
    )


def total() -> str:
    """The total, and as of when."""
    return (
        "SELECT t.value, h.as_of FROM (SELECT 1) one "
        f"LEFT JOIN {COUNTER} t ON t.key = %s LEFT JOIN {HORIZON} h ON h.id = 1"
    )


def tail(now: str) -> str:
    """How many entries wait, of how many counters."""
    return f"SELECT COUNT(*), COUNT(DISTINCT e.key) FROM {DELTAS} e, ({now}) s WHERE {IN_TAIL}"


def sample() -> str:
    """Some counters of the ledger."""
    return (
        f"SELECT key FROM {COUNTER} WHERE outside IS NOT NULL "
        "AND SUBSTR(key, 1, LENGTH(%(prefix)s)) = %(prefix)s ORDER BY RANDOM() LIMIT %(limit)s"
    )


KEPT = (
    f"SELECT (SELECT MAX(until) FROM {PARTITIONS} WHERE dropped_at IS NOT NULL), "
    f"(SELECT outside IS NOT NULL FROM {COUNTER} WHERE key = %s)"
)
ENTRY = f"SELECT key, delta FROM {DELTAS} WHERE token = %s"
