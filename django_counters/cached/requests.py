"""The scripts of cached counters, the requests to run them, and the meaning of their answers.

No I/O.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django_counters import errors
from django_counters.cached.store import (
    LARGEST_SUM,
    NO_TOTALS,
    Added,
    CachedState,
    CellSearch,
    Lease,
)
from django_counters.redis.commands import Script, ScriptRun, ServerRefused
from django_counters.redis.keys import (
    COUNT,
    RANKS,
    TOKEN,
    SlotKeys,
    cell_field,
    cells_in,
    proposed,
    slot_of,
)
from django_counters.stores.base import PendingField, PendingParts, UnreadPage
from django_counters.tokens import moment_of
from django_counters.types import Cell, Delta, Raised

_T = TypeVar("_T")

# The amount that waits for one counter stays far below 64 bits, because Lua cannot compare larger
# numbers.
LARGEST_PENDING = 2**62
# About how many fields a script looks through at once: it keeps the server from other work.
PAGE = 500
# The answer where nothing was asked for.
NOT_ASKED = CachedState(None, 0)
_MILLISECOND = timedelta(milliseconds=1)
# The errors that a server gives before it executes anything. Any other may be that of a proxy which
# had passed the command on.
_REFUSED = re.compile(
    "(NOAUTH|WRONGPASS|NOPERM|MOVED|ASK|TRYAGAIN|CROSSSLOT|CLUSTERDOWN|LOADING|BUSY|NOSCRIPT|"
    "RINGFULL|WRONGTYPE|ERR unknown command|ERR max number of clients)\\b"
)
# How servers mark the error of a script that had begun: its earlier writes stay.
_HAD_BEGUN = re.compile(r"script: [0-9a-f]{40}, on |Error running script")
# What a script is refused at its first write, so that nothing was done.
_NOTHING_DONE = frozenset({"OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN"})


# The scripts, one verb each.


def _read(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")


def _on_slots(verb: str) -> Script:
    """A script that works on slots, behind the text that all of these share."""
    return Script(_read("slot") + _read(verb))


# Most calls are one increment of a counter that was counted a moment ago.
ADD = Script(_read("actors") + _read("usual") + _on_slots("add").text)
ADD_ONLY = Script(_read("add_only"))
ADD_ONCE = _on_slots("add_once")
MAXIMUM = _on_slots("maximum")
LOOK = _on_slots("look")
FILL = _on_slots("fill")
FORGET = Script(_read("forget"))
DISCARD = Script(FORGET.text + _read("discard"))
DISCARD_SETS = Script(_read("discard_sets"))
DISCARD_CELLS = Script(_read("discard_cells"))
FIELDS = _on_slots("fields")
CUT = _on_slots("cut")
ACKNOWLEDGE = _on_slots("acknowledge")
WAITING = _on_slots("waiting")
SETTLE = Script(_read("settle"))
READ = _on_slots("read")
HOLD = Script(_read("hold"))
RELEASE = Script(_read("release"))
OWN = Script(_read("own"))


class RoundTrip(NamedTuple, Generic[_T]):
    """Commands for one round trip, and how to read the replies to them.

    ``counts``: whether they count, so that a lost answer is an unknown outcome.
    """

    commands: Sequence[ScriptRun]
    read: Callable[[Sequence[Any]], _T]
    counts: bool = True


class Requests:
    """Makes requests about the slots of one Redis.

    ``shown``: the name of this Redis in errors. ``together``: whether one command may use several
    slots. In a cluster they are on several servers.
    """

    def __init__(self, shown: str, slots: SlotKeys, *, together: bool) -> None:
        self.shown = shown
        self._slots = slots
        self.together = together

    def add(self, deltas: Mapping[str, Delta], age: int) -> RoundTrip[Added]:
        """Add to counters and to their cells.

        Answers their values, if their totals are known and not older than ``age`` ms. -1 asks for
        nothing.
        """
        if len(deltas) == 1:
            return self._add_to_one(*next(iter(deltas.items())), age)
        groups = self._groups(deltas)
        words: dict[int, tuple[Any, ...]] = {}
        for slot, mine in groups.items():
            counters: list[str | int] = []
            cells: list[str | int] = []
            for name in mine:
                delta = deltas[name]
                counters += (name, delta.by)
                if delta.effects:
                    cells += _cells(name, delta)
            words[slot] = (proposed(slot), len(mine), len(cells) // 2, *counters, *cells)
        parts = self._parts(groups)
        commands = [self._command(ADD, part, (age,), words) for part in parts]
        return RoundTrip(commands, lambda replies: self._added(parts, groups, replies))

    def _add_to_one(self, counter: str, delta: Delta, age: int) -> RoundTrip[Added]:
        slot = slot_of(counter)
        cells = _cells(counter, delta) if delta.effects else []
        words: tuple[str | int, ...] = (age, proposed(slot), 1, len(cells) // 2, counter, delta.by)
        words += tuple(cells)
        command = ScriptRun(ADD, self._slots.keys(slot), words)
        return RoundTrip((command,), partial(self._added_to_one, counter))

    def add_only(self, counter: str, by: int, age: int) -> RoundTrip[CachedState | None]:
        """Add to one counter without cells in the fewest steps. None: nothing was done.

        ``by`` is at most `LARGEST_SUM`, either way. ``age`` as in `add`.
        """
        keys, words = self._slots.keys(slot_of(counter)), (counter, by)
        blind = age == NO_TOTALS
        command = ScriptRun(ADD_ONLY, keys[: 1 if blind else 2], words if blind else (*words, age))
        return RoundTrip((command,), self._added_only)

    def add_once(
        self, counter: str, delta: Delta, token: str, age: int, window: tuple[timedelta, timedelta]
    ) -> RoundTrip[tuple[CachedState, bool]]:
        """Add to one counter and to its cells, unless its token was used or is out of its window.

        ``window``: how far behind and ahead of the clock of Redis the time of the token may be.
        """
        slot = slot_of(counter)
        keys = (*self._slots.keys(slot), self._token_key(counter, token))
        back, ahead = (part // _MILLISECOND for part in window)
        cells = [cell_field(effect.cell, counter) for effect in delta.carried]
        told = hashlib.sha256(delta.told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        words: tuple[str | int, ...] = (age, proposed(slot), counter, delta.by, token, back, ahead)
        words += (told if delta.told else "", *cells)
        return RoundTrip([ScriptRun(ADD_ONCE, keys, words)], self._added_once)

    def maximum(
        self, counter: str, number: int, age: int, told: tuple[Lease, int] | None
    ) -> RoundTrip[Raised | CachedState]:
        """Add what a counter lacks of ``number``; `CachedState` if its total has to be asked.

        Its total is not older than ``age`` ms, or what the caller was ``told`` under a lease,
        without anything that waits here.
        """
        slot = slot_of(counter)
        lease: tuple[str | int, ...] = (told[0].version, told[1]) if told else ("-", 0)
        words = (age, proposed(slot), counter, number, *lease)
        return RoundTrip([ScriptRun(MAXIMUM, self._slots.keys(slot), words)], self._raised)

    def look(self, counters: Iterable[str], age: int) -> RoundTrip[Mapping[str, CachedState]]:
        """Look up counters. ``age`` is in ms, and -1 asks for no totals."""
        groups = self._groups(counters)
        words = {slot: (proposed(slot), len(mine), *mine) for slot, mine in groups.items()}
        parts = self._parts(groups)
        commands = [self._command(LOOK, part, (age,), words) for part in parts]
        return RoundTrip(
            commands, lambda replies: _seen(self._added(parts, groups, replies)), counts=False
        )

    def fill(self, totals: Mapping[str, tuple[int | None, Lease]]) -> RoundTrip[None]:
        """Fill in totals under their leases.

        None: the total cannot be filled in, so that no caller waits for it.
        """
        held: dict[tuple[int, str], list[str | int]] = {}
        for counter, (total, lease) in totals.items():
            triples = held.setdefault((slot_of(counter), lease.version), [])
            triples += (counter, "" if total is None else total, lease.moment)
        commands = [
            ScriptRun(FILL, self._slots.keys(slot), (proposed(slot), version, *triples))
            for (slot, version), triples in held.items()
        ]
        return RoundTrip(commands, lambda replies: None, counts=False)  # noqa: ARG005

    def forget(self, counters: Iterable[str]) -> RoundTrip[None]:
        """Forget totals that something else than a flush has changed."""
        commands = self._on_each(FORGET, self._groups(counters))
        return RoundTrip(commands, self._all_done, counts=False)

    def discard(self, counters: Iterable[str]) -> RoundTrip[list[CellSearch]]:
        """Drop what waits for deleted counters, and forget their totals.

        Returns the searches for their cells, which are left.
        """
        groups = self._groups(counters)

        def read(replies: Sequence[Any]) -> list[CellSearch]:
            self._all_done(replies)
            return [
                CellSearch(tuple(mine), generation)
                for mine, generations in zip(groups.values(), replies, strict=True)
                for generation in generations
            ]

        return RoundTrip(self._on_each(DISCARD, groups), read, counts=False)

    def discard_cells(self, search: CellSearch) -> RoundTrip[CellSearch | None]:
        """Drop a page of the cells of discarded counters, and return the search that is left."""
        keys = self._slots.keys(slot_of(search.counters[0]))
        words: tuple[str | int, ...] = (search.generation, search.cursor, PAGE)
        words += search.counters

        def read(replies: Sequence[Any]) -> CellSearch | None:
            self._all_done(replies)
            return search._replace(cursor=replies[0]) if replies[0] != "0" else None

        return RoundTrip([ScriptRun(DISCARD_CELLS, keys, words)], read, counts=False)

    def parts(self, counter: str, before: PendingParts | None = None) -> RoundTrip[PendingParts]:
        """Read a page of pending increments of a counter and its cells, as of the first page.

        ``before``: the previous page. HSCAN repeats fields if the hash shrinks between two pages,
        as it does when records of the slot are deleted. A page leaves out the repeated ones.
        """
        slot, rest = slot_of(counter), before.rest if before else ()
        seen = before.seen if before else frozenset()
        words: tuple[str | int, ...] = (proposed(slot), counter, PAGE)
        if rest:
            words += rest[0]

        def read(replies: Sequence[Any]) -> PendingParts:
            self._all_done(replies)
            history, following, *told = replies[0]
            if not rest:
                pages = [UnreadPage(generation, "0", history) for generation in following]
            else:
                pages = [*rest[1:]]
                if following != "0":
                    pages.insert(0, rest[0]._replace(cursor=following))
            fields: dict[tuple[str, str], PendingField] = {}
            for one in map(PendingField, told[::3], told[1::3], told[2::3]):
                if one[:2] not in seen:
                    fields[one[:2]] = one
            return PendingParts(*_parts_in(fields.values()), pages, seen | fields.keys())

        return RoundTrip([ScriptRun(FIELDS, self._slots.keys(slot), words)], read, counts=False)

    def discard_sets(self, counter: str, sets: Sequence[PendingField]) -> RoundTrip[None]:
        """Drop what actors of a counter have, as `parts` has returned it."""
        words = tuple(word for one in sets for word in one)
        command = ScriptRun(DISCARD_SETS, self._slots.keys(slot_of(counter)), words)
        return RoundTrip([command], self._all_done, counts=False)

    def _on_each(self, script: Script, groups: Mapping[int, Sequence[str]]) -> list[ScriptRun]:
        return [
            ScriptRun(script, self._slots.keys(slot), tuple(mine)) for slot, mine in groups.items()
        ]

    def settle(self, counter: str, token: str, value: int) -> RoundTrip[None]:
        """Remember the value that a call with a token returned, if Redis did not know it."""
        command = ScriptRun(SETTLE, (self._token_key(counter, token),), (value,))
        return RoundTrip([command], lambda replies: None, counts=False)  # noqa: ARG005

    def _token_key(self, counter: str, token: str) -> str:
        """One key for all counters, to notice conflicts; in a cluster, one for each slot."""
        return self._slots.token(0 if self.together else slot_of(counter), token)

    def _groups(self, counters: Iterable[str]) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for counter in counters:
            groups.setdefault(slot_of(counter), []).append(counter)
        return groups

    def _parts(self, groups: Mapping[int, object]) -> list[tuple[int, ...]]:
        """The slots of each command."""
        return [tuple(groups)] if self.together else [(slot,) for slot in groups]

    def _command(
        self, script: Any, part: Sequence[int], first: tuple[int, ...], words: Mapping[int, Any]
    ) -> ScriptRun:
        keys = tuple(key for slot in part for key in self._slots.keys(slot))
        return ScriptRun(script, keys, (*first, *(word for slot in part for word in words[slot])))

    def _added(
        self,
        parts: Sequence[Sequence[int]],
        groups: Mapping[int, Sequence[str]],
        replies: Sequence[Any],
    ) -> Added:
        found: dict[str, CachedState] = {}
        refused: dict[str, errors.CounterError] = {}
        for part, reply in zip(parts, replies, strict=True):
            counters = [counter for slot in part for counter in groups[slot]]
            if isinstance(reply, ServerRefused):
                refused.update(dict.fromkeys(counters, self.meaning(reply)))
            else:
                answers = reply.splitlines() or [""] * len(counters)
                found.update(zip(counters, map(found_in, answers), strict=True))
        return Added(found, refused)

    def _added_to_one(self, counter: str, replies: Sequence[Any]) -> Added:
        (reply,) = replies
        if type(reply) is ServerRefused:
            return Added({}, {counter: self.meaning(reply)})
        return Added({counter: found_in(reply)}, {})

    def _added_only(self, replies: Sequence[Any]) -> CachedState | None:
        (reply,) = replies
        if isinstance(reply, ServerRefused):
            raise self.meaning(reply)
        if reply == 0:
            return None
        return NOT_ASKED if reply == 1 else found_in(reply)

    def _added_once(self, replies: Sequence[Any]) -> tuple[CachedState, bool]:
        (reply,) = replies
        if isinstance(reply, ServerRefused):
            raise self.meaning(reply)
        answer, used = reply
        return found_in(answer), bool(used)

    def _raised(self, replies: Sequence[Any]) -> Raised | CachedState:
        (reply,) = replies
        if isinstance(reply, ServerRefused):
            raise self.meaning(reply)
        return Raised(*map(int, reply)) if len(reply) == 2 else found_in(reply[0])

    def _all_done(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, ServerRefused):
                raise self.meaning(reply)

    def meaning(self, refused: ServerRefused) -> errors.CounterError:
        """The error that an error of the server means for the caller."""
        if refused.code == "OVERFLOW":
            return errors.CounterOverflow(
                key=refused.message, low=-LARGEST_PENDING, high=LARGEST_PENDING
            )
        if refused.code == "LARGE":
            return errors.CounterOverflow(key=refused.message, low=-LARGEST_SUM, high=LARGEST_SUM)
        if refused.code == "CONFLICT":
            return errors.TokenConflict(token=str(UUID(refused.message)))
        if refused.code == "EXPIRED":
            token = UUID(refused.message)
            return errors.TokenExpired(token=str(token), created_at=moment_of(token))
        before = _REFUSED.match(str(refused)) and not _HAD_BEGUN.search(refused.message)
        if refused.code in _NOTHING_DONE or before:
            reason = f"{refused.code} {refused.message}".rstrip(".")
            return errors.CounterUnavailable(using=self.shown, reason=reason)
        return errors.OutcomeUnknown(using=self.shown)


def _seen(added: Added) -> Mapping[str, CachedState]:
    for refused in added.refused.values():
        raise refused
    return added.found


def _parts_in(
    waiting: Iterable[PendingField],
) -> tuple[list[tuple[str, Cell | None, int]], list[PendingField]]:
    """The amounts and the fields with actors among those of one counter."""
    amounts: list[tuple[str, Cell | None, int]] = []
    sets: list[PendingField] = []
    for one in waiting:
        generation, field, text = one
        if field.startswith(TOKEN):
            first, *lines = text.split("\n")
            by = int(first.partition(" ")[0])
            cells, unknown = cells_in(lines)
            amounts += [(generation, one, one.added(by)) for one in cells if one.kind.adds]
            if unknown or not all(cell.kind.adds for cell in cells):
                sets.append(one)
            continue
        if " " in field and field.startswith((COUNT, RANKS)):
            # How many there are goes with each of them.
            sets += [one] if field.startswith(RANKS) else []
            continue
        cells, unknown = cells_in([field])
        if unknown or not all(cell.kind.adds for cell in cells):
            sets.append(one)
        else:
            amounts.append((generation, cells[0] if cells else None, int(text)))
    return amounts, sets


def _cells(counter: str, delta: Delta) -> list[str | int]:
    """The field and the amount of each cell."""
    return [word for cell, by in delta.carried for word in (cell_field(cell, counter), by)]


def found_in(answer: str) -> CachedState:
    """The meaning of an answer; see ``slot.lua``."""
    if not answer:
        return NOT_ASKED
    words = answer.split(" ")
    if words[0] not in ("?", "!"):
        if len(words) == 3:
            return CachedState(int(words[1]), int(words[2]), int(words[0]))
        return CachedState(int(words[1]), sum(map(int, words[2:])), int(words[0]))
    whose, version, moment, total, age, *pairs = words
    waits = tuple(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
    lease = None if version == "-" else Lease(version, int(moment))
    kept = None if total == "-" else (int(total), int(age))
    return CachedState(None, sum(by for _, by in waits), 0, waits, lease, kept, whose == "!")
