"""The ledger strategy: every change is an entry of its own, and the rollup adds them up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar
from uuid import UUID

from django_counters import clock
from django_counters.errors import UnsupportedBounds
from django_counters.ledger.deltas import deltas_of
from django_counters.options import Option, is_integer
from django_counters.stores.base import DeltasStore, Outcome
from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Claimed, Strategy, Summed
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.types import Appended, Batch, Delta, Reading

# Days. Tokens are accepted for two of them, and a partition holds one.
LEAST_RETENTION = 4


class Ledger(Summed):
    """Part of the caller's transaction, and an append never waits for another transaction.

    Every committed entry is in every later read exactly once, before, during and after its rollup.
    A token counts once in its window. The result of a change knows no value, because an append
    reads nothing. A floor or ceiling cannot hold.
    """

    name: ClassVar[str] = "ledger"
    holds: ClassVar[bool] = False
    keeps_tokens: ClassVar[bool] = True
    consistencies: ClassVar[tuple[str, ...]] = ("exact", "rolled_up")

    def __init__(self, deltas: DeltasStore) -> None:
        super().__init__(deltas)
        self._deltas = deltas

    def apply(self, batch: Batch) -> Mapping[Hashable, Appended]:
        """Append a batch, in one statement; with cells in two, in one transaction."""
        for delta in batch.deltas:
            if delta.is_bounded:
                raise UnsupportedBounds(key=str(delta.key), strategy=self.name)
        if not any(delta.effects for delta in batch.deltas):
            return self._appended(batch)
        with self._deltas.all_or_nothing():
            appended = self._appended(batch)
            new = [delta for delta in batch.deltas if not appended[delta.key].replayed]
            self._deltas.add_cells(new)
        return appended

    def _appended(self, batch: Batch) -> Mapping[Hashable, Appended]:
        if len(batch.deltas) > 1:
            self._deltas.append_many([(str(delta.key), delta.by) for delta in batch.deltas])
            return {delta.key: Appended(str(delta.key), None) for delta in batch.deltas}
        (delta,) = batch.deltas
        return {delta.key: self._append(delta, batch.token)}

    def _append(self, delta: Delta, token: UUID | None) -> Appended:
        key = str(delta.key)
        if token is None:
            return Appended(key, self._deltas.append(key, delta.by))
        outcome = self._deltas.append_once(key, delta.by, token)
        if outcome is Outcome.CLAIMED:
            raise Claimed
        return Appended(key, token, replayed=outcome is Outcome.REPLAYED)

    def read(self, key: Hashable, consistency: str, max_age: float = 0.0) -> Reading:
        """Return the value of one counter: ``"exact"``, or the total alone, ``"rolled_up"``."""
        if consistency != "rolled_up":
            return super().read(key, consistency, max_age)
        total, as_of = self._deltas.rolled_up(str(key))
        return Reading(total, total, 0, clock.shown(as_of), consistency)


def _build(table: Table, using: str, shared: Shared) -> Strategy:  # noqa: ARG001
    return Ledger(shared.kept(deltas_of, using))


DECLARED = Declaration(
    Ledger,
    Capabilities(entries=True),
    _build,
    namespaces=(
        Option(
            "retention_days",
            None,
            f"None or {LEAST_RETENTION} or more",
            "For how many days entries are kept. None: forever. "
            "The longest of all ledger namespaces counts for all.",
            lambda value: value is None or is_integer(value, LEAST_RETENTION),
            builds=False,
        ),
    ),
)
