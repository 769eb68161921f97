"""The statements about who has counted what."""

from __future__ import annotations

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import ACTORS, Table

#: Give a row another actor. Parameters: that, measure, key, actor. A row if there was one.
RENAME = (
    f"UPDATE {ACTORS} SET actor = %s WHERE measure_id = %s AND key = %s AND actor = %s RETURNING 1"
)


def differing(spelling: Spelling, table: Table, vendor: str) -> str:
    """Counters that have not as many rows as they count, of one moment.

    Parameters: the measure, and of records the content type. Rows: keys, rows, values.
    """
    pending = table.pending

    def text(key: str) -> str:
        # Compared byte by byte, as the key of a row.
        return f'{key}::text COLLATE "C"' if vendor == "postgresql" else spelling.as_text(key)

    mine = f"FROM {ACTORS} a WHERE a.measure_id = %s"
    counted = [f"SELECT a.key AS k, 1 AS rows_of, 0 AS value {mine}"]
    if table.value:
        counted.append(f"SELECT {text(table.key)}, 0, {table.value} FROM {table.name}")
    if pending.record is None:
        (owner,) = pending.owner
        counted.append(f"SELECT {owner}, 0, {pending.value} FROM {pending.name}")
    else:
        kind, record, name = pending.owner
        mine = f"{name} = {spelling.literal(pending.record[1])}"
        counted.append(
            f"SELECT {text(record)}, 0, {pending.value} FROM {pending.name} "
            f"WHERE {kind} = %s AND {mine}"
        )
    return (
        f"SELECT k, SUM(rows_of), SUM(value) FROM ({' UNION ALL '.join(counted)}) u "
        "GROUP BY k HAVING SUM(rows_of) <> SUM(value) ORDER BY k"
    )
