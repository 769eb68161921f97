"""Composes strategies from settings and keeps them: the only state of the app, and no numbers."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from django.conf import settings

from django_counters.conf import DEFAULT, Policy, policies
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies.base import Strategy
from django_counters.strategies.exact import Exact
from django_counters.types import namespace_of


class Registry:
    """One per process. Parses ``COUNTERS`` on first use, and again when it is overridden."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._strategies: dict[tuple[str, Table, str], Strategy] = {}
        self._policies: Mapping[str, Policy] | None = None

    def policy(self, key: str) -> Policy:
        """The policy of the namespace of ``key``.

        Raises:
            InvalidConfiguration: the setting is wrong.
        """
        declared = self._policies
        if declared is None:
            declared = self._policies = policies(getattr(settings, "COUNTERS", None))
        return declared.get(namespace_of(key)) or declared[DEFAULT]

    def forget_policies(self, *, setting: str, **_: object) -> None:
        """Receives Django's ``setting_changed``."""
        if setting == "COUNTERS":
            self._policies = None

    def strategy(self, name: str, table: Table, using: str) -> Strategy:
        """The strategy called ``name`` over a table of a database."""
        wanted = (name, table, using)
        try:
            return self._strategies[wanted]
        except KeyError:
            with self._lock:
                return self._strategies.setdefault(wanted, _compose(*wanted))


def _compose(name: str, table: Table, using: str) -> Strategy:
    composers = {"exact": Exact}
    return composers[name](SqlTotals(table, using))


registry = Registry()
