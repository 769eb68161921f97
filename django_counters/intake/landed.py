"""What became of parcels that were landed, and what could not be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from django_counters.stores.sql.batches import record
from django_counters.tables import CounterIncident

_T = TypeVar("_T")
# Why a sum is quarantined of which a part may fit.
_OVERFLOWS = {"overflow", "cells"}


class PageOverflow(Exception):
    """A sum of several messages doesn't fit. Nothing is landed: land fewer of them."""


@dataclass
class Landed:
    """What became of some parcels.

    Attributes:
        source: what people call the place where they come from.
        using: the database.
        parcels: how many were landed here; the others had landed before.
        counters: how many counters were changed.
        conflicts: changes that were counted though their token stands for another one, by token.
        quarantined: amounts that could not be landed, by counter. Each is in an incident.
        forget: by parcel, counters of which not all is in the totals.
        refused: counters whose totals could not take their amounts: nor do their cells.
        incidents: what else was found to be wrong.
        divisible: whether fewer messages can be landed at once, so that an amount that doesn't fit
            takes no other along.
    """

    source: str
    using: str
    parcels: int = 0
    counters: int = 0
    conflicts: dict[str, dict[str, int]] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    forget: dict[str, list[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    incidents: list[str] = field(default_factory=list)
    divisible: bool = False

    def quarantine(
        self, reason: str, amounts: Mapping[str, int], parcels: Iterable[str], token: str = ""
    ) -> None:
        """Write down what could not be landed: with this row it can be put right by hand.

        Raises:
            PageOverflow: fewer messages may fit.
        """
        if self.divisible and reason in _OVERFLOWS:
            raise PageOverflow(reason)
        shown, ids = _shown(amounts), sorted(parcels)
        detail = {"reason": str(reason), "amounts": shown, "generations": ids}
        if token:
            detail["token"] = token
        record(CounterIncident.Kind.QUARANTINED, self.source, detail, self.using)
        add_up(self.quarantined, shown)
        for one in ids:
            self.forget.setdefault(one, []).extend(amounts)

    def strange(self, fields: Mapping[str, str], parcel: str) -> None:
        """Write down what was in a parcel and cannot be read."""
        told = _shown({name: _text(text) for name, text in fields.items()})
        detail = {"reason": "strange", "fields": told, "generations": [parcel]}
        record(CounterIncident.Kind.QUARANTINED, self.source, detail, self.using)

    def conflict(self, token: str, counter: str, by: int) -> None:
        """Note a change that is counted though its token stands for another one."""
        counted = self.conflicts.setdefault(token, {})
        counted[_text(counter)] = counted.get(_text(counter), 0) + by

    def tell_conflicts(self) -> None:
        """Write down all that were noted."""
        if self.conflicts:
            detail = {"counted": self.conflicts}
            record(CounterIncident.Kind.CONFLICT, self.source, detail, self.using)


def _shown(found: Mapping[str, _T]) -> dict[str, _T]:
    """With names that JSON in a database can hold: another process may have written any bytes."""
    return {_text(name): value for name, value in found.items()}


def _text(name: str) -> str:
    escaped = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return escaped.replace("\0", "\\0")


def add_up(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add amounts to others, by counter."""
    for counter, by in more.items():
        amounts[counter] = amounts.get(counter, 0) + by
