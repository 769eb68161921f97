"""Positions in MySQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.mysql.taking import FOUND, ROOM, TEXT
from django_counters.stores.sql.dialects.mysql.waiting import BY_KEY
from django_counters.stores.sql.dialects.positions import POSITIONS, Positions
from django_counters.stores.sql.dialects.spelling import Spelling, Together

_INTO = f"INSERT INTO {POSITIONS} (source, part, position, timeline, moved_at)"
_ONE = "source = %s AND part = %s"


class MysqlPositions(Positions):
    """Reads, holds and moves rows of positions."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        now = spelling.clock
        # Looked at first: to insert a row that is there would wait for whoever holds it.
        self.make = (
            "SET @djc_source = %s, @djc_part = %s; "
            f"SELECT COUNT(*) INTO @djc_there FROM {POSITIONS} "
            "WHERE source = @djc_source AND part = @djc_part; "
            f"{_INTO} SELECT @djc_source, @djc_part, '', '', {now} FROM DUAL "
            f"WHERE @djc_there = 0 ON DUPLICATE KEY UPDATE source = {POSITIONS}.source; {FOUND}"
        )
        given = spelling.rows(
            source="text", part="text", before="text", after="text", line="text"
        ).replace("%s", "@djc_rows")
        there = "p.source = u.source AND p.part = u.part"
        moves = (
            f"{_exact('p.position')} = {_exact('u.`before`')} "
            f"AND {_exact('p.timeline')} IN ('', {_exact('u.line')})"
        )
        # A row that is to begin is made at its place, and then is moved from there like others.
        self.move = Together(
            f"{ROOM}SET @djc_rows = %s; "
            f"{_INTO} SELECT u.source, u.part, '', u.line, {now} FROM {given} "
            f"WHERE u.`before` = '' ORDER BY u.source, u.part "
            f"ON DUPLICATE KEY UPDATE source = {POSITIONS}.source; "
            "SELECT JSON_ARRAYAGG(JSON_ARRAY(p.source, p.part, u.`after`, u.line)) INTO @djc_moved "
            f"FROM {given} STRAIGHT_JOIN {POSITIONS} p {BY_KEY} ON {there} "
            f"WHERE {moves} FOR UPDATE; "
            f"UPDATE {self._moved()} STRAIGHT_JOIN {POSITIONS} p {BY_KEY} ON {there} "
            f"SET p.position = u.`after`, p.timeline = u.line, p.moved_at = {now}; "
            f"SELECT u.source, u.part FROM {self._moved()}"
        )
        self.put = (
            f"{_INTO} VALUES (%s, %s, %s, %s, {now}) ON DUPLICATE KEY UPDATE "
            "position = VALUES(position), timeline = VALUES(timeline), moved_at = VALUES(moved_at)"
            "; SELECT 1"
        )
        self.label = (
            "SET @djc_line = %s, @djc_source = %s, @djc_part = %s; "
            f"UPDATE {POSITIONS} SET timeline = @djc_line "
            "WHERE source = @djc_source AND part = @djc_part; "
            f"SELECT position FROM {POSITIONS} WHERE source = @djc_source AND part = @djc_part"
        )
        self.relabel = (
            f"UPDATE {POSITIONS} SET timeline = %s WHERE {_ONE} AND {_exact('timeline')} "
            f"IN ({_exact('%s')}, {_exact('%s')}); {FOUND}"
        )
        self.touch = (
            f"{_INTO} VALUES (%s, %s, '', '', {now}) "
            f"ON DUPLICATE KEY UPDATE moved_at = VALUES(moved_at); SELECT 1"
        )

    @staticmethod
    def _moved() -> str:
        columns = ("source", "part", "`after`", "line")
        each = (f"{name} {TEXT} PATH '$[{n}]'" for n, name in enumerate(columns))
        return f"JSON_TABLE(@djc_moved, '$[*]' COLUMNS ({', '.join(each)})) AS u"


def _exact(text: str) -> str:
    """A text as bytes: the collation of the database may take different ones for equal."""
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"
