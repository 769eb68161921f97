"""The statements on totals, and on what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from django_counters.stores.sql.dialects.tables import TOTAL, Table


@dataclass(frozen=True)
class Totals:
    """The statements that change totals in place.

    A change comes in two forms, because only the bound that it moves towards is asked: ``rising``
    ends in "no more than", ``falling`` in "no less than". These three change nothing while
    increments of the counter wait elsewhere; ``settling`` does not ask. ``unit`` is the most
    common change, by one and without bounds: its numbers stand in the text, which spares the
    driver two parameters. Parameters: by, limit (not of ``unit``), key, and, where ``addressed``,
    the content type of the records (not of ``settling``). ``add_many`` adds whatever waits, and
    ends with an error for a value that does not fit.
    """

    unit: str
    rising: str
    falling: str
    settling: str
    addressed: bool
    add_many: str


@dataclass(frozen=True)
class Reads:
    """The statements that read. Rows are: key (of ``many``), total or NULL, pending or NULL.

    Parameters of ``one``: the address of what is pending, and where it is ``keyed`` the key, as
    often as it says. Of ``many``: the scope, keys; for named counters keys, three times.
    """

    one: str
    many: str
    keyed: int


@dataclass(frozen=True)
class Spread:
    """The statements that let increments wait in rows of their own.

    Rows of ``add``: the new value and the number of the row that was taken, if it matters; a NULL
    or no row where nothing was changed. ``arrange`` makes its parameters from the delta, the
    number of a row or None, the key, and the address. Rows of ``add_many``: keys, values, numbers.
    Its parameters are deltas, as the dialect's ``batch`` makes them.
    """

    add: str
    arrange: Callable[[int, int | None, Hashable, tuple[Any, ...]], tuple[Any, ...]]
    add_many: str


@dataclass(frozen=True)
class Fold:
    """The statements of a rollup.

    Attributes:
        waiting: a page of keys with something pending. Parameters: the scope, the last key of the
            page before, the size of a page.
        ensure: make the totals that are missing. Rows: the keys of those.
        hold: hold totals in the order of their keys, and make those that are missing unless they
            stand in rows of records. Rows: the keys of those that it made; of records, the keys of
            those that it holds.
        lock: lock totals that nobody holds, and return them. Parameters of all three: the scope
            where there is no column for totals, keys.
        take: delete rows that nobody holds, and return keys, sums and how many there were.
            Parameters: the scope, keys, the remainder of the numbers by two.
        credit: add sums to totals. Parameters: the scope where there is no column for totals,
            and what ``sums`` of the dialect makes.
        orphans: delete what waits for records that are no more. Parameters: the scope, keys as
            text, keys as their column holds them.
    """

    waiting: str
    ensure: str
    hold: str
    lock: str
    take: str
    credit: str
    orphans: str


def owned(table: Table) -> str:
    """The condition that a row of what is pending belongs to one counter. Parameters: address."""
    return " AND ".join(f"{column} = %s" for column in table.pending.owner)


def update(table: Table, now: str, comparison: str, by: str, limit: str, unless: str = "") -> str:
    """Add, where the row exists and allows it. Parameters: by, limit, key."""
    touched = f", {table.touched} = {now}" if table.touched else ""
    also = f" AND NOT {unless}" if unless else ""
    return (
        f"UPDATE {table.name} SET {table.value} = {table.value} + {by}{touched} "
        f"WHERE {table.value} {comparison} {limit} AND {table.key} = %s{also} "
        f"RETURNING {table.value}"
    )


def updates(table: Table, now: str, unless: str) -> Totals:
    """The statements on a table whose rows others insert."""
    return Totals(
        unit=update(table, now, "<=", "1", str(table.capacity[1] - 1), unless),
        rising=update(table, now, "<=", "%s", "%s", unless),
        falling=update(table, now, ">=", "%s", "%s", unless),
        settling=update(table, now, "<=", "%s", "%s"),
        addressed=True,
        add_many="",
    )


def reads(table: Table, among: str, tails: str = "", tail: str = "") -> Reads:
    """Total and pending of one moment: one statement reads both.

    ``tails`` and ``tail``: rows of what waits in the ledger, for keys and for one key.
    """
    pending = table.pending
    if not table.value:
        both = (
            f"SUM(CASE WHEN {pending.number} = {TOTAL} THEN {pending.value} END), "
            f"SUM(CASE WHEN {pending.number} <> {TOTAL} THEN {pending.value} END)"
        )
        kind, record, name = pending.owner
        return Reads(
            one=f"SELECT {both} FROM {pending.name} WHERE {owned(table)}",
            many=(
                f"SELECT {record}, {both} FROM {pending.name} "
                f"WHERE {kind} = %s AND {name} = %s AND {record} {among} GROUP BY {record}"
            ),
            keyed=0,
        )
    waits = f"SELECT SUM({pending.value}) AS waits FROM {pending.name} WHERE {owned(table)}"
    if tail:
        waits = f"SELECT SUM(waits) AS waits FROM ({waits} UNION ALL {tail})"
    return Reads(
        one=(
            f"SELECT t.{table.value}, p.waits FROM ({waits}) p "
            f"LEFT JOIN {table.name} t ON t.{table.key} = %s"
        ),
        many=_many_of_records(table, among) if pending.record else _many_named(table, among, tails),
        keyed=2 if tail else 1,
    )


def _many_of_records(table: Table, among: str) -> str:
    pending = table.pending
    kind, record, name = pending.owner
    return (
        f"SELECT t.{table.key}, t.{table.value}, (SELECT SUM({pending.value}) "
        f"FROM {pending.name} WHERE {kind} = %s AND {name} = %s "
        f"AND {record} = CAST(t.{table.key} AS TEXT)) "
        f"FROM {table.name} t WHERE t.{table.key} {among}"
    )


def _many_named(table: Table, among: str, tails: str) -> str:
    pending = table.pending
    (key,) = pending.owner
    return (
        f"SELECT {key}, SUM(total), SUM(waits) FROM ("
        f"SELECT {table.key} AS {key}, {table.value} AS total, NULL AS waits "
        f"FROM {table.name} WHERE {table.key} {among} UNION ALL "
        f"SELECT {key}, NULL, {pending.value} FROM {pending.name} WHERE {key} {among} UNION ALL "
        f"{tails}) u GROUP BY {key}"
    )


def scoped(table: Table) -> str:
    """The condition that a row of what is pending is of these counters. Parameters: scope."""
    if table.pending.record is None:
        return "true"
    kind, _, name = table.pending.owner
    # A total that stood among the slots waits, too, as soon as there is a column for it.
    waits = "" if table.value else f" AND {table.pending.number} >= 0"
    return f"{kind} = %s AND {name} = %s{waits}"


def subject(table: Table) -> str:
    """The column of what is pending that names a counter within its scope."""
    return table.pending.owner[1] if table.pending.record else table.pending.owner[0]


def waiting(table: Table) -> str:
    """A page of the counters that have something pending, in the order of their keys."""
    key = subject(table)
    return (
        f"SELECT {key} FROM {table.pending.name} WHERE {scoped(table)} AND {key} > %s "
        f"GROUP BY {key} ORDER BY {key} LIMIT %s"
    )


def left(table: Table) -> str:
    """How many rows wait, for how many counters. Parameters: scope."""
    return (
        f"SELECT COUNT(*), COUNT(DISTINCT {subject(table)}) FROM {table.pending.name} "
        f"WHERE {scoped(table)}"
    )


def namespaces(table: Table, namespace: str) -> str:
    """How many rows wait in each namespace, for how many counters."""
    return (
        f"SELECT {namespace} AS namespace, COUNT(*), COUNT(DISTINCT {subject(table)}) "
        f"FROM {table.pending.name} GROUP BY 1 ORDER BY 1"
    )
