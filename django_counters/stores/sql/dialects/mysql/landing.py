"""Landings in MySQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.landing import Landing


class MysqlLanding(Landing):
    """The statements that bring generations of increments into the totals."""

    may_ask = "SELECT true"
    # A copy that was put back elsewhere has another host, port or folder.
    whole = part = "SELECT CONCAT_WS(' ', @@hostname, @@port, @@datadir, DATABASE())"
