"""The actors of one database."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connections

from django_counters.conditions import Condition
from django_counters.stores.sql.conditions import SqlConditions
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.dialects.actors import RENAME, differing
from django_counters.stores.sql.session import Owner


class Difference(NamedTuple):
    """A counter that has not as many rows of actors as it counts."""

    key: str
    rows: int
    value: int


class SqlActors(SqlConditions):
    """Makes, renames and deletes rows, within the transaction of the change that they belong to."""

    def rename(self, condition: Condition, actor: str) -> bool:
        """Let the row of an actor be that of another one, who has none; whether there was one."""
        return bool(self.run(RENAME, (actor, *self.row(condition)[:-1])))

    def differing(self, measure: int, table: Table) -> list[Difference]:
        """The counters of a table that have not as many rows as they count, of one moment."""
        session = self._session
        kind = Owner(table.pending, session).kind()
        vendor = connections[session.using].vendor
        sql = differing(session.dialect, table.quoted(session.quote), vendor)
        rows = session.run(sql, (measure, *kind), writes=False)
        return [Difference(str(key), int(found), int(value)) for key, found, value in rows]
