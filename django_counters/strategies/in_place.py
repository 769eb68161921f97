"""Declares the strategies that add to the total itself: ``exact``, and cached counters as exact."""

from __future__ import annotations

from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.strategies.exact import CachedAsExact, Exact


def _exact(table: Table, using: str, _: Shared) -> Strategy:
    return Exact(SqlTotals(table, using))


def _as_exact(table: Table, using: str, _: Shared) -> Strategy:
    return CachedAsExact(SqlTotals(table, using))


EXACT = Declaration(
    Exact,
    Capabilities(
        in_place=True,
        floors=True,
        ceilings=True,
        ranks=True,
        once=True,
        raises=True,
    ),
    _exact,
    namespaces=(),
    fields=(),
)
# It cannot be declared: it replaces cached counters where COUNTERS_CACHED_AS_EXACT is set.
CACHED_AS_EXACT = Declaration(
    CachedAsExact, Capabilities(in_place=True, cached=True, ranks=True, raises=True), _as_exact
)
