"""The statements of the ledger: their purpose, parameters and rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.module_loading import import_string

from django_counters.stores.base import Outcome as Outcome
from django_counters.stores.sql.dialects import Dialect, dialect_of
from django_counters.stores.sql.dialects.claims import POSITIONS
from django_counters.stores.sql.dialects.mysql.dialect import absent
from django_counters.stores.sql.dialects.spelling import (
    ARCHIVE,
    CHAIN,
    COUNTER,
    DELTAS,
    HORIZON,
    IN_TAIL,
    PARTITIONS,
    SHARDS,
    Spelling,
)

# The kind of an entry that corrects.
ADJUSTMENT = 1

# The source in `CounterPosition`, and the part that has the position of the last dropped entry.
LEDGER, DROPPED = "ledger", "dropped"

# From a moment on, and before another one.
Range = tuple[datetime, datetime]


def outside(column: str, ranges: Iterable[Range]) -> str:
    """Return the condition that a moment is in none of some ranges, to follow other conditions.

    With literals, so that plan and locks leave out the partitions of these ranges.
    """
    return "".join(
        f" AND ({column} < '{since.isoformat()}' OR {column} >= '{until.isoformat()}')"
        for since, until in ranges
    )


def inside(column: str, ranges: Iterable[Range]) -> str:
    """Return the condition that a moment is in one of some ranges, to follow other conditions."""
    each = [
        f"{column} >= '{since.isoformat()}' AND {column} < '{until.isoformat()}'"
        for since, until in ranges
    ]
    return f" AND ({' OR '.join(each)})"


def within(ranges: Iterable[Range]) -> str:
    """Return the condition that a sealed partition ``p`` is in one of some ranges."""
    each = [
        f"p.since >= '{since.isoformat()}' AND p.until <= '{until.isoformat()}'"
        for since, until in ranges
    ]
    return f"({' OR '.join(each) or '1 = 0'})"


class SealedConditions:
    """Conditions of sealed partitions ``p`` whose entries a read does not need.

    Attributes:
        every: all.
        later: all of it is later than a moment. Parameters: ``moment`` by name.
        without_last: none of the last entries of a counter are in it. Parameters: ``key`` and
            ``limit`` by name.
    """

    every = "1 = 1"
    later = "p.since > %(moment)s"
    without_last = every


class AppendedEntry(NamedTuple):
    """An entry with a token, as parameters of its statement."""

    key: str
    delta: int
    token: UUID
    created_at: Any
    digest: bytes


class Extent(NamedTuple):
    """A partition and the time of its entries, as the database has it."""

    name: str
    since: datetime
    until: datetime


class Appends:
    """The statements that write entries.

    Attributes:
        open: make the totals that entries need. Parameters: keys.
        over: a counter whose total cannot take what it is given. Parameters: `sums`.
        adjust: an entry that corrects. Parameters: token, created_at, key, delta.
        one: with a token that the database makes. Parameters: key, delta. Rows: token, or NULL
            where it is refused.
        once: with a token. Parameters: an `AppendedEntry`. Rows: outcome.
        many: as ``one``. Parameters: keys, deltas. Rows: outcome, key.
        many_once: as ``once``. Parameters: what ``arrange`` makes. Rows: outcome, the token that it
            concerns, how many were there before.
        copy: the head of a COPY of token, created_at, key, delta.
        check: whether entries may be added now. Rows: outcome, the moment.
        add: parameters: what ``arrange`` makes. Rows: the tokens that were not there.
        present: parameters: tokens. Rows: token, key, delta.
        claimed: parameters: digests. Rows: those that were used by counters without a ledger.

    The last three do it where one statement cannot append; ``one`` to ``check`` where it can. A
    statement that a database does not need is empty.
    """

    open = over = adjust = one = once = many = many_once = copy = check = ""
    add = present = claimed = ""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    def arrange(self, entries: Sequence[AppendedEntry]) -> tuple[Any, ...]:
        """Return the parameters of entries."""
        return self._in.columns(entries)


class Inquiry:
    """The statements that ask the ledger.

    Sums of partitions are read from the archive where ``within`` is true, and entries of others
    where ``among`` is: ``format`` puts both conditions into statements.

    Attributes:
        total: parameters: key. Rows: total, as of.
        history: parameters: ``moments``, ``key``, ``since``, ``until`` by name. Rows: number of a
            bucket, sum, count.
        after: the sum of later entries than a moment, in two parts, total, and pending. Parameters:
            key, moment, key, those of ``Reads.one``, which stands as ``reads``.
        parts: the parts of a value, and the last entries, of one moment. Parameters: ``key`` and
            ``limit`` by name. Rows: total, shards, tail, outside, archived, and of each of the last
            entries token, time, delta, kind, pending.
        kept: until when entries are dropped, and whether a counter ever had one. Parameters:
            ``key`` by name. Rows: a moment or NULL, a boolean or NULL.
        tail: how many entries wait, of how many counters.
        drift: rolled-up entries and archived ones, against what the totals have of them; pending
            ones, too, if their total was deleted.
            Parameters: ``keys`` or None and ``prefix`` by name. Rows: key, the sum that the total
                should have from the ledger, the sum that it has. Those of ``suspects`` even if both
                are the same.
        recount: the entries of a sealed partition beside what was archived of them. Parameters by
            name: ``since``, ``until``, ``name``, and those of ``drift``. Rows: NULL, entries, sum;
            for each counter that differs its key, and how many and how much there are too many.
        sample: some keys. Parameters: ``prefix`` and ``limit`` by name.
    """

    total = (
        "SELECT t.value, h.as_of FROM (SELECT 1) one "
        f"LEFT JOIN {COUNTER} t ON t.key = %s LEFT JOIN {HORIZON} h ON h.id = 1"
    )
    history: str
    after = (
        f"SELECT (SELECT SUM(d.delta) FROM {DELTAS} d "
        "WHERE d.key = %s AND d.created_at > %s{among}), "
        f"(SELECT SUM(a.delta_sum) FROM {ARCHIVE} a JOIN {PARTITIONS} p ON p.name = a.partition "
        "WHERE a.key = %s AND {within}), r.* FROM ({reads}) r"
    )
    sample = (
        f"SELECT key FROM {COUNTER} WHERE outside IS NOT NULL "
        "AND SUBSTR(key, 1, LENGTH(%(prefix)s)) = %(prefix)s ORDER BY RANDOM() LIMIT %(limit)s"
    )

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        state = spelling.state()
        last = "WHERE d.key = %(key)s{among} ORDER BY d.xid DESC, d.seq DESC LIMIT %(limit)s"
        self.kept = (
            f"SELECT (SELECT MAX(until) FROM {PARTITIONS} WHERE dropped_at IS NOT NULL), COALESCE("
            f"(SELECT c.outside IS NOT NULL FROM {COUNTER} c WHERE c.key = %(key)s), "
            f"({spelling.tail_of('%(key)s')}) IS NOT NULL)"
        )
        self.tail = (
            f"SELECT COUNT(*), COUNT(DISTINCT e.key) FROM {DELTAS} e, ({state}) s WHERE {IN_TAIL}"
        )
        self.parts = (
            f"SELECT t.value, (SELECT SUM(s.value) FROM {SHARDS} s WHERE s.key = %(key)s), "
            f"({spelling.tail_of('%(key)s')}), t.outside, "
            f"(SELECT SUM(a.delta_sum) FROM {ARCHIVE} a "
            "WHERE a.partition = '' AND a.key = %(key)s), "
            "e.token, e.created_at, e.delta, e.kind, e.waits FROM (SELECT 1) one "
            f"LEFT JOIN {COUNTER} t ON t.key = %(key)s LEFT JOIN (SELECT e.*, {IN_TAIL} AS waits "
            f"FROM (SELECT * FROM {DELTAS} d {last}) e, ({state}) s) e ON true "
            "ORDER BY e.xid DESC, e.seq DESC"
        )
        whole = f"{spelling.typed('value', 'numeric')} - outside"
        self.drift = (
            "SELECT u.k, SUM(u.due), SUM(u.had) FROM ("
            f"SELECT e.key AS k, SUM(e.delta) AS due, 0 AS had FROM {DELTAS} e, ({state}) s "
            f"WHERE NOT ({IN_TAIL}) AND {self._asked('e.key')}{{among}} GROUP BY e.key UNION ALL "
            f"SELECT a.key, a.delta_sum, 0 FROM {ARCHIVE} a WHERE (a.partition = '' OR a.partition "
            f"IN (SELECT p.name FROM {PARTITIONS} p WHERE {{within}})) "
            f"AND {self._asked('a.key')} UNION ALL "
            f"SELECT e.key, SUM(e.delta), 0 FROM {DELTAS} e, ({state}) s "
            f"WHERE {IN_TAIL} AND {self._asked('e.key')}{{among}} "
            f"AND NOT EXISTS (SELECT 1 FROM {COUNTER} c "
            "WHERE c.key = e.key AND c.outside IS NOT NULL) GROUP BY e.key UNION ALL "
            f"SELECT c.key, 0, {whole} FROM {COUNTER} c WHERE c.outside IS NOT NULL "
            f"AND {self._asked('c.key')}) u GROUP BY u.k HAVING SUM(u.due) <> SUM(u.had) "
            f"OR u.k {spelling.among('text', '%(suspects)s')} ORDER BY u.k"
        )
        self.recount = (
            "WITH had AS (SELECT e.key, COUNT(*) AS n, SUM(e.delta) AS d "
            f"FROM {DELTAS} e WHERE e.created_at >= %(since)s AND e.created_at < %(until)s "
            f"AND {self._asked('e.key')} GROUP BY e.key), "
            f"kept AS (SELECT a.key, a.entries AS n, a.delta_sum AS d FROM {ARCHIVE} a "
            f"WHERE a.partition = %(name)s AND {self._asked('a.key')}) "
            "SELECT NULL, SUM(n), SUM(d) FROM had UNION ALL "
            "SELECT key, COALESCE(had.n, 0) - COALESCE(kept.n, 0), "
            "COALESCE(had.d, 0) - COALESCE(kept.d, 0) FROM had FULL JOIN kept USING (key) "
            "WHERE COALESCE(had.n, 0) <> COALESCE(kept.n, 0) "
            "OR COALESCE(had.d, 0) <> COALESCE(kept.d, 0)"
        )

    def _asked(self, key: str) -> str:
        none = f"{self._in.typed('%(keys)s', 'text[]')} IS NULL"
        return (
            f"({none} OR {key} {self._in.among('text', '%(keys)s')}) "
            f"AND SUBSTR({key}, 1, LENGTH(%(prefix)s)) = %(prefix)s"
        )


class Rolling:
    """The statements of the rollup of the ledger.

    Attributes:
        mark: the moment, and the number of the next transaction.
        fold: fold all that is finished. Parameters: ``horizon``, ``fence`` and ``since`` by name.
            Rows, where the database knows its horizon: new horizon, entries, counters, keys that
            did not fit as an array, and keys that did not fit before and do now; no row: another
            transaction moved the horizon.
        summary: else: how many entries ``fold`` will fold, of how many counters.
        advance: else: move the horizon. Rows: where it is now.
        may_ask: whether ``cluster`` may be asked.
        cluster: the number of this server.
        hold: let entries wait that did not fit. Parameters: ``keys``, ``horizon``, ``edge`` and
            ``fence`` and ``since`` by name.
        release: let them be rolled up that do now. Parameters: ``keys`` and ``since`` by name.
        isolation: of the transaction.
        numbered: how far entries are numbered.
        keep_out: let no transaction write until the transaction ends.
        recompute: all totals from the entries. A row for each that changed.
        restart: parameters: none. Rows: the horizon and the fence of a new beginning.
        holders: who holds the horizon back. Rows: its kind, its name, since when, its query.
    """

    mark = fold = summary = advance = may_ask = cluster = hold = release = ""
    isolation = numbered = keep_out = restart = holders = ""

    def __init__(self, spelling: Spelling) -> None:
        due = (
            f"SELECT key, SUM(d) AS d FROM (SELECT key, delta AS d FROM {DELTAS} UNION ALL "
            f"SELECT key, delta_sum FROM {ARCHIVE} WHERE partition = '' "
            f"UNION ALL SELECT key, 0 FROM {COUNTER} WHERE outside IS NOT NULL) u GROUP BY key"
        )
        self.recompute = (
            f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
            f"SELECT key, {spelling.whole('d')}, {spelling.now}, 0 FROM ({due}) due WHERE true "
            f"{spelling.ordered('key')} ON CONFLICT (key) DO UPDATE "
            "SET value = COALESCE(t.outside, t.value) + EXCLUDED.value, "
            "outside = COALESCE(t.outside, t.value), updated_at = EXCLUDED.updated_at "
            "WHERE t.value <> COALESCE(t.outside, t.value) + EXCLUDED.value OR t.outside IS NULL "
            "RETURNING key"
        )


class Following:
    """The statements of those who follow the ledger: see `SqlFollowing`.

    Attributes:
        passed: the ranges of sealed partitions that have no entries after a place and below
            ``until``. It is lowered where there are many that have some. Parameters by name:
            ``fence``, ``xid``, ``seq`` of the place, ``until``, ``many``. Rows: ``until``, since,
            until of a range or NULL.
        since: entries after a place. ``format``: ``among`` which entries. Parameters by name:
            ``xid``, ``seq`` and ``token`` of it with its ``created_at``, the number of a
            transaction ``until`` which to look, ``most``. Rows: fence, horizon, the place of the
            last entry that was dropped, whether the entry of the place is there, and of each entry
            token, key, delta, kind, xid, seq; or NULL.
        end: the place after all that is complete. Rows: fence, xid, seq.
        begin: the fence, and the place of the last entry that was dropped.
    """

    passed = since = end = ""

    def __init__(self) -> None:
        fence = f"SELECT COALESCE(MAX(fence), 0) AS f FROM {HORIZON}"
        self.begin = f"SELECT f, ({self.dropped_as_of('CAST(f AS TEXT)')}) FROM ({fence}) s"

    @staticmethod
    def dropped_as_of(fence: str) -> str:
        """The last entry that was dropped, where its place means something."""
        return (
            f"SELECT position FROM {POSITIONS} WHERE source = '{LEDGER}' AND part = '{DROPPED}' "
            f"AND timeline = {fence}"
        )


class Partitioning:
    """The statements of partitions, where there are any. ``format`` puts quoted names into them.

    Attributes:
        partitioned: whether the table has partitions, and its schema. No row: there is none.
        present: rows: name, since, until of each that is attached.
        ranges: the ranges of sealed partitions, those that meet as one. ``format``: ``which`` of
            them, a condition of `SealedConditions`.
        sealed: the ranges of sealed partitions that have some of a time. Parameters: ``since``,
            ``until`` by name.
        locks: how many relations all of them are, and how many locks the server has room for.
        one_at_a_time: wait for others who make partitions.
        create: make a detached one. ``format``: name, since, until.
        attach: ``format``: name, since, until.
        still: let no transaction write to it. ``format``: name.
        unfolded: a row where some of it is not rolled up. ``format``: name.
        last: the place of its last entry, and the first transaction. ``format``: name. Rows: fence,
            first xid, last xid, seq.
        numbered: the highest number of its entries, and how far all are rolled up. ``format``:
            name. Rows: number, fence, horizon.
        close: take no new entry ever. ``format``: name, number, fence, horizon.
        closed: rows: the name of each that is attached, and whether it is closed.
        content: ``format``: name. Rows: how many entries it has, and their sum.
        archive: keep what it has. ``format``: name. Parameters: name. Rows: entries, sum.
        merge: add what was kept of it to what is kept of all. Parameters: name.
        forget: delete the sums that are kept of it. Parameters: name.
        lock_parent: let no transaction use the ledger.
        detach: ``format``: name.
        drop: ``format``: name.
    """

    partitioned = present = ranges = sealed = locks = one_at_a_time = create = attach = still = ""
    unfolded = last = numbered = close = closed = content = archive = merge = forget = ""
    lock_parent = detach = drop = ""


class LedgerStatements:
    """All statements of the ledger, and how its table is made.

    Attributes:
        partition_by: what follows the definition of the table of entries.
        prepare: statements that make what Django does not know of.
        undo: statements that remove what does not go with the table.
        forget: archive, then delete the entries of before a moment, where there are no partitions.
            Parameters: a moment. Rows of the second one: delta, xid, seq.
    """

    partition_by = ""
    prepare: tuple[str, ...]
    undo: tuple[str, ...] = ()
    forget: tuple[str, str]
    appends: Appends
    inquiry: Inquiry
    rolling: Rolling
    following: Following
    partitions = Partitioning()
    sealed = SealedConditions()


class NoLedger(LedgerStatements):
    """Refuse each statement of the ledger. Its table is there, and stays empty."""

    def __init__(self, spelling: Spelling) -> None:
        """Take the same arguments as other statements."""

    prepare = (
        f"CREATE TABLE IF NOT EXISTS {CHAIN} (id bigint PRIMARY KEY) ENGINE = InnoDB",
        f"INSERT IGNORE INTO {CHAIN} (id) VALUES (1)",
    )
    undo = (f"DROP TABLE IF EXISTS {CHAIN}",)
    appends = inquiry = rolling = following = absent("ledger")


def statements(using: str) -> LedgerStatements:
    """Return the statements of the ledger for a database."""
    return _statements(dialect_of(using))


@cache
def _statements(dialect: Dialect) -> LedgerStatements:
    made: LedgerStatements = import_string(dialect.ledger)(dialect)
    return made
