"""The statements that record totals, and forget them again."""

from __future__ import annotations

from dataclasses import dataclass

from django_counters.stores.sql.dialects.ledger import COUNTER

SAMPLES = "django_counters_countersample"


@dataclass(frozen=True)
class Samples:
    """The statements that record totals. The parameters of both begin with those of a scope.

    A scope is: all keys from ``low`` on and before ``high``, but none of the namespaces ``others``.

    Attributes:
        begin: the first statement of the transaction of ``take``, if there is one.
        take: write the totals that differ from what was recorded last, in the order of their keys.
            Parameters: the scope and ``moment`` by name. A row for each.
        forget: delete some of those before a moment. Parameters: the scope, ``moment`` and
            ``limit`` by name. A row for each.
    """

    begin: str
    take: str
    forget: str


def within(key: str, namespace: str, others: str) -> str:
    """The condition that a key is within a scope; ``others`` is true for none of the others."""
    return f"{key} >= %(low)s AND {key} < %(high)s AND {namespace.format(key=key)} {others}"


def take(scope: str, moment: str) -> str:
    """Record what differs. One statement: each total is what it was at one moment.

    Sorted by what no index has, so that all is found before anything is written: the plan that is
    made for a small table would look through it again and again while it grows.
    """
    last = (
        f"SELECT l.value FROM {SAMPLES} l WHERE l.key = c.key AND l.moment <= {moment} "
        "ORDER BY l.moment DESC LIMIT 1"
    )
    due = (
        f"SELECT c.key, c.value FROM {COUNTER} c "
        f"WHERE {scope} AND COALESCE(c.value <> ({last}), true)"
    )
    return (
        f"WITH due AS MATERIALIZED ({due}) INSERT INTO {SAMPLES} (key, moment, value) "
        f"SELECT key, {moment}, value FROM due WHERE true ORDER BY key || '' "
        "ON CONFLICT (key, moment) DO UPDATE SET value = EXCLUDED.value RETURNING 1"
    )


def page(name: str, scope: str) -> str:
    """Some of those before a moment."""
    return (
        f"SELECT {name} FROM {SAMPLES} s WHERE s.moment < %(moment)s AND {scope} "
        "ORDER BY s.moment LIMIT %(limit)s"
    )
