"""The statements about what regions have counted."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.positions import POSITIONS
from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import COUNTER, DELTAS, REGIONS, SHARDS

_WITHIN = "key >= %(low)s AND key < %(high)s"
_OWN = "region = %(region)s AND incarnation = %(incarnation)s"
# The same by the index of keys. A server that has no statistics yet prefers the one of versions,
# and would read all entries of a region for each page.
_OWN_BY_KEY = "region || '' = %(region)s AND incarnation = %(incarnation)s"


class Regions:
    """Publishes, copies and adds up entries. Most parameters have names.

    ``low`` and ``high``: keys from the one on and before the other. ``region`` and ``incarnation``:
    whose entries.

    Attributes:
        life: the text of the server about itself. Its last word is another one after a restart, and
            the words before it are other ones where the database has another history.
        others: what other regions have counted, and less what earlier incarnations of this one have
            counted, which is in its totals and in their entries. Parameters: `keys`. Rows: key,
            NULL, amount.
        other: the same of one region. Parameters: `keys`, region.
        each: the same, with the region in place of the key. Parameters: `keys`.
    """

    life = "SELECT 'sqlite'"

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        counted = f"NULL, COALESCE(-base, value) FROM {REGIONS} WHERE key {spelling.among()}"
        self.others, self.each = f"SELECT key, {counted}", f"SELECT region, {counted}"
        self.other = f"{self.others} AND region = %s"

    #: The key at which the next page begins; no row after the last one. Parameters: low, high,
    #: most.
    edge = f"SELECT key FROM {COUNTER} WHERE {_WITHIN} ORDER BY key LIMIT 1 OFFSET %(most)s"
    #: The same of entries of one incarnation, from ``low`` on.
    edge_of_entries = (
        f"SELECT key FROM {REGIONS} WHERE key >= %(low)s AND {_OWN} "
        "ORDER BY key LIMIT 1 OFFSET %(most)s"
    )

    @cached_property
    def publish(self) -> str:
        """Give each entry whose value has changed its value, and one version.

        Parameters: low, high, region, incarnation, version. A row for each.
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
        """Begin a new incarnation: what of each counter is known to be counted by earlier ones.

        All of it, where a peer has a later entry than this copy, whose clock is ``clock``: that
        entry was made of more. Else what was published. Parameters: low, high, region, incarnation,
        to (the region that goes on), new (its incarnation), clock, all (1: all of each counter). A
        row for each.
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
        """The count of each counter in this region, with amounts that wait for its rollup, and its
        entry.

        No join: how many entries there are of a region, a server that has no statistics yet guesses
        wrong.
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

    #: The entries of whole versions after ``since``, up to the one that is ``most`` entries
    #: further, with the clock and the life of the same moment, which is looked up once for all of
    #: them. Rows: key, value, version, clock, life.
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
        """Copy entries that are newer than those which are there, in the order of their keys.

        Parameters: region, incarnation, `columns` of key, value, version. A row for each.
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

    #: Give entries of an incarnation that ends a new version. Parameters: low, high, region,
    #: incarnation, version. A row for each.
    end = (
        f"UPDATE {REGIONS} SET version = %(version)s, base = NULL "
        f"WHERE {_WITHIN} AND {_OWN} RETURNING 1"
    )
    #: Counters that all regions together have above zero. Parameters: low, high, most. Rows: key,
    #: amount.
    above_zero = (
        "SELECT key, SUM(v) FROM ("
        f"SELECT key, value AS v FROM {COUNTER} WHERE {_WITHIN} UNION ALL "
        f"SELECT key, COALESCE(-base, value) FROM {REGIONS} WHERE {_WITHIN}) u "
        "GROUP BY key HAVING SUM(v) > 0 ORDER BY key LIMIT %(most)s"
    )
    #: Counters of this region alone that are not zero. Parameters: low, high. Rows: key, amount.
    stock = (
        f"SELECT key, SUM(value) FROM (SELECT key, value FROM {COUNTER} WHERE {_WITHIN} "
        f"UNION ALL SELECT key, value FROM {SHARDS} WHERE {_WITHIN}) u "
        "GROUP BY key HAVING SUM(value) <> 0 ORDER BY key"
    )
    #: Let the entries of a region be nothing. Parameters: low, high, region. A row for each.
    clear = (
        f"UPDATE {REGIONS} SET value = 0, base = CASE WHEN base IS NULL THEN NULL ELSE 0 END "
        f"WHERE {_WITHIN} AND region = %(region)s RETURNING 1"
    )

    @cached_property
    def poor(self) -> str:
        """Keys of which this region has most, and more than ``below``, and another one has less.

        Parameters: low, high, most, region, regions (how many there are), below. Rows: key.
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

    #: Forget the entries of a region from an incarnation on. Parameters: region, incarnation.
    drop = f"DELETE FROM {REGIONS} WHERE region = %s AND incarnation >= %s RETURNING 1"
    #: The counts of a region, of all counters together. Parameters: region.
    sum = f"SELECT COALESCE(SUM(value), 0) FROM {REGIONS} WHERE region = %s"
