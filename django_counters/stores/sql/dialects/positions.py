"""The statements about how far a source is in the totals."""

from __future__ import annotations

from django_counters.stores.sql.dialects.spelling import Spelling

POSITIONS = "django_counters_counterposition"


class Positions:
    """Reads, holds and moves rows of positions. "Now" is the server's clock, after all waiting."""

    def __init__(self, spelling: Spelling) -> None:
        columns = "source, part, position, timeline"
        given = spelling.rows(source="text", part="text", before="text", after="text", line="text")
        there = "p.source = u.source AND p.part = u.part"
        insert = f"INSERT INTO {POSITIONS} ({columns}, moved_at)"
        #: Make the row of a part, unless there is one. Parameters: source, part.
        self.make = (
            f"{insert} VALUES (%s, %s, '', '', {spelling.clock}) ON CONFLICT DO NOTHING RETURNING 1"
        )
        #: The rows of a source. Parameters: source. Rows: part, position, timeline.
        self.found = f"SELECT part, position, timeline FROM {POSITIONS} WHERE source = %s"
        #: Some of them. Parameters: source, `keys` of parts. Rows: the same.
        self.among = f"{self.found} AND part {spelling.among('text')}"
        #: One row, held until the transaction ends. Empty where another transaction holds it.
        #: Parameters: source, part. Rows: position, timeline.
        self.hold = (
            f"SELECT position, timeline FROM {POSITIONS} WHERE source = %s AND part = %s"
            f"{spelling.held}{spelling.skipping}"
        )
        #: Move rows that are where they should be, in one order: a compare-and-set that waits for
        #: the transaction that is just moving the same. Parameters: `columns` of source, part, from
        #: where, to where, timeline. Rows: source and part of those that were moved.
        self.move = (
            f"WITH u AS (SELECT * FROM {given}) {insert} "
            f"SELECT u.source, u.part, u.after, u.line, {spelling.clock} FROM u "
            f"WHERE u.before = '' OR EXISTS (SELECT 1 FROM {POSITIONS} p WHERE {there}) "
            "ORDER BY u.source, u.part ON CONFLICT (source, part) DO UPDATE SET "
            "position = EXCLUDED.position, timeline = EXCLUDED.timeline, "
            f"moved_at = EXCLUDED.moved_at WHERE {POSITIONS}.position = (SELECT u.before FROM u "
            "WHERE u.source = EXCLUDED.source AND u.part = EXCLUDED.part) "
            f"AND {POSITIONS}.timeline IN ('', EXCLUDED.timeline) RETURNING source, part"
        )
        #: Put one row somewhere, wherever it was. Parameters: source, part, position, timeline.
        self.put = (
            f"{insert} VALUES (%s, %s, %s, %s, {spelling.clock}) ON CONFLICT (source, part) "
            "DO UPDATE SET position = EXCLUDED.position, timeline = EXCLUDED.timeline, "
            "moved_at = EXCLUDED.moved_at RETURNING 1"
        )
        #: Say in which history a row means something. It waits for the transaction that moves the
        #: row. Parameters: timeline, source, part. Rows: position.
        self.label = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE source = %s AND part = %s "
            "RETURNING position"
        )
        #: The same where it is one of two. Parameters: timeline, source, part, timelines. Rows: 1.
        self.relabel = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE source = %s AND part = %s "
            "AND timeline IN (%s, %s) RETURNING 1"
        )
        #: Say that a row is of now, and nothing else; make it where there is none. Parameters:
        #: source, part.
        self.touch = (
            f"{insert} VALUES (%s, %s, '', '', {spelling.clock}) ON CONFLICT (source, part) "
            f"DO UPDATE SET moved_at = {spelling.clock} RETURNING 1"
        )
        #: The rows of sources from one on and before another one, and how many microseconds ago
        #: each was moved. Parameters: the two. Rows: source, part, position, timeline, how many.
        ago = f"{spelling.microseconds} - {spelling.since_1970('moved_at')}"
        self.ages = (
            f"SELECT source, part, position, timeline, {ago} FROM {POSITIONS} "
            "WHERE source >= %s AND source < %s"
        )
        #: Delete some that are still. Parameters: source, before which moment, how many at most.
        old = "WHERE source = %s AND moved_at < %s ORDER BY moved_at LIMIT %s"
        self.prune = spelling.delete_some(POSITIONS, old)
