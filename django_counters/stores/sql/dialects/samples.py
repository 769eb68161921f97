"""The statements that record totals, and forget them again."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import COUNTER, SAMPLES


class Samples:
    """Records totals. The parameters of both begin with those of a scope.

    A scope is: all keys from ``low`` on and before ``high``, but none of the namespaces ``others``.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    @cached_property
    def take(self) -> str:
        """Record totals that differ from what was recorded last, in the order of their keys.

        One statement: each total is what it was at one moment. Sorted by what no index has, so that
        all is found before anything is written: the plan that is made for a small table would look
        through it again and again while it grows. Parameters: the scope and ``moment`` by name. A
        row for each.
        """
        moment = self._in.typed("%(moment)s", "timestamptz")
        last = (
            f"SELECT l.value FROM {SAMPLES} l WHERE l.key = c.key AND l.moment <= {moment} "
            "ORDER BY l.moment DESC LIMIT 1"
        )
        due = (
            f"SELECT c.key, c.value FROM {COUNTER} c "
            f"WHERE {self._within('c.key')} AND COALESCE(c.value <> ({last}), true)"
        )
        return (
            f"WITH due AS MATERIALIZED ({due}) INSERT INTO {SAMPLES} (key, moment, value) "
            f"SELECT key, {moment}, value FROM due WHERE true ORDER BY key || '' "
            "ON CONFLICT (key, moment) DO UPDATE SET value = EXCLUDED.value RETURNING 1"
        )

    @cached_property
    def forget(self) -> str:
        """Delete some of those before a moment. Parameters: as of ``take``, and ``limit``."""
        return self._in.delete_some(
            SAMPLES,
            f"WHERE moment < %(moment)s AND {self._within(f'{SAMPLES}.key')} "
            "ORDER BY moment LIMIT %(limit)s",
        )

    @cached_property
    def forget_but_last(self) -> str:
        """The same, but of each counter the last one before that moment stays."""
        later = (
            f"SELECT 1 FROM {SAMPLES} n WHERE n.key = {SAMPLES}.key "
            f"AND n.moment > {SAMPLES}.moment AND n.moment < %(moment)s"
        )
        return self._in.delete_some(
            SAMPLES,
            f"WHERE moment < %(moment)s AND {self._within(f'{SAMPLES}.key')} AND EXISTS ({later}) "
            "ORDER BY moment LIMIT %(limit)s",
        )

    def _within(self, key: str) -> str:
        """The condition that a key is within a scope."""
        other = f"{self._in.namespace(key)} {self._in.among('text', '%(others)s')}"
        # Where there are no others, some databases cannot say that a key is not among them.
        return f"{key} >= %(low)s AND {key} < %(high)s AND NOT COALESCE({other}, false)"
