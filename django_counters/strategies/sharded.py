"""The sharded strategy: increments of a named counter wait in its shards."""

from __future__ import annotations

from typing import ClassVar

from django_counters.strategies.spread import Spread


class Sharded(Spread):
    """For hot named counters that have to join a transaction."""

    name: ClassVar[str] = "sharded"
