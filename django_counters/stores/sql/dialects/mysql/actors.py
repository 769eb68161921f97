"""Who has counted what, in MySQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.actors import Actors
from django_counters.stores.sql.dialects.mysql.taking import delete_some
from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import ACTORS

_ONE = "measure_id = %s AND `key` = %s AND actor = %s"
#: One row where the statement before has found one.
FOUND = "SELECT 1 FROM DUAL WHERE ROW_COUNT() > 0"
#: One row where it has inserted one, or has changed it, and has kept that.
MADE = f"{FOUND} AND LAST_INSERT_ID() = 1"


class MysqlActors(Actors):
    """Makes and deletes the rows of those who may count once."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        insert = (
            f"INSERT INTO {ACTORS} (measure_id, `key`, actor, created_at) "
            "SELECT IF(LAST_INSERT_ID(1), %s, NULL), %s, %s, %s ON DUPLICATE KEY UPDATE"
        )
        known = f"IF(LAST_INSERT_ID(0), NULL, {ACTORS}.created_at)"
        self.claim = f"{insert} created_at = {known}; {MADE}"
        self.renew = (
            f"{insert} created_at = IF({ACTORS}.created_at <= %s, "
            f"IF(LAST_INSERT_ID(1), VALUES(created_at), NULL), {known}); {MADE}"
        )
        self.release = f"DELETE FROM {ACTORS} WHERE {_ONE}; {FOUND}"
        self.forget = delete_some(ACTORS, "WHERE measure_id = %s AND `key` = %s", "1", patience="")
        self.rename = f"UPDATE {ACTORS} SET actor = %s WHERE {_ONE}; {FOUND}"
