"""Rows that are deleted and told, in MySQL: held first, by what names them."""

from __future__ import annotations

from collections.abc import Mapping

from django_counters.measure import KINDS
from django_counters.stores.sql.dialects.cells import COLUMNS
from django_counters.stores.sql.dialects.landing import BATCHES, SOURCES
from django_counters.stores.sql.dialects.mysql.waiting import BY_KEY
from django_counters.stores.sql.dialects.positions import POSITIONS
from django_counters.stores.sql.dialects.spelling import Together
from django_counters.stores.sql.dialects.tables import TOKENS, UNIQUES

#: What is gathered has room: MariaDB cuts it off after a megabyte, MySQL a list after a kilobyte.
ROOM = "SET group_concat_max_len = 4294967295; "
#: A column of JSON_TABLE has the character set of the database, which may not have those of a key.
TEXT = "VARCHAR(255) CHARACTER SET utf8mb4"
_KEY, _MOMENT, _NUMBER = TEXT, "DATETIME(6)", "BIGINT"
# Digits compare with a column of any collation.
_DIGITS = "VARCHAR(255)"


#: One row where the statement before has found one.
FOUND = "SELECT 1 FROM DUAL WHERE ROW_COUNT() > 0"
#: One row where it has inserted one, or has changed it, and has kept that.
MADE = f"{FOUND} AND LAST_INSERT_ID() = 1"


def _named(letters: str) -> Mapping[str, str]:
    """Columns of what belongs to a period, and their types here."""
    types = {"text": _KEY, "timestamptz": _MOMENT}
    columns = (COLUMNS[letter] for letter in letters)
    return {name: types.get(of, _NUMBER) for name, of in columns}


# The primary keys of tables of which some rows are deleted.
_NAMED_BY: Mapping[str, Mapping[str, str]] = {
    **{kind.table: _named(kind.keys) for kind in KINDS.values()},
    UNIQUES: _named("mkpst"),
    POSITIONS: {"source": _KEY, "part": _KEY},
    TOKENS: {"digest": _DIGITS},
    BATCHES: {"generation": _DIGITS},
    SOURCES: {"source": _KEY, "slot": _NUMBER},
}


def delete_some(
    table: str,
    which: str,
    returning: str,
    patience: str = " SKIP LOCKED",
    named_by: Mapping[str, str] | None = None,
) -> str:
    """Delete some rows, and tell columns of their primary key: those that nobody holds.

    What others insert after they were found stays.

    Args:
        patience: empty to wait for who holds some.
        named_by: the columns of the primary key and their types, for the table of another app.
    """
    names = named_by or _NAMED_BY[table]
    held = ", ".join(f"`{name}`" for name in names)
    kept = ", ".join(_kept(f"d.`{name}`", name) for name in names)
    each = ", ".join(f"`{n}` {kind} PATH '$[{i}]'" for i, (n, kind) in enumerate(names.items()))
    gone = f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS ({each})) AS u"
    same = " AND ".join(f"t.`{name}` = {_given(name)}" for name in names)
    asked = [name.strip() for name in returning.split(",")]
    told = ", ".join(_given(name) if name in names else name for name in asked)
    return Together(
        f"{ROOM}SELECT JSON_ARRAYAGG(JSON_ARRAY({kept})) INTO @djc_rows FROM "
        f"(SELECT {held} FROM {table} {which} FOR UPDATE{patience}) d; "
        f"DELETE t FROM {gone} STRAIGHT_JOIN {table} t {BY_KEY} ON {same}; "
        f"SELECT {told} FROM {gone}"
    )


def _kept(column: str, name: str) -> str:
    return f"HEX({column})" if name == "digest" else column


def _given(name: str) -> str:
    return "UNHEX(u.`digest`)" if name == "digest" else f"u.`{name}`"
