"""The SQL of regions' entries. `publishing` explains entries."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from django.db import connections

from django_counters.errors import InvalidConfiguration
from django_counters.registry import registry
from django_counters.stores.sql.dialects.claims import POSITIONS
from django_counters.stores.sql.dialects.spelling import COUNTER, DELTAS, SHARDS, Spelling
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED

REGIONS = "django_counters_counterregion"
_WITHIN = "key >= %(low)s AND key < %(high)s"
_OWN = "region = %(region)s AND incarnation = %(incarnation)s"
# The same condition through the index of keys. Without statistics a server would prefer the index
# of versions, and read all entries of a region for each page.
_OWN_BY_KEY = "region || '' = %(region)s AND incarnation = %(incarnation)s"


class RegionStatements:
    """The statements that publish, copy and add up entries. Most parameters have names.

    ``low`` and ``high`` are a range of keys, without ``high``. ``region`` and ``incarnation`` own
    the entries.

    Attributes:
        life: the identity of the server. Its last word changes with a restart, the words before it
            if the database has another history.
        others: the counts of other regions, minus the counts of earlier incarnations of this one,
            which are in its totals and in their entries. Parameters: `keys`. Rows: key, NULL,
            amount.
        other: the same of one region. Parameters: `keys`, region.
        each: the same, with the region instead of the key. Parameters: `keys`.
    """

    life = "SELECT 'sqlite'"

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        counted = f"NULL, COALESCE(-base, value) FROM {REGIONS} WHERE key {spelling.among()}"
        self.others, self.each = f"SELECT key, {counted}", f"SELECT region, {counted}"
        self.other = f"{self.others} AND region = %s"

    #: The first key of the next page; no row after the last page. Parameters: low, high, most.
    edge = f"SELECT key FROM {COUNTER} WHERE {_WITHIN} ORDER BY key LIMIT 1 OFFSET %(most)s"
    #: The same for the entries of one incarnation, from ``low`` on.
    edge_of_entries = (
        f"SELECT key FROM {REGIONS} WHERE key >= %(low)s AND {_OWN} "
        "ORDER BY key LIMIT 1 OFFSET %(most)s"
    )

    @cached_property
    def publish(self) -> str:
        """Set the value and the version of each entry whose counter has changed.

        Parameters: low, high, region, incarnation, version. Returns a row for each.
        """
        typed = self._in.typed
        value = "h.v - h.base"
        return (
            f"{self._here} INSERT INTO {REGIONS} AS t "
            "(key, region, incarnation, value, version, base) "
            f"SELECT h.key, {typed('%(region)s', 'text')}, {typed('%(incarnation)s', 'integer')}, "
            f"{value}, {typed('%(version)s', 'bigint')}, h.base FROM here h "
            f"WHERE {value} <> h.value {self._in.ordered('h.key')} "
            "ON CONFLICT (key, region, incarnation) DO UPDATE SET "
            "value = EXCLUDED.value, version = EXCLUDED.version RETURNING 1"
        )

    @cached_property
    def begin(self) -> str:
        """Begin a new incarnation. Its base is the part of each counter that earlier ones counted.

        The base is the whole counter if a peer had a later entry than this copy, whose clock is
        ``clock``: that entry had more. Else it is the published amount. Parameters: low, high,
        region, incarnation, to (the region that goes on), new (its incarnation), clock, all (1: the
        whole of each counter). Returns a row for each.
        """
        typed = self._in.typed
        base = (
            f"CASE WHEN {typed('%(all)s', 'integer')} = 1 "
            f"OR h.version > {typed('%(clock)s', 'bigint')} THEN h.v "
            "ELSE h.base + h.value END"
        )
        return (
            f"{self._here} INSERT INTO {REGIONS} (key, region, incarnation, value, version, base) "
            f"SELECT h.key, {typed('%(to)s', 'text')}, {typed('%(new)s', 'integer')}, 0, 0, "
            f"{base} FROM here h WHERE {base} <> 0 {self._in.ordered('h.key')} RETURNING 1"
        )

    @cached_property
    def _here(self) -> str:
        """Select the count of each counter in this region, with pending amounts, and its entry.

        Uses no join: a server without statistics guesses the number of a region's entries wrong.
        """
        return (
            "WITH here AS (SELECT key, SUM(v) AS v, SUM(value) AS value, SUM(base) AS base, "
            "MAX(version) AS version FROM ("
            f"SELECT key, value AS v, 0 AS value, 0 AS base, 0 AS version FROM {COUNTER} "
            f"WHERE {_WITHIN} "
            f"UNION ALL SELECT key, value, 0, 0, 0 FROM {SHARDS} WHERE {_WITHIN} "
            f"UNION ALL SELECT key, delta, 0, 0, 0 FROM {DELTAS} "
            f"WHERE {_WITHIN} AND {self._in.waits} "
            f"UNION ALL SELECT key, 0, value, COALESCE(base, 0), version FROM {REGIONS} "
            f"WHERE {_WITHIN} AND {_OWN_BY_KEY}) u GROUP BY key)"
        )

    @cached_property
    def unpublished(self) -> str:
        """Count the published counters with increments that this region hasn't published.

        If only another region has published a counter, its base is NULL and adds nothing.
        """
        return (
            f"SELECT COUNT(*) FROM (SELECT key FROM (SELECT key, -value - base AS v FROM {REGIONS} "
            f"UNION ALL SELECT key, value FROM {COUNTER} UNION ALL SELECT key, value FROM {SHARDS} "
            f"UNION ALL SELECT key, delta FROM {DELTAS} WHERE {self._in.waits}) u "
            f"WHERE key IN (SELECT key FROM {REGIONS}) GROUP BY key HAVING SUM(v) <> 0) n"
        )

    #: The entries of whole versions after ``since``, up to the version that is ``most`` entries
    #: further, with the clock and the life of the same moment, read once for all. Rows: key, value,
    #: version, clock, life.
    page = (
        f"WITH c AS MATERIALIZED (SELECT position, timeline FROM {POSITIONS} "
        "WHERE source = %(source)s AND part = %(part)s) "
        f"SELECT key, value, version, c.position, c.timeline FROM c, {REGIONS} "
        f"WHERE {_OWN} AND version > %(since)s "
        f"AND version <= COALESCE((SELECT version FROM {REGIONS} WHERE {_OWN} "
        "AND version > %(since)s ORDER BY version LIMIT 1 OFFSET %(most)s), 9223372036854775807)"
    )

    @cached_property
    def store(self) -> str:
        """Copy entries that are newer than the present ones, in the order of their keys.

        Parameters: region, incarnation, `columns` of key, value, version. Returns a row for each.
        """
        rows = self._in.rows(k="text", v="bigint", n="bigint")
        typed = self._in.typed
        return (
            f"INSERT INTO {REGIONS} AS t (key, region, incarnation, value, version) "
            f"SELECT u.k, {typed('%s', 'text')}, {typed('%s', 'integer')}, u.v, u.n FROM {rows} "
            f"WHERE true {self._in.ordered('u.k')} ON CONFLICT (key, region, incarnation) "
            "DO UPDATE SET value = EXCLUDED.value, version = EXCLUDED.version "
            "WHERE t.version < EXCLUDED.version RETURNING 1"
        )

    #: Give the entries of an ending incarnation a new version. Parameters: low, high, region,
    #: incarnation, version. Returns a row for each.
    end = (
        f"UPDATE {REGIONS} SET version = %(version)s, base = NULL "
        f"WHERE {_WITHIN} AND {_OWN} RETURNING 1"
    )
    #: Counters whose sum over all regions is above zero. Parameters: low, high, most. Rows: key,
    #: amount.
    above_zero = (
        "SELECT key, SUM(v) FROM ("
        f"SELECT key, value AS v FROM {COUNTER} WHERE {_WITHIN} UNION ALL "
        f"SELECT key, COALESCE(-base, value) FROM {REGIONS} WHERE {_WITHIN}) u "
        "GROUP BY key HAVING SUM(v) > 0 ORDER BY key LIMIT %(most)s"
    )
    #: Counters whose count in this region isn't zero. Parameters: low, high. Rows: key, amount.
    stock = (
        f"SELECT key, SUM(value) FROM (SELECT key, value FROM {COUNTER} WHERE {_WITHIN} "
        f"UNION ALL SELECT key, value FROM {SHARDS} WHERE {_WITHIN}) u "
        "GROUP BY key HAVING SUM(value) <> 0 ORDER BY key"
    )
    #: Set the entries of a region to zero. Parameters: low, high, region. Returns a row for each.
    clear = (
        f"UPDATE {REGIONS} SET value = 0, base = CASE WHEN base IS NULL THEN NULL ELSE 0 END "
        f"WHERE {_WITHIN} AND region = %(region)s RETURNING 1"
    )

    @cached_property
    def poor(self) -> str:
        """Select keys of which this region has the most and more than ``below``, another one less.

        Parameters: low, high, most, region, regions (their number), below. Rows: key.
        """
        own = f"{self._in.typed('%(region)s', 'text')} AS region"
        return (
            "SELECT key FROM (SELECT key, region, SUM(v) AS v FROM ("
            f"SELECT key, {own}, value AS v FROM {COUNTER} WHERE {_WITHIN} "
            f"UNION ALL SELECT key, {own}, value FROM {SHARDS} WHERE {_WITHIN} "
            f"UNION ALL SELECT key, region, COALESCE(-base, value) FROM {REGIONS} WHERE {_WITHIN}"
            ") a GROUP BY key, region) b GROUP BY key "
            "HAVING SUM(CASE WHEN v < %(below)s THEN 0 ELSE 1 END) < %(regions)s "
            "AND MAX(CASE WHEN region = %(region)s THEN v ELSE 0 END) > %(below)s "
            "AND MAX(v) = MAX(CASE WHEN region = %(region)s THEN v ELSE 0 END) ORDER BY key "
            "LIMIT %(most)s"
        )

    #: Delete the entries of a region from an incarnation on. Parameters: region, incarnation.
    drop = f"DELETE FROM {REGIONS} WHERE region = %s AND incarnation >= %s RETURNING 1"
    #: The sum of a region's counts over all counters. Parameters: region.
    sum = f"SELECT COALESCE(SUM(value), 0) FROM {REGIONS} WHERE region = %s"


_PAGE = 10_000
#: The timeline of an incarnation that has ended.
CLOSED = "closed"
#: The beginning of the sources of regions in `CounterPosition`.
SOURCES = "region "
#: The source of the moments when all of a region was published or copied, with a part for each
#: region. They need rows of their own: a moved position doesn't mean that all was copied.
COMPLETE = "region"


class Incarnation(NamedTuple):
    """An incarnation of a region."""

    region: str
    incarnation: int

    @property
    def source(self) -> str:
        """Return its source in `CounterPosition`."""
        return source_of(self.region)

    @property
    def part(self) -> str:
        """Return its part of that source."""
        return str(self.incarnation)


class EntryPage(NamedTuple):
    """Some entries (key, value, version), and the clock and the life of the same moment."""

    entries: Sequence[tuple[str, int, int]]
    clock: int
    life: str

    @property
    def last(self) -> int:
        """Return the newest version in it."""
        return max(version for _, _, version in self.entries)


def source_of(region: str) -> str:
    """Return the source of a region in `CounterPosition`."""
    return f"{SOURCES}{region}"


def is_another_history(life: str, other: str) -> bool:
    """Return whether two lives of a server differ by more than a restart."""
    return bool(life) and life.rpartition(" ")[0] != other.rpartition(" ")[0]


class PostgresStatements(RegionStatements):
    """The same in PostgreSQL."""

    # A restore of a server's files includes a start. A loaded database has another oid. A recovered
    # or promoted server has another timeline, which is the beginning of its WAL files' names.
    life = (
        "SELECT concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
        "left(pg_walfile_name(pg_current_wal_lsn()), 8), "
        "EXTRACT(EPOCH FROM pg_postmaster_start_time()))"
    )


#: By the vendor of the database. Others aren't offered.
STATEMENTS = {"postgresql": PostgresStatements, "sqlite": RegionStatements}
UNOFFERED = (
    "REGIONAL counters aren't offered on MySQL and MariaDB. Use PostgreSQL, or remove REGIONAL."
)


def store_of(using: str) -> SqlRegions:
    """Return the entries of a database.

    Raises:
        InvalidConfiguration: the database isn't supported.
    """
    return registry.kept(SqlRegions, using)


class SqlRegions:
    """The entries of one database. Holds no connection."""

    def __init__(self, using: str) -> None:
        session = Session(using)
        statements = STATEMENTS.get(connections[using].vendor)
        if statements is None:
            raise InvalidConfiguration(problem=UNOFFERED)
        self._session = session
        self._sql = statements(session.dialect)
        self._many = session.dialect.reads(NAMED.quoted(session.quote)).many

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction whose statements each see all earlier commits."""
        with self._session.read_committed():
            if self._session.dialect.limits_time:
                # JIT compiling these statements takes longer than executing them.
                self._session.run(self._session.dialect.hurry("jit"), ("off",))
            yield

    def life(self) -> str:
        """Return the identity of the server: another text after a restart, or in a copy."""
        return str(self._session.run(self._sql.life, (), writes=False)[0][0])

    def values(
        self, keys: Sequence[str], region: str | None, *, own: bool
    ) -> Mapping[Hashable, int]:
        """Return {key: count} of all regions, or of one, in one statement.

        ``own``: include the counts of this database.
        """
        among = self._session.dialect.keys(keys)
        sql, params = self._sql.others, [among]
        if region is not None:
            sql, params = self._sql.other, [among, region]
        if own:
            sql, params = f"{self._many} UNION ALL {sql}", [among, among, among, *params]
        counts: dict[Hashable, int] = {}
        for key, total, pending in self._session.run(sql, params, writes=False):
            counts[key] = counts.get(key, 0) + int(total or 0) + int(pending or 0)
        return counts

    def each(self, key: str, own: str, *, here: bool) -> dict[str, int]:
        """Return {region: count} of one counter, in one statement.

        ``own``: this database's region; ``here``: include the counts of this database.
        """
        among = self._session.dialect.keys([key])
        sql, counts = self._sql.each, {own: 0}
        params = [among]
        if here:
            sql, params = f"{self._many} UNION ALL {sql}", [among] * 4
        for name, total, pending in self._session.run(sql, params, writes=False):
            # A region's name has no colon; the key of a regional counter has one.
            region = own if name == key else name
            counts[region] = counts.get(region, 0) + int(total or 0) + int(pending or 0)
        return counts

    def ranges(self, low: str, high: str) -> Iterator[tuple[str, str]]:
        """Yield ranges of a page of counters each."""
        return self._ranges(self._sql.edge, {}, low, high)

    def ranges_of(self, of: Incarnation) -> Iterator[tuple[str, str]]:
        """Yield ranges of a page of an incarnation's entries each."""
        return self._ranges(self._sql.edge_of_entries, of._asdict(), "", "\U0010ffff")

    def _ranges(
        self, edge: str, own: dict[str, Hashable], low: str, high: str
    ) -> Iterator[tuple[str, str]]:
        while True:
            params = {**own, "low": low, "high": high, "most": _PAGE}
            rows = self._session.run(edge, params, writes=False)
            until = rows[0][0] if rows else high
            yield low, until
            if not rows:
                return
            low = until

    def publish(self, of: Incarnation, low: str, high: str, version: int) -> int:
        """Set the value and version of changed entries; return their number."""
        params = {**of._asdict(), "low": low, "high": high, "version": version}
        return len(self._session.run(self._sql.publish, params))

    def unpublished(self) -> int:
        """Return the number of counters with unpublished increments."""
        return int(self._session.run(self._sql.unpublished, (), writes=False)[0][0])

    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version; None if there are none."""
        params = {**of._asdict(), "source": of.source, "part": of.part}
        rows = self._session.run(
            self._sql.page, {**params, "since": since, "most": _PAGE}, writes=False
        )
        if not rows:
            return None
        # In a copy, the clock of the source follows the number.
        clock, _, _ = rows[0][3].partition("/")
        return EntryPage([row[:3] for row in rows], int(clock or 0), rows[0][4])

    def store(self, of: Incarnation, entries: Sequence[tuple[str, int, int]]) -> int:
        """Copy entries that are newer; return their number."""
        columns = self._session.dialect.columns(entries)
        return len(self._session.run(self._sql.store, (*of, *columns)))

    def begin(
        self, of: Incarnation, to: Incarnation, clock: int, low: str, high: str, *, whole: bool
    ) -> None:
        """Begin an incarnation after another one; see the statement."""
        new = {"to": to.region, "new": to.incarnation}
        params = {**of._asdict(), **new, "clock": clock, "all": int(whole)}
        self._session.run(self._sql.begin, {**params, "low": low, "high": high})

    def end(self, of: Incarnation, low: str, high: str, version: int) -> None:
        """Give the entries of an ending incarnation a new version."""
        params = {**of._asdict(), "low": low, "high": high, "version": version}
        self._session.run(self._sql.end, params)

    def above_zero(self, low: str, high: str, most: int = _PAGE) -> dict[str, int]:
        """Return {key: sum} of counters whose sum over all regions is above zero."""
        params = {"low": low, "high": high, "most": most}
        rows = self._session.run(self._sql.above_zero, params, writes=False)
        return {key: int(amount) for key, amount in rows}

    def stock(self, low: str, high: str) -> dict[str, int]:
        """Return {key: count} of this region's counters that aren't zero."""
        rows = self._session.run(self._sql.stock, {"low": low, "high": high}, writes=False)
        return {key: int(amount) for key, amount in rows}

    def clear(self, region: str, low: str, high: str) -> None:
        """Set the entries of a region to zero: then its value is the total here."""
        self._session.run(self._sql.clear, {"region": region, "low": low, "high": high})

    def poor(
        self, region: str, regions: int, below: int, low: str, high: str, most: int
    ) -> list[str]:
        """Return keys of which a region has the most, and another one less than ``below``."""
        within = {"low": low, "high": high, "most": most}
        params = {"region": region, "regions": regions, "below": below, **within}
        return [key for (key,) in self._session.run(self._sql.poor, params, writes=False)]

    def drop(self, of: Incarnation) -> None:
        """Delete the entries of a region from an incarnation on."""
        self._session.run(self._sql.drop, of)

    def sum(self, region: str) -> int:
        """Return the sum of a region's counts over all counters."""
        return int(self._session.run(self._sql.sum, (region,), writes=False)[0][0])
