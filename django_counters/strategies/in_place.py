"""Declares the strategies that add to the total itself: ``exact``, and cached counters as exact."""

from __future__ import annotations

from django_counters.options import Option, is_integer
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.exact import CachedAsExact, Exact


def _exact(table: Table, using: str, _: Shared) -> Strategy:
    return Exact(SqlTotals(table, using))


def _as_exact(table: Table, using: str, _: Shared) -> Strategy:
    return CachedAsExact(SqlTotals(table, using))


# A hold never lasts longer.
MOST_MINUTES = 60 * 24 * 30
HOLDS = (
    Option(
        "held_per_actor",
        None,
        "None or an integer from 1 on",
        "How much of one counter one actor may [hold](../how-to/reserve-stock.md#hold-limits) at "
        "once. Each hold then needs `who`. None: any quantity.",
        lambda value: value is None or is_integer(value, 1),
        builds=False,
    ),
    Option(
        "held_in_total",
        None,
        "None or an integer from 1 on",
        "How much of one counter all actors together may hold at once. None: any quantity.",
        lambda value: value is None or is_integer(value, 1),
        builds=False,
    ),
    Option(
        "hold_minutes",
        MOST_MINUTES,
        f"an integer from 1 to {MOST_MINUTES}",
        "How many minutes after it was made a hold ends at the latest, extensions included.",
        lambda value: is_integer(value, 1, MOST_MINUTES),
        builds=False,
    ),
)
EXACT = Declaration(
    Exact,
    Capabilities(
        in_place=True,
        floors=True,
        ceilings=True,
        ranks=True,
        once=True,
        holds=True,
        raises=True,
    ),
    _exact,
    namespaces=HOLDS,
    fields=HOLDS,
)
# It cannot be declared: it replaces cached counters where COUNTERS_CACHED_AS_EXACT is set.
CACHED_AS_EXACT = Declaration(
    CachedAsExact, Capabilities(in_place=True, cached=True, ranks=True, raises=True), _as_exact
)
