"""What is in sealed generations becomes part of the totals, once; what cannot, becomes known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from django.db import DataError, models

from django_counters.exceptions import (
    CounterError,
    CounterUnavailable,
    OutcomeUnknown,
    ReadOnlyDatabase,
    RetryTransaction,
    TokenConflict,
)
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.base import Batched, Outcome
from django_counters.stores.sql.batches import OLDEST, SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.measures import Stored
from django_counters.tables import CounterIncident
from django_counters.tables.total import TotalField
from django_counters.tokens import Token, moment_of, token_of
from django_counters.types import Cell, merged
from django_counters.types import Sums as AnySums
from django_counters.upkeep.fence import Judgement, write
from django_counters.upkeep.measures import declared_measures
from django_counters.upkeep.partitions import make_ahead, partitions_ahead, too_few
from django_counters.upkeep.parts import Part, Sums, sums_of
from django_counters.upkeep.places import columns
from django_counters.upkeep.renames import present_name
from django_counters.write.once import Call
from django_counters.write.records import column_of

if TYPE_CHECKING:
    from django_counters.stores.redis.pending import Contents, RedisPending, Sealed

_T = TypeVar("_T")


@dataclass
class Landed:
    """What became of some generations.

    Attributes:
        generations: how many were landed here.
        counters: how many counters were changed.
        conflicts: changes that were counted though their token stands for another one, by token.
        quarantined: amounts that could not be landed, by counter.
        forget: by generation, counters whose known total in Redis is not right any more.
        refused: counters whose totals could not take their amounts: nor do their cells.
        lost: slots of which Redis lost something. Totals that it knows there may lack what landed
            and could not be acknowledged any more.
    """

    generations: int = 0
    counters: int = 0
    conflicts: dict[str, dict[str, int]] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    forget: dict[str, list[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


class Landing:
    """Lands generations of one source in one database."""

    def __init__(self, using: str, pending: RedisPending, batches: SqlBatches) -> None:
        self._using = using
        self._pending = pending
        self._source = pending.name
        self._batches = batches
        self._fields = {
            f"{model._meta.label}.{name}": column
            for model, name in columns(using)
            if (column := column_of(model, name))
        }

    def commit(self, part: Part, judgement: Judgement) -> tuple[Landed, list[str]]:
        """Land generations and write down what was found, in one transaction of our own."""
        if any(contents.tokens for contents in part.held.values()):
            self._make_room()
        with self._batches.landing():
            told, lost = write(judgement, self._pending, self._batches, self._using)
            landed = self._land(part)
        landed.lost = lost
        return landed, told

    def _make_room(self) -> None:
        """The ledger needs partitions for the increments that have tokens."""
        if too_few(partitions_ahead(self._using)):
            make_ahead(self._using)

    def vanished(self, unread: Collection[Sealed]) -> dict[int, list[str]]:
        """Generations that were there and could not be read, unless others have landed them."""
        lost: dict[int, list[str]] = {}
        landed = self._batches.known([one.generation for one in unread]) if unread else set()
        for one in sorted(unread):
            if one.generation not in landed:
                lost.setdefault(one.slot, []).append(one.generation)
        return lost

    def _land(self, part: Part) -> Landed:
        """Land those that nobody else has landed; what is not new is only to be acknowledged."""
        held = part.held
        claimed = self._batches.claim([self._batched(s, c) for s, c in held.items()])
        fresh = {s: c for s, c in held.items() if s.generation in claimed}
        landed = Landed(generations=len(fresh))
        for sealed in held.keys() - fresh.keys():
            # Whoever landed it knows which of its amounts are not in the totals.
            landed.forget[sealed.generation] = list(held[sealed].sums)
        oldest = self._batches.now() - OLDEST
        due = {s: c for s, c in fresh.items() if moment_of(UUID(s.generation)) >= oldest}
        for sealed in fresh.keys() - due.keys():
            self._quarantine(landed, "expired", dict(fresh[sealed].sums), [sealed])
        for sealed, contents in fresh.items():
            if contents.strange:
                strange = {name: _text(text) for name, text in contents.strange.items()}
                detail = {"reason": "strange", "fields": _shown(strange)}
                detail["generations"] = [sealed.generation]
                record(CounterIncident.Kind.QUARANTINED, self._source, detail, self._using)
        cells: list[AnySums[str]] = [contents.cells for contents in due.values()]
        tokened, counted = self._append(due, landed)
        as_read = len(due) == len(held) and not any(tokened.values())
        sums = part.sums if as_read else sums_of(due.values(), tokened.values())
        self._add(_with_records_of(cells, sums), landed, list(due))
        if landed.refused:
            cells = [_without(landed.refused, part) for part in cells]
        self._add_cells([*cells, *counted], landed, list(due))
        return landed

    def _batched(self, sealed: Sealed, contents: Contents) -> Batched:
        part, total = self._pending.source, sum(contents.sums.values())
        return Batched(sealed.generation, sealed.slot, part, len(contents.sums), total)

    def _append(
        self, due: Mapping[Sealed, Contents], landed: Landed
    ) -> tuple[Mapping[Sealed, Mapping[str, int]], list[AnySums[str]]]:
        """Append increments with tokens to the ledger.

        Returns:
            What they are part of the sums with, and the cells of those that are counted by this:
            whatever becomes of the sums, these are in the ledger.
        """
        taken: dict[Sealed, dict[str, int]] = {sealed: defaultdict(int) for sealed in due}
        cells: list[AnySums[str]] = []
        for sealed, contents in due.items():
            for token, (counter, by, own) in sorted(contents.tokens.items()):
                taken[sealed][counter] += by
                if self._append_one(UUID(token), counter, by, sealed, landed):
                    cells.append({(counter, cell): by for cell in own})
        if landed.conflicts:
            detail = {"counted": landed.conflicts}
            record(CounterIncident.Kind.CONFLICT, self._source, detail, self._using)
        return taken, cells

    def _append_one(
        self, token: UUID, counter: str, by: int, sealed: Sealed, landed: Landed
    ) -> bool:
        """Append one increment; whether it is counted by this."""
        try:
            outcome = self._append_acknowledged(token, counter, by, landed)
        except (CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction):
            raise
        except (CounterError, DataError) as error:
            # What the ledger does not take must not keep everything else from landing.
            self._quarantine(landed, type(error).__name__, {counter: by}, [sealed], str(token))
            return False
        if outcome is not Outcome.APPENDED:
            # It was counted before, in another way: it was waiting here for nothing.
            landed.forget.setdefault(sealed.generation, []).append(counter)
        return outcome is Outcome.APPENDED

    def _append_acknowledged(self, token: UUID, counter: str, by: int, landed: Landed) -> Outcome:
        """Append what Redis has acknowledged, also where its token stands for another change.

        Its own token is then made of the change, so that it counts once, too, if it comes again.
        """
        try:
            return self._append_as(token, counter, by)
        except TokenConflict:
            own = token_of(f"{token} {by} {counter}", moment_of(token))
            outcome = self._append_as(own, counter, by)
        if outcome is Outcome.APPENDED:
            counted = landed.conflicts.setdefault(str(token), {})
            counted[_text(counter)] = counted.get(_text(counter), 0) + by
        return outcome

    def _append_as(self, token: UUID, counter: str, by: int) -> Outcome:
        deltas = registry.deltas(self._using)
        with deltas.all_or_nothing():
            outcome = deltas.append_once(counter, by, token)
            self._refuse_another(outcome, counter, by, token)
        return outcome

    def _refuse_another(self, outcome: Outcome, counter: str, by: int, token: UUID) -> None:
        """A token that is known elsewhere stands for this increment only if it was used for it."""
        if outcome is Outcome.CLAIMED:
            tokens, call = registry.tokens(self._using), Call("", {counter: by})
            if not tokens.is_used_for(Token(str(token)), call.fingerprint):
                raise TokenConflict(token=str(token))

    def _add(self, sums: Sums, landed: Landed, due: Sequence[Sealed]) -> None:
        """Add sums to the totals, each kind of counters in one statement."""
        for label, group in sorted(sums.items()):
            refused: Mapping[str, str]
            if not label:
                refused = self._batches.land_named(group)
            elif column := self._column(label):
                refused = self._land_records(column, group)
            else:
                refused = dict.fromkeys(group, "unknown")
            landed.counters += sum(1 for key, by in group.items() if by and key not in refused)
            names = {key: f"{label} {key}" if label else key for key in refused}
            landed.refused.update(names.values())
            for reason in sorted(set(refused.values())):
                due_to_it = (key for key, why in refused.items() if why == reason)
                amounts = {names[key]: group[key] for key in due_to_it if group[key]}
                if amounts:
                    self._quarantine(landed, reason, amounts, due)

    def _add_cells(
        self, parts: Sequence[AnySums[str]], landed: Landed, due: Sequence[Sealed]
    ) -> None:
        """Add to the cells of what is in the totals or the ledger now."""
        if not any(parts):
            return
        found: dict[tuple[str, Cell | None], int] = {}
        kept = self._kept_tags()
        for (counter, cell), by in chain.from_iterable(part.items() for part in parts):
            if cell is not None:
                tags = kept(cell.measure, cell.tags)
                own = cell if tags == cell.tags else cell._replace(tags=tags)
                where = (counter.partition(" ")[2] or counter, own)
                found[where] = found.get(where, 0) + by
        over = self._land_cells({where: by for where, by in found.items() if by})
        if over:
            amounts = {f"{key} {cell}": by for (key, cell), by in over.items()}
            self._quarantine(landed, "cells", amounts, due)

    def _land_cells(self, sums: AnySums[str]) -> AnySums[str]:
        """Add to cells; those whose values do not fit keep no others from landing."""
        if not sums or self._batches.land_cells(sums):
            return {}
        if len(sums) == 1:
            return sums
        where = sorted(sums, key=str)
        halves = where[: len(where) // 2], where[len(where) // 2 :]
        return merged(self._land_cells({one: sums[one] for one in half}) for half in halves)

    def _kept_tags(self) -> Callable[[int, str], str]:
        """What the tags of a cell become, by the number of its measure."""
        measures = self._measures()

        @cache
        def kept(measure: int, tags: str) -> str:
            if not tags or measure not in measures:
                return tags
            return registry.measures(self._using).admitted(*measures[measure], tags)

        return kept

    def _measures(self) -> dict[int, tuple[Measure, Stored]]:
        """The declared measures of this database, by their numbers."""
        known = registry.measures(self._using)
        declared = list(declared_measures(self._using))
        return {stored.id: (one, stored) for one in declared if (stored := known.find(one.name))}

    def _column(self, label: str) -> TotalField | None:
        """The field, also where it had this name before."""
        if label in self._fields or label.count(".") < 2:
            return self._fields.get(label)
        present = present_name(label)
        return next((self._fields[one] for one in self._fields if _lower(one) == present), None)

    def _land_records(self, column: TotalField, sums: Mapping[str, int]) -> Mapping[str, str]:
        model: type[models.Model] = column.model
        return self._batches.land_records(column.place().table, model._meta.pk, sums)

    def _quarantine(
        self,
        landed: Landed,
        reason: str,
        amounts: dict[str, int],
        sealed: Sequence[Sealed],
        token: str = "",
    ) -> None:
        """Write down what could not be landed: with this row it can be put right by hand."""
        generations = sorted(one.generation for one in sealed)
        detail = {"reason": str(reason), "amounts": _shown(amounts), "generations": generations}
        if token:
            detail["token"] = token
        record(CounterIncident.Kind.QUARANTINED, self._source, detail, self._using)
        for counter, by in _shown(amounts).items():
            landed.quarantined[counter] = landed.quarantined.get(counter, 0) + by
        for generation in generations:
            landed.forget.setdefault(generation, []).extend(amounts)


def _without(refused: Collection[str], cells: AnySums[str]) -> AnySums[str]:
    """The cells of counters whose totals have taken their amounts."""
    return {where: by for where, by in cells.items() if where[0] not in refused}


def _with_records_of(parts: Iterable[AnySums[str]], sums: Sums) -> Sums:
    """The sums, with zero for records of which cells alone are left.

    What was counted up and down is no sum, and one that is taken away while pages are read is in
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


def _shown(found: Mapping[str, _T]) -> dict[str, _T]:
    """With names that JSON in a database can hold: somebody else may have written any bytes."""
    return {_text(name): value for name, value in found.items()}


def _text(name: str) -> str:
    escaped = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return escaped.replace("\0", "\\0")
