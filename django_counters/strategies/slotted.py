"""The slotted strategy: increments of a record's counter wait in its slots."""

from __future__ import annotations

from typing import ClassVar

from django_counters.strategies.spread import Spread


class Slotted(Spread):
    """For hot counters of a record that have to join a transaction."""

    name: ClassVar[str] = "slotted"
