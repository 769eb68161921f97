"""The statements that record totals, in MySQL."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.samples import Samples
from django_counters.stores.sql.dialects.spelling import Together
from django_counters.stores.sql.dialects.tables import COUNTER, SAMPLES


class MysqlSamples(Samples):
    """Records totals."""

    @cached_property
    def take(self) -> str:
        """Record totals that differ from what was recorded last."""
        last = (
            f"SELECT l.value FROM {SAMPLES} l WHERE l.key = c.key AND l.moment <= %(moment)s "
            "ORDER BY l.moment DESC LIMIT 1"
        )
        there = (
            f"SELECT ROW_NUMBER() OVER () AS n FROM {SAMPLES} s "
            f"WHERE s.moment = %(moment)s AND {self._within('s.key')}"
        )
        # A row that is changed counts as two affected ones: so they are counted when they are read.
        return Together(
            f"SET @djc_made = 0; INSERT INTO {SAMPLES} (`key`, moment, value) "
            "SELECT d.key, %(moment)s, d.value + 0 * (@djc_made := @djc_made + 1) "
            f"FROM (SELECT c.key, c.value FROM {COUNTER} c "
            f"WHERE {self._within('c.key')} AND COALESCE(c.value <> ({last}), true)) d "
            f"ORDER BY d.key ON DUPLICATE KEY UPDATE value = VALUES(value); "
            f"SELECT 1 FROM ({there}) t WHERE t.n <= @djc_made"
        )
