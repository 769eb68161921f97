"""Adds increments from outside of the database to the totals, each once.

A source is a module that packs pending increments into a `Parcel`, lands it, and then acknowledges
it::

    for page in orders.unread():
        parcel = Parcel(id_of(page), "orders", sums=page.sums)
        landed = land(parcel, using)
        orders.acknowledge(page)

A source gives the same id whenever it reads the same page again: the ``hex`` of a UUIDv7, which
`tokens.token_of` makes of a text and the moment of the page. It adds nothing to a page that has an
id. It may land the same parcel repeatedly, and may crash at any point. It must not acknowledge a
page before `land` has returned. An amount that doesn't fit its total is quarantined: an incident
and the result of `land` have it, and the other amounts land. A parcel older than 28 days is
quarantined as a whole: it may have landed, and its id may be pruned.

A source whose pages come in order gives each parcel the positions that it is between, instead of an
id: ``Parcel("", "clicks", sums, moves=[Move("clicks", "0", "41", "57")])``. It lands exactly when
all of them move, in the transaction of the counts, regardless of its age. If a stored position
differs, `land` raises `Moved`: another process has landed the page, or a part of it. Drop the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, DataError

from django_counters import clock
from django_counters.conf import EXACT
from django_counters.effects import kinds, projector
from django_counters.errors import (
    CounterError,
    CounterUnavailable,
    OutcomeUnknown,
    ReadOnlyDatabase,
    RetryTransaction,
    TokenConflict,
)
from django_counters.ledger.deltas import deltas_of
from django_counters.ledger.upkeep import make_ahead, partitions_ahead, too_few
from django_counters.measure import Kind
from django_counters.projector import LandingCells
from django_counters.registry import registry
from django_counters.stores.base import Outcome, Parcel, Tokened
from django_counters.stores.sql.batches import OLDEST, REMEMBERED, SqlBatches
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterIncident
from django_counters.tables.total import TotalField
from django_counters.tokens import Token, moment_of, token_of
from django_counters.types import Batch, Cell, Delta, Unknown, counter_of, merged
from django_counters.types import Sums as CellSums
from django_counters.upkeep import columns, present_name
from django_counters.write.changes import Call, once

_T = TypeVar("_T")
# Why a sum is quarantined of which a part may fit.
_OVERFLOWS = {"overflow", "cells"}


class PageOverflow(Exception):
    """A sum of several messages doesn't fit. Nothing is landed: land fewer of them."""


@dataclass
class Landed:
    """The result of landing parcels.

    Attributes:
        source: the name of the source, for people.
        using: the database.
        parcels: the number of parcels that this call landed; the others had landed before.
        counters: the number of changed counters.
        conflicts: changes that were counted though their token belongs to another change, by token.
        quarantined: amounts that did not land, by counter. Each is in an incident.
        forget: by parcel, the counters whose amounts are not all in the totals.
        refused: counters whose totals could not take their amounts: nor do their cells.
        incidents: other problems.
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
        """Record an incident with amounts that did not land, so that people can correct them.

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


# By how much counters change: by place and key. The place of named counters is "".
Sums = Mapping[str, Mapping[str, int]]
# What else lands for sets: see `Parcel.more`.
More = Mapping[tuple[str, Cell], Any]
_Where = Callable[[str, Cell], tuple[str, Cell]]
# How many increments with tokens one statement appends.
_AT_ONCE = 1000
_C = TypeVar("_C")
_V = TypeVar("_V")


def land(parcel: Parcel, using: str = DEFAULT_DB_ALIAS) -> Landed:
    """Land one parcel in a transaction of its own, unless it has landed.

    Raises:
        PartitionBusy: others held the rows, or it took too long. Nothing is landed: try again.
        Moved: a position of it is not where the parcel begins. Nothing is landed: read the
            positions again. Only for parcels with positions.
        OutcomeUnknown: the connection was lost in COMMIT. Land the same parcel again. If
            it has positions and has landed, that raises `Moved`.
        CounterUnavailable, ReadOnlyDatabase: nothing is landed.
        RuntimeError: the caller has a transaction.
        ValueError: the id of the parcel is not the ``hex`` of a UUIDv7, or is of a later day; it
            has an id and positions; two of its positions are of one part, or one goes nowhere.
    """
    _check(parcel)
    landing = ParcelLanding(using, parcel.source)
    with landing.begun([parcel]):
        return landing.land([parcel])


def _check(parcel: Parcel) -> None:
    """Refuse a parcel that could be taken for another one."""
    if parcel.moves:
        if parcel.id:
            raise ValueError("A parcel has an id or positions, not both.")
        return
    # Another spelling would be another claim, and the claim of one that is far ahead would be
    # forgotten before the parcel is too old.
    found = UUID(parcel.id)
    if found.hex != parcel.id or found.version != 7:
        raise ValueError(f"The id of a parcel is the hex of a UUIDv7, not {parcel.id!r}.")
    if moment_of(found) > clock.utc() + (REMEMBERED - OLDEST):
        raise ValueError(
            f"The parcel {parcel.id} is of {moment_of(found)}, more than 2 days ahead."
        )


class _NotNew(Exception):
    """Some of the tokens of a page were used before."""


class ParcelLanding:
    """Lands parcels of one source in one database. ``source``: what people call it."""

    def __init__(self, using: str, source: str) -> None:
        self._using = using
        self._source = source
        self._batches = registry.kept(SqlBatches, using)

    @contextmanager
    def begun(self, parcels: Iterable[Parcel]) -> Iterator[None]:
        """The transaction of a landing; see `SqlBatches.landing`."""
        # The ledger needs partitions for the increments that have tokens.
        if any(parcel.tokens for parcel in parcels) and too_few(partitions_ahead(self._using)):
            make_ahead(self._using)
        with self._batches.landing():
            yield

    def land(
        self, parcels: Sequence[Parcel], sums: Sums | None = None, *, divisible: bool = False
    ) -> Landed:
        """Land the parcels that no process has landed, within `begun`.

        Args:
            parcels: what to land.
            sums: those of all of them.
            divisible: whether the caller can land less at once.

        Raises:
            PageOverflow: a sum doesn't fit, and the parcels are ``divisible``.
        """
        claimed = self._batches.claim([parcel for parcel in parcels if not parcel.moves])
        registry.positions(self._using).move([one for p in parcels for one in p.moves])
        fresh = [parcel for parcel in parcels if parcel.moves or parcel.id in claimed]
        landed = Landed(self._source, self._using, len(fresh), divisible=divisible)
        for parcel in parcels:
            if not parcel.moves and parcel.id not in claimed:
                # A process that landed it knows which of its amounts are not in the totals.
                landed.forget[parcel.id] = list(parcel.sums)
        due = self._due(fresh, landed)
        for parcel in fresh:
            if parcel.strange:
                landed.strange(parcel.strange, parcel.name)
        tokened, counted = self._append(due, landed)
        if sums is None or len(due) < len(parcels) or tokened:
            sums = sums_of(due, tokened)
        ids = [parcel.name for parcel in due]
        cells = [parcel.cells for parcel in due]
        more = [parcel.more for parcel in due]
        self._add(_with_records_of(cells, sums), landed, ids)
        if landed.refused:
            cells = [_without(landed.refused, part) for part in cells]
            more = [_without(landed.refused, part) for part in more]
        self._add_cells([*cells, *counted], more, landed, ids)
        return landed

    def _due(self, fresh: Sequence[Parcel], landed: Landed) -> list[Parcel]:
        """Return the parcels to land. Quarantine those so old that they may have landed."""
        oldest = self._batches.now() - OLDEST
        due = []
        for parcel in fresh:
            # A position says for ever what has landed.
            if parcel.moves or moment_of(UUID(parcel.id)) >= oldest:
                due.append(parcel)
            else:
                landed.quarantine("expired", parcel.sums, [parcel.id])
        return due

    def _append(
        self, due: Iterable[Parcel], landed: Landed
    ) -> tuple[Mapping[str, int], list[CellSums[str]]]:
        """Append increments with tokens to the ledger; without one, add each with its token.

        Returns:
            Their share of the sums, and the cells of those that this call counts. Even if the sums
            fail, these are in the ledger.
        """
        taken: dict[str, int] = defaultdict(int)
        cells: list[CellSums[str]] = []
        for parcel in due:
            tokened = sorted(parcel.tokens.items())
            for start in range(0, len(tokened), _AT_ONCE):
                page = tokened[start : start + _AT_ONCE]
                for _, (counter, by, own) in self._append_page(page, parcel, landed):
                    cells.append({(counter, cell): cell.added(by) for cell in own})
            for counter, by, _ in parcel.tokens.values():
                taken[counter] += by
        landed.tell_conflicts()
        return taken, cells

    def _append_page(
        self, page: Sequence[tuple[str, Tokened]], parcel: Parcel, landed: Landed
    ) -> Iterator[tuple[str, Tokened]]:
        """Append increments in one statement, or in halves. Yield those that this call counted."""
        if len(page) == 1:
            ((token, (counter, by, _)),) = page
            if self._append_one(UUID(token), counter, by, parcel, landed):
                yield page[0]
        elif self._append_new(page):
            yield from page
        else:
            half = len(page) // 2
            yield from self._append_page(page[:half], parcel, landed)
            yield from self._append_page(page[half:], parcel, landed)

    def _append_new(self, page: Sequence[tuple[str, Tokened]]) -> bool:
        """Append increments if all of their tokens are new; else nothing is appended."""
        deltas = registry.kept(deltas_of, self._using)
        try:
            with deltas.all_or_nothing():
                entries = {UUID(token): (counter, by) for token, (counter, by, _) in page}
                if deltas.append_many_once(entries) == 0:
                    return True
                raise _NotNew
        except (CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction):
            raise
        except (CounterError, DataError, _NotNew):
            return False

    def _append_one(
        self, token: UUID, counter: str, by: int, parcel: Parcel, landed: Landed
    ) -> bool:
        """Append one increment. Return whether this call counted it."""
        try:
            outcome = self._append_acknowledged(token, counter, by, landed)
        except (CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction):
            raise
        except (CounterError, DataError) as error:
            # An entry that the ledger refuses must not stop the others.
            landed.quarantine(type(error).__name__, {counter: by}, [parcel.name], str(token))
            return False
        if outcome is not Outcome.APPENDED:
            # It was counted before, in another way: it was waiting here for nothing.
            landed.forget.setdefault(parcel.name, []).append(counter)
        return outcome is Outcome.APPENDED

    def _append_acknowledged(self, token: UUID, counter: str, by: int, landed: Landed) -> Outcome:
        """Append an acknowledged increment, even if its token belongs to another change.

        In that case it gets a token made of the change, so that a repeat counts once, too.
        """
        try:
            return self._append_as(token, counter, by)
        except TokenConflict:
            own = token_of(f"{token} {by} {counter}", moment_of(token))
            outcome = self._append_as(own, counter, by)
        if outcome is Outcome.APPENDED:
            landed.conflict(str(token), counter, by)
        return outcome

    def _append_as(self, token: UUID, counter: str, by: int) -> Outcome:
        if "ledger" in dialect_of(self._using).lacks:
            exact = registry.strategy(EXACT, NAMED, self._using)

            def add() -> Mapping[str, int | Unknown]:
                return {counter: exact.apply(Batch((Delta(counter, by),)))[counter]}

            answer = once(Token(str(token)), Call("", {counter: by}), self._using, add)
            return Outcome.REPLAYED if answer.replayed else Outcome.APPENDED
        deltas = registry.kept(deltas_of, self._using)
        with deltas.all_or_nothing():
            outcome = deltas.append_once(counter, by, token)
            if outcome is Outcome.CLAIMED:
                # It stands for this increment only if it was used for it elsewhere.
                tokens, call = registry.tokens(self._using), Call("", {counter: by})
                if not tokens.is_used_for(Token(str(token)), call.fingerprint):
                    raise TokenConflict(token=str(token))
        return outcome

    def _add(self, sums: Sums, landed: Landed, due: Sequence[str]) -> None:
        """Add sums to the totals, each kind of counters in one statement."""
        for label, group in sorted(sums.items()):
            refused = {key: "once" for key in group if self._counts_rows(label, key)}
            rest = {key: by for key, by in group.items() if key not in refused}
            if not label:
                refused.update(self._batches.land_named(rest) if rest else {})
            elif column := self._column(label):
                table, key = column.place().table, column.model._meta.pk
                refused.update(self._batches.land_records(table, key, rest) if rest else {})
            else:
                refused = dict.fromkeys(group, "unknown")
            landed.counters += sum(1 for key, by in group.items() if by and key not in refused)
            names = {key: counter_of(label, key) for key in refused}
            landed.refused.update(names.values())
            for reason in sorted(set(refused.values())):
                due_to_it = (key for key, why in refused.items() if why == reason)
                amounts = {names[key]: group[key] for key in due_to_it if group[key]}
                if amounts:
                    landed.quarantine(reason, amounts, due)

    def _add_cells(
        self,
        parts: Sequence[CellSums[str]],
        more: Sequence[More],
        landed: Landed,
        due: Sequence[str],
    ) -> None:
        """Add to cells, and to sets of members, for increments that are in the totals or the ledger
        now."""
        if not any(parts):
            return
        found: dict[tuple[str, Cell | None], int] = {}
        members: dict[Kind, list[tuple[str, Cell]]] = {}
        known = projector()
        landing = known.landing(self._using) if known else LandingCells()
        where = _where(landing)
        for (counter, cell), by in chain.from_iterable(part.items() for part in parts):
            if cell is not None:
                key, own = where(counter, cell)
                if own.kind.has_members:
                    members.setdefault(own.kind, []).append((key, own))
                else:
                    found[key, own] = found.get((key, own), 0) + by
        over = self._land_cells({one: by for one, by in found.items() if by}, landing)
        self._land_members(members, more, where)
        if over:
            landed.quarantine(
                "cells", {f"{key} {cell}": by for (key, cell), by in over.items()}, due
            )

    def _land_members(
        self,
        members: Mapping[Kind, Sequence[tuple[str, Cell]]],
        more: Sequence[More],
        where: _Where,
    ) -> None:
        others: dict[Kind, list[tuple[str, Cell, Any]]] = {}
        for (counter, cell), value in chain.from_iterable(part.items() for part in more):
            others.setdefault(cell.kind, []).append((*where(counter, cell), value))
        for kind in kinds():
            if kind in members or kind in others:
                self._batches.land_members(kind, members.get(kind, ()), others.get(kind, ()))

    def _land_cells(self, sums: CellSums[str], landing: LandingCells) -> CellSums[str]:
        """Add to cells. Return the amounts that do not fit; the others are added."""
        if not sums or self._batches.land_cells(landing.with_derived(sums)):
            return {}
        if len(sums) == 1:
            return sums
        where = sorted(sums, key=str)
        halves = where[: len(where) // 2], where[len(where) // 2 :]
        return merged(
            self._land_cells({one: sums[one] for one in half}, landing) for half in halves
        )

    @cached_property
    def _fields(self) -> Mapping[str, TotalField]:
        """The counters of records that have a column, by place."""
        return {f"{field.model._meta.label}.{field.name}": field for field in columns(self._using)}

    def _counts_rows(self, label: str, key: str) -> bool:
        """Return whether an amount would be a count without rows."""
        column = self._column(label) if label else None
        measure = column.measure if column else None if label else registry.policy(key).measure
        return measure is not None and measure.counts_rows

    def _column(self, label: str) -> TotalField | None:
        """The field, also where it had this name before."""
        if label in self._fields or label.count(".") < 2:
            return self._fields.get(label)
        present = present_name(label)
        return next((self._fields[one] for one in self._fields if _lower(one) == present), None)


def sums_of(parcels: Iterable[Parcel], without: Mapping[str, int] | None = None) -> Sums:
    """The amounts to add, by place and key: the keys of named counters have no white space."""
    sums: dict[str, int] = {}
    for parcel in parcels:
        for counter, by in parcel.sums.items():
            sums[counter] = sums.get(counter, 0) + by
    for counter, by in (without or {}).items():
        sums[counter] = sums.get(counter, 0) - by
    places: dict[str, dict[str, int]] = {}
    for counter, by in sums.items():
        place, _, key = counter.partition(" ") if " " in counter else ("", "", counter)
        if by:
            places.setdefault(place, {})[key] = by
    return places


def _where(landing: LandingCells) -> _Where:
    """Return a function from a counter and its cell to the stored key and cell."""
    stored: Callable[[Cell], Cell] = cache(landing.stored)
    return lambda counter, cell: (counter.partition(" ")[2] or counter, stored(cell))


def _without(
    refused: Collection[str], cells: Mapping[tuple[str, _C], _V]
) -> Mapping[tuple[str, _C], _V]:
    """The cells, or sets, of counters whose totals have taken their amounts."""
    return {where: by for where, by in cells.items() if where[0] not in refused}


def _with_records_of(parts: Iterable[CellSums[str]], sums: Sums) -> Sums:
    """The sums, with zero for records of which cells alone are left.

    Counting up and down gives no sum, and a counter that is removed while pages are read is in
    none. Their cells land if the record is there.
    """
    absent: dict[str, dict[str, int]] = {}
    for counter, _ in chain.from_iterable(parts):
        place, _, key = counter.partition(" ")
        if key and key not in sums.get(place, {}):
            absent.setdefault(place, {})[key] = 0
    return {**sums, **{place: {**sums.get(place, {}), **absent[place]} for place in absent}}


def _lower(label: str) -> str:
    """With the name of the model as migrations have it."""
    app, model, name = label.split(".", 2)
    return f"{app}.{model}.".lower() + name
