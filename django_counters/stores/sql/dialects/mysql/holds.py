"""Holds in MySQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.holds import COMMITTED, EXPIRED, HELD, RELEASED, Holds
from django_counters.stores.sql.dialects.mysql.taking import MADE, ROOM, TEXT
from django_counters.stores.sql.dialects.mysql.waiting import BY_KEY
from django_counters.stores.sql.dialects.spelling import Spelling, Together
from django_counters.stores.sql.dialects.tables import HOLDS

_MINE = f"token = @djc_token AND state = {HELD}"


class MysqlHolds(Holds):
    """Makes and ends rows of holds."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        now, later = spelling.clock, spelling.later()
        ends = spelling.since_1970("expires_at")
        running = f"{_MINE} AND expires_at > {now}"
        self.claim = (
            f"SET @djc_token = %s; INSERT INTO {HOLDS} (token, field, `key`, quantity, note, "
            "actor, expires_at, created_at, sold, state) "
            "SELECT IF(LAST_INSERT_ID(1), @djc_token, NULL), %s, %s, %s, %s, %s, "
            f"{later}, {now}, 0, {HELD} ON DUPLICATE KEY UPDATE "
            f"token = IF(LAST_INSERT_ID(0), NULL, {HOLDS}.token); "
            f"{MADE.replace('SELECT 1 FROM DUAL', f'SELECT {ends} FROM {HOLDS}')} "
            "AND token = @djc_token"
        )
        told = f"SELECT token, field, `key`, quantity FROM {HOLDS} WHERE token = @djc_token"
        changed = f"{told} AND ROW_COUNT() > 0"
        self.commit = (
            f"SET @djc_token = %s; UPDATE {HOLDS} SET state = {COMMITTED}, sold = quantity "
            f"WHERE {running}; {changed}"
        )
        self.commit_some = (
            f"SET @djc_sold = %s, @djc_token = %s; UPDATE {HOLDS} SET state = {COMMITTED}, "
            f"sold = @djc_sold WHERE {running} AND quantity >= %s; {changed}"
        )
        self.release = (
            f"SET @djc_token = %s; UPDATE {HOLDS} SET state = {RELEASED} WHERE {_MINE}; {changed}"
        )
        self.extend = (
            f"SET @djc_ends = GREATEST({later}, {later}), @djc_token = %s; UPDATE {HOLDS} "
            f"SET expires_at = GREATEST(expires_at, @djc_ends) WHERE {running}; "
            f"SELECT {ends} FROM {HOLDS} WHERE token = @djc_token AND ROW_COUNT() > 0"
        )
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {TEXT} PATH '$[0]', "
            "d BIGINT PATH '$[1]')) AS u"
        )
        self.expire = Together(
            f"{ROOM}SELECT JSON_ARRAYAGG(JSON_ARRAY(d.token, d.quantity)) INTO @djc_rows FROM "
            f"(SELECT token, quantity FROM {HOLDS} WHERE field = %s AND `key` = %s "
            f"AND state = {HELD} AND expires_at <= {now} ORDER BY expires_at LIMIT %s "
            f"FOR UPDATE SKIP LOCKED) d; UPDATE {gone} STRAIGHT_JOIN {HOLDS} t {BY_KEY} "
            f"ON t.token = u.k SET t.state = {EXPIRED}; SELECT u.d FROM {gone}"
        )
