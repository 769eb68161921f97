"""The requests to Redis, and the meaning of its answers. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django_counters import exceptions as errors
from django_counters.stores.base import LARGEST_SUM, NO_TOTALS, Added, Found, Lease
from django_counters.stores.redis.commands import Command, Refused
from django_counters.stores.redis.keys import Slots, cell_field, proposed, slot_of
from django_counters.stores.redis.scripts import (
    ADD,
    ADD_ONCE,
    ADD_ONLY,
    DISCARD,
    DISCARD_CELLS,
    FILL,
    FORGET,
    LOOK,
    MAXIMUM,
    PAGE,
    PAGE_ADDED,
    SETTLE,
    Script,
)
from django_counters.tokens import moment_of
from django_counters.types import Delta, Raised

_T = TypeVar("_T")

# The amount that waits for one counter stays far below 64 bits, because Lua cannot compare larger
# numbers.
LARGEST_PENDING = 2**62
# The answer where nothing was asked for.
NOT_ASKED = Found(None, 0)
_MILLISECOND = timedelta(milliseconds=1)
# Errors of a server that has executed nothing.
_NOTHING_DONE = frozenset(
    {
        *("OOM", "READONLY", "LOADING", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS"),
        *("BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "TRYAGAIN", "RINGFULL", "HISTORY", "NOINFO"),
    }
)


class Request(NamedTuple, Generic[_T]):
    """Commands for one round trip, and how to read the replies to them.

    ``counts``: whether they count, so that a lost answer is an unknown outcome.
    """

    commands: Sequence[Command]
    read: Callable[[Sequence[Any]], _T]
    counts: bool = True


class Requests:
    """Makes requests about the slots of one Redis.

    ``shown``: the name of this Redis in errors. ``together``: whether one command may use several
    slots. In a cluster they are on several servers.
    """

    def __init__(self, shown: str, slots: Slots, *, together: bool) -> None:
        self.shown = shown
        self._slots = slots
        self._together = together

    def add(self, deltas: Mapping[str, Delta], age: int) -> Request[Added]:
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
        return Request(commands, lambda replies: self._added(parts, groups, replies))

    def _add_to_one(self, counter: str, delta: Delta, age: int) -> Request[Added]:
        slot = slot_of(counter)
        cells = _cells(counter, delta) if delta.effects else []
        words: tuple[str | int, ...] = (age, proposed(slot), 1, len(cells) // 2, counter, delta.by)
        words += tuple(cells)
        command = Command(ADD, self._slots.keys(slot), words)
        return Request((command,), partial(self._added_to_one, counter))

    def add_only(self, counter: str, by: int) -> Request[bool]:
        """Add to one counter without cells, and ask for nothing. False: nothing was done.

        ``by`` is at most `LARGEST_SUM`, either way.
        """
        keys = self._slots.keys(slot_of(counter))[:1]
        return Request((Command(ADD_ONLY, keys, (counter, by)),), self._added_only)

    def add_once(
        self, counter: str, delta: Delta, token: str, age: int, window: tuple[timedelta, timedelta]
    ) -> Request[tuple[Found, bool]]:
        """Add to one counter and to its cells, unless its token was used or is out of its window.

        ``window``: how far behind and ahead of the clock of Redis the time of the token may be.
        """
        slot = slot_of(counter)
        keys = (*self._slots.keys(slot), self._token_key(counter, token))
        back, ahead = (part // _MILLISECOND for part in window)
        cells = [cell_field(effect.cell, counter) for effect in delta.carried]
        words: tuple[str | int, ...] = (age, proposed(slot), counter, delta.by, token, back, ahead)
        words += tuple(cells)
        return Request([Command(ADD_ONCE, keys, words)], self._added_once)

    def land(
        self,
        pages: Sequence[str],
        deltas: Mapping[str, Delta],
        window: tuple[timedelta, timedelta],
    ) -> Request[bool]:
        """Add to counters of one slot and to their cells; False where the only page was added.

        ``window``: how far behind and ahead of the clock of Redis the times of their ids may be.
        """
        (slot,) = self._groups(deltas)
        counters = [word for name, delta in deltas.items() for word in (name, delta.by)]
        cells = [word for name, delta in deltas.items() for word in _cells(name, delta)]
        back, ahead = (part // _MILLISECOND for part in window)
        head: tuple[str | int, ...] = (back, ahead, len(pages), *pages)
        head += (NO_TOTALS, proposed(slot), len(deltas), len(cells) // 2)
        # The script takes them from the end.
        remembered = (self._slots.token(slot, page) for page in reversed(pages))
        keys = (*self._slots.keys(slot), *remembered)
        return Request([Command(PAGE, keys, (*head, *counters, *cells))], self._is_new)

    def landed(self, pages: Mapping[str, str]) -> Request[frozenset[str]]:
        """Which ids of pages were added, as far as that is remembered. ``pages``: a counter of
        each."""
        of: dict[int, list[str]] = {}
        for page, counter in pages.items():
            of.setdefault(slot_of(counter), []).append(page)
        asked = [[(slot, page) for slot in part for page in of[slot]] for part in self._parts(of)]
        keys = (tuple(self._slots.token(*one) for one in part) for part in asked)

        def added(replies: Sequence[Any]) -> frozenset[str]:
            self._all_done(replies)
            told = zip(chain.from_iterable(asked), chain.from_iterable(replies), strict=True)
            return frozenset(page for (_, page), is_added in told if is_added)

        return Request([Command(PAGE_ADDED, part, ()) for part in keys], added, counts=False)

    def maximum(
        self, counter: str, number: int, age: int, told: tuple[Lease, int] | None
    ) -> Request[Raised | Found]:
        """Add to one counter what it lacks of ``number``; `Found` where its total has to be asked.

        Its total is not older than ``age`` ms, or what the caller was ``told`` under a lease,
        without anything that waits here.
        """
        slot = slot_of(counter)
        lease: tuple[str | int, ...] = (told[0].version, told[1]) if told else ("-", 0)
        words = (age, proposed(slot), counter, number, *lease)
        return Request([Command(MAXIMUM, self._slots.keys(slot), words)], self._raised)

    def look(self, counters: Iterable[str], age: int) -> Request[Mapping[str, Found]]:
        """Look up counters. ``age`` is in ms, and -1 asks for no totals."""
        groups = self._groups(counters)
        words = {slot: (proposed(slot), len(mine), *mine) for slot, mine in groups.items()}
        parts = self._parts(groups)
        commands = [self._command(LOOK, part, (age,), words) for part in parts]
        return Request(
            commands, lambda replies: _seen(self._added(parts, groups, replies)), counts=False
        )

    def fill(self, totals: Mapping[str, tuple[int | None, Lease]]) -> Request[None]:
        """Fill in totals under their leases.

        None: the total cannot be filled in, so that no caller waits for it.
        """
        held: dict[tuple[int, str], list[str | int]] = {}
        for counter, (total, lease) in totals.items():
            triples = held.setdefault((slot_of(counter), lease.version), [])
            triples += (counter, "" if total is None else total, lease.moment)
        commands = [
            Command(FILL, self._slots.keys(slot), (proposed(slot), version, *triples))
            for (slot, version), triples in held.items()
        ]
        return Request(commands, lambda replies: None, counts=False)  # noqa: ARG005

    def forget(self, counters: Iterable[str]) -> Request[None]:
        """Forget totals that something else than a flush has changed."""
        return self._without(FORGET, counters)

    def discard(self, counters: Iterable[str], *, cells: bool = False) -> Request[None]:
        """Drop what waits for deleted counters, and forget their totals.

        ``cells``: drop their cells, too, which takes a search of all that waits.
        """
        return self._without(DISCARD_CELLS if cells else DISCARD, counters)

    def _without(self, script: Script, counters: Iterable[str]) -> Request[None]:
        commands = [
            Command(script, self._slots.keys(slot), tuple(mine))
            for slot, mine in self._groups(counters).items()
        ]
        return Request(commands, self._all_done, counts=False)

    def settle(self, counter: str, token: str, value: int) -> Request[None]:
        """Remember the value that a call with a token returned, if Redis did not know it."""
        command = Command(SETTLE, (self._token_key(counter, token),), (value,))
        return Request([command], lambda replies: None, counts=False)  # noqa: ARG005

    def _token_key(self, counter: str, token: str) -> str:
        """One key for all counters, to notice conflicts; in a cluster, one for each slot."""
        return self._slots.token(0 if self._together else slot_of(counter), token)

    def _groups(self, counters: Iterable[str]) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for counter in counters:
            groups.setdefault(slot_of(counter), []).append(counter)
        return groups

    def _parts(self, groups: Mapping[int, object]) -> list[tuple[int, ...]]:
        """The slots of each command."""
        return [tuple(groups)] if self._together else [(slot,) for slot in groups]

    def _command(
        self, script: Any, part: Sequence[int], first: tuple[int, ...], words: Mapping[int, Any]
    ) -> Command:
        keys = tuple(key for slot in part for key in self._slots.keys(slot))
        return Command(script, keys, (*first, *(word for slot in part for word in words[slot])))

    def _added(
        self,
        parts: Sequence[Sequence[int]],
        groups: Mapping[int, Sequence[str]],
        replies: Sequence[Any],
    ) -> Added:
        found: dict[str, Found] = {}
        refused: dict[str, errors.CounterError] = {}
        for part, reply in zip(parts, replies, strict=True):
            counters = [counter for slot in part for counter in groups[slot]]
            if isinstance(reply, Refused):
                refused.update(dict.fromkeys(counters, self.meaning(reply)))
            else:
                answers = reply.splitlines() or [""] * len(counters)
                found.update(zip(counters, map(found_in, answers), strict=True))
        return Added(found, refused)

    def _added_to_one(self, counter: str, replies: Sequence[Any]) -> Added:
        (reply,) = replies
        if type(reply) is Refused:
            return Added({}, {counter: self.meaning(reply)})
        return Added({counter: found_in(reply)}, {})

    def _added_only(self, replies: Sequence[Any]) -> bool:
        (reply,) = replies
        if isinstance(reply, Refused):
            raise self.meaning(reply)
        return bool(reply)

    def _added_once(self, replies: Sequence[Any]) -> tuple[Found, bool]:
        (reply,) = replies
        if isinstance(reply, Refused):
            raise self.meaning(reply)
        answer, used = reply
        return found_in(answer), bool(used)

    def _raised(self, replies: Sequence[Any]) -> Raised | Found:
        (reply,) = replies
        if isinstance(reply, Refused):
            raise self.meaning(reply)
        return Raised(*map(int, reply)) if len(reply) == 2 else found_in(reply[0])

    def _is_new(self, replies: Sequence[Any]) -> bool:
        self._all_done(replies)
        return bool(replies[0])

    def _all_done(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, Refused):
                raise self.meaning(reply)

    def meaning(self, refused: Refused) -> errors.CounterError:
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
        if refused.code in _NOTHING_DONE:
            reason = f"{refused.code} {refused.message}".rstrip(".")
            return errors.CounterUnavailable(using=self.shown, reason=reason)
        # A script that ends with an error keeps its earlier writes.
        return errors.OutcomeUnknown(using=self.shown)


def _seen(added: Added) -> Mapping[str, Found]:
    for refused in added.refused.values():
        raise refused
    return added.found


def _cells(counter: str, delta: Delta) -> list[str | int]:
    """The field and the amount of each cell."""
    return [word for cell, by in delta.carried for word in (cell_field(cell, counter), by)]


def found_in(answer: str) -> Found:
    """The meaning of an answer; see ``slot.lua``."""
    if not answer:
        return NOT_ASKED
    words = answer.split(" ")
    if words[0] not in ("?", "!"):
        if len(words) == 3:
            return Found(int(words[1]), int(words[2]), int(words[0]))
        return Found(int(words[1]), sum(map(int, words[2:])), int(words[0]))
    whose, version, moment, total, age, *pairs = words
    waits = tuple(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
    lease = None if version == "-" else Lease(version, int(moment))
    kept = None if total == "-" else (int(total), int(age))
    return Found(None, sum(by for _, by in waits), 0, waits, lease, kept, whose == "!")
