"""The statements about holds."""

from __future__ import annotations

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import HOLDS

# The states of a row.
HELD, COMMITTED, RELEASED, EXPIRED = range(4)
_MINE = f"token = %s AND state = {HELD}"
_OF = f"h.field = %s AND h.key = %s AND h.state = {HELD}"


class Holds:
    """Makes and ends rows of holds. "Now" is the server's clock, after all waiting.

    Attributes:
        take: all of a hold of a named counter in one statement: the row, then the total. Rows: the
            new value, and when the hold expires in microseconds since 1970; NULL, and nothing
            changed, where the token is known or the total does not admit it. Empty: there is none.
            Parameters: token, key, quantity, the least value that admits it, seconds, note, actor.
    """

    take = ""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        now, later = spelling.clock, spelling.later()
        ends = spelling.since_1970("expires_at")
        running = f"{_MINE} AND expires_at > {now}"
        #: Make a row, unless there is one. Parameters: token, label, key, quantity, note, actor,
        #: seconds. Rows: when it expires.
        self.claim = (
            f"INSERT INTO {HOLDS} (token, field, key, quantity, sold, state, note, actor, "
            f"expires_at, created_at) VALUES (%s, %s, %s, %s, 0, {HELD}, %s, %s, {later}, {now}) "
            f"ON CONFLICT DO NOTHING RETURNING {ends}"
        )
        age = f"{spelling.microseconds} - {spelling.since_1970('created_at')}"
        columns = "token, field, h.key, quantity, sold, state, note, actor, "
        columns += f"{age}, {ends}, expires_at <= {now}"
        #: One row, and whether its time is over. Parameters: token.
        self.find = f"SELECT {columns} FROM {HOLDS} h WHERE token = %s"
        #: Those of a counter that are held, the first to expire first. Parameters: label, key, how
        #: many at most.
        self.held = f"SELECT {columns} FROM {HOLDS} h WHERE {_OF} ORDER BY expires_at LIMIT %s"
        #: How much of a counter is held and not over: by one actor, and in total. Parameters:
        #: actor, label, key.
        self.quantities = (
            f"SELECT SUM(CASE WHEN actor = %s THEN quantity END), SUM(quantity) FROM {HOLDS} h "
            f"WHERE {_OF} AND expires_at > {now}"
        )
        #: Sell all of it. Parameters: token. Rows, as of the next one: token, label, key, quantity.
        told = "RETURNING token, field, key, quantity"
        self.commit = (
            f"UPDATE {HOLDS} SET state = {COMMITTED}, sold = quantity WHERE {running} {told}"
        )
        #: Sell a part of it. Parameters: how many, token, how many.
        self.commit_some = (
            f"UPDATE {HOLDS} SET state = {COMMITTED}, sold = %s "
            f"WHERE {running} AND quantity >= %s {told}"
        )
        #: Give it back. Parameters: token. Rows: as of ``commit``.
        self.release = f"UPDATE {HOLDS} SET state = {RELEASED} WHERE {_MINE} {told}"
        #: Let it expire later, never earlier. Parameters: seconds, seconds, token. Rows: when.
        self.extend = (
            f"UPDATE {HOLDS} SET expires_at = CASE WHEN expires_at > {later} THEN expires_at "
            f"ELSE {later} END WHERE {running} RETURNING {ends}"
        )
        #: The quantities held and sold, the total and the amount pending for it, of one moment.
        #: Parameters: label, key, those of ``Reads.one``, which stands where the braces are.
        self.stock = (
            f"SELECT h.held, h.sold, r.* FROM (SELECT SUM(CASE WHEN state = {HELD} THEN quantity "
            f"END) AS held, SUM(sold) AS sold FROM {HOLDS} t WHERE t.field = %s AND t.key = %s) h "
            "CROSS JOIN ({}) r"
        )
        over = f"state = {HELD} AND expires_at <= {now}"
        #: Whether any of a counter are over. Parameters: label, key.
        self.overdue = f"SELECT 1 FROM {HOLDS} h WHERE {_OF} AND expires_at <= {now} LIMIT 1"
        #: End those of a counter that are over, but those that another transaction is ending.
        #: Parameters: label, key, how many at most. Rows: quantities.
        self.expire = (
            f"WITH due AS MATERIALIZED (SELECT token FROM {HOLDS} h WHERE {_OF} "
            f"AND expires_at <= {now} ORDER BY expires_at LIMIT %s{spelling.held}"
            f"{spelling.skipping}) UPDATE {HOLDS} SET state = {EXPIRED} "
            f"WHERE token IN (SELECT token FROM due) AND {over} RETURNING quantity"
        )
        #: The counters of those that have been over for longest. Parameters: how many rows.
        self.due = (
            f"SELECT d.field, d.key FROM (SELECT h.field, h.key, h.expires_at FROM {HOLDS} h "
            f"WHERE {over} ORDER BY expires_at LIMIT %s) d GROUP BY d.field, d.key "
            "ORDER BY MIN(d.expires_at)"
        )
        #: Forget some that have ended and expired long ago. Parameters: seconds, how many.
        old = f"WHERE state <> {HELD} AND expires_at < {spelling.ago()} LIMIT %s"
        self.prune = spelling.delete_some(HOLDS, old)
        #: Counters with holds that have been over for long. Parameters: seconds. Rows: label, key,
        #: how much of each.
        self.forgotten = (
            f"SELECT h.field, h.key, SUM(h.quantity) FROM {HOLDS} h WHERE h.state = {HELD} "
            f"AND h.expires_at < {spelling.ago()} GROUP BY h.field, h.key ORDER BY h.field, h.key"
        )
