"""Landings in SQLite: one writer at a time, so it is enough to be the writer from the start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django_counters.stores.sql.dialects.landing import (
    BATCHES,
    Landing,
    together,
)
from django_counters.stores.sql.dialects.sqlite.ledger import NOW
from django_counters.stores.sql.dialects.tables import COUNTER, Table

_AMONG = "IN (SELECT value FROM json_each(%s))"


def _columns(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return (json.dumps([list(row) for row in rows]),)


def _each(*numbers: int) -> str:
    return ", ".join(f"json_extract(j.value, '$[{number}]')" for number in numbers)


def _hold(table: Table, key_type: str) -> str:  # noqa: ARG001 - values have types, columns do not
    return f"SELECT {table.key}, {table.value} FROM {table.name} WHERE {table.key} {_AMONG}"


def _credit(table: Table, key_type: str) -> str:  # noqa: ARG001 - values have types, columns do not
    return (
        "WITH given (k, d) AS MATERIALIZED "
        f"(SELECT {_each(0, 1)} FROM json_each(%s) AS j) "
        f"UPDATE {table.name} SET {table.value} = {table.name}.{table.value} + given.d "
        f"FROM given WHERE {table.name}.{table.key} = given.k RETURNING 1"
    )


LANDING = Landing(
    # A reader that becomes a writer is refused where somebody else has written meanwhile. This
    # changes no row, but whoever executes it is the writer.
    begin=f"UPDATE {BATCHES} SET slot = slot WHERE generation = ''",
    settings="",
    together=together(_AMONG),
    settled="",
    make=(
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at) "
        f"SELECT value, 0, {NOW} FROM json_each(%s) WHERE true "
        "ON CONFLICT (key) DO UPDATE SET value = t.value RETURNING 1"
    ),
    hold=_hold,
    credit=_credit,
    columns=_columns,
    # Its name is a place on a disk.
    identity=None,
)
