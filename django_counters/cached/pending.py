"""Increments that wait in Redis until a flush lands them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django_counters.cached.requests import (
    ACKNOWLEDGE,
    CUT,
    HOLD,
    OWN,
    READ,
    RELEASE,
    WAITING,
    Requests,
    RoundTrip,
)
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.measure import REGISTERS
from django_counters.redis.aclient import aclient_of
from django_counters.redis.addresses import Address
from django_counters.redis.client import _clients, client_of
from django_counters.redis.commands import ScriptRun, ServerRefused
from django_counters.redis.keys import (
    CELL,
    CHUNK,
    SLOTS,
    TOKEN,
    SlotKeys,
    cell_in,
    cells_in,
    proposed,
    ranks_in,
    set_in,
)
from django_counters.redis.routes import STATES, State
from django_counters.stores.base import Parcel, Tokened
from django_counters.types import Cell

_T = TypeVar("_T")
_PAGE = 1000
# The age at which a generation is sealed: the database remembers its id for as long as needed.
_REFRESHED_AFTER = timedelta(days=1)
# Milliseconds after which another process may take over the flush of one that died.
_FLIGHT = 10_000
# The first characters of fields that are not, or may not be, those of counters.
_SPECIAL = frozenset(("\0", CELL))


class SealedGeneration(NamedTuple):
    """A generation that takes no more increments.

    ``fields``: how many counters it has, at most. ``history`` is that of the generation, ``server``
    that of the server that answered.
    """

    slot: int
    place: int
    generation: str
    before: str
    history: str
    fields: int
    server: str


class Cut(NamedTuple):
    """One slot: its open generation, the one before that, and the sealed ones.

    ``fields``: the size of the open one, which is not sealed while another sealed one waits.
    """

    slot: int
    generation: str
    before: str
    history: str
    fields: int
    sealed: Sequence[SealedGeneration]


class SlotBacklog(NamedTuple):
    """How many counters wait in one slot, in open and in sealed generations, and since when."""

    open: int
    generation: str
    places: int
    sealed: int
    oldest: str


class RedisPending(Requests):
    """Keeps increments until they land. Every verb is one atomic step in each slot.

    ``name`` is the name of this Redis for people, ``source`` its name in the database.
    """

    def __init__(self, address: Address, slots: SlotKeys, name: str = "") -> None:
        self._client = client_of(address)
        self._aclient = aclient_of(address)
        self.name = name or self._client.name
        self.source = f"{self._client.name}#{slots.space}"
        self._place = (address.name, address.nodes)
        super().__init__(self._client.using, slots, together=not address.is_cluster)

    def send(self, request: RoundTrip[_T]) -> _T:
        """Send a request in one round trip, and return its answer.

        Raises:
            CounterUnavailable: nothing was done.
            OutcomeUnknown: the answer to a request that counts was lost.
        """
        if request.counts:
            return self._sent(request)
        with self._reading():
            return self._sent(request)

    def _sent(self, request: RoundTrip[_T]) -> _T:
        if len(request.commands) != 1:
            return request.read(self._client.run_many(request.commands))
        # Nearly always there is one command, for which this is faster.
        try:
            reply = self._client.run(request.commands[0])
        except ServerRefused as refused:
            reply = refused
        return request.read((reply,))

    async def asend(self, request: RoundTrip[_T]) -> _T:
        """`send` for async code."""
        if request.counts:
            return request.read(await self._aclient.run_many(request.commands))
        with self._reading():
            return request.read(await self._aclient.run_many(request.commands))

    def cut(self) -> list[Cut]:
        """Seal the open generation of each slot in which no sealed one waits."""
        age = _REFRESHED_AFTER // timedelta(milliseconds=1)
        commands = [
            ScriptRun(CUT, self._slots.keys(slot), (proposed(slot), age)) for slot in range(SLOTS)
        ]
        replies = self._run(commands)
        return [_cut(slot, reply) for slot, reply in enumerate(replies)]

    def owner(self) -> str:
        """The identity of the database that owns these increments; empty before its first flush."""
        return str(self._client.call("GET", self._slots.owner, key=self._slots.owner) or "")

    def belongs_to(self, identity: str, *, adopt: bool = False) -> bool:
        """Whether a database owns these increments. The first one that asks becomes the owner.

        ``adopt``: make it the owner, whichever was before.
        """
        command = ScriptRun(OWN, (self._slots.owner,), (identity, int(adopt)))
        return bool(self._run([command]) == [identity])

    def waiting(self) -> list[SlotBacklog]:
        """How much waits in each slot."""
        replies = self._run(
            [ScriptRun(WAITING, self._slots.keys(slot), ()) for slot in range(SLOTS)]
        )
        return [SlotBacklog(*reply) for reply in replies]

    def breaker(self) -> State | None:
        """The worst state of the breakers of this Redis in this process."""
        routes = [
            client.route
            for address, client in list(_clients.items())
            if (address.name, address.nodes) == self._place
        ]
        states = [breaker.state for route in routes for breaker in route.breakers()]
        return max(states, key=STATES.index, default=None)

    def information(self, section: str) -> dict[str, str]:
        """A section of the INFO of the server of the first slot."""
        text = self._client.call("INFO", section, key=self._slots.keys(0)[0])
        pairs = (line.partition(":") for line in text.splitlines())
        return {name: value for name, colon, value in pairs if colon}

    def parcel(self, sealed: SealedGeneration) -> Parcel | None:
        """The contents of a sealed generation; None if another flush has landed it."""
        key = self._slots.place(sealed.slot, sealed.place)
        fields: dict[str, str] = {}
        cursor = "0"
        while True:
            words = (sealed.generation, cursor, _PAGE, sealed.server)
            # Each page checks the generation, which takes no more increments.
            (page,) = self._run([ScriptRun(READ, (key,), words)])
            if not page:
                return None
            cursor, found = page[0], json.loads(page[1])
            fields.update(zip(found[::2], found[1::2], strict=True))
            if cursor == "0":
                return _read(fields).parcel(sealed, self.source)

    def acknowledge(
        self, landed: Mapping[SealedGeneration, Sequence[str]], lost: Collection[int] = ()
    ) -> None:
        """Remove generations that have landed, and forget the totals of some of their counters.

        Slots that have ``lost`` a generation forget all totals.
        """
        said = [(one.slot, (one.generation, *forgotten)) for one, forgotten in landed.items()]
        # No generation has an empty name, as none has that of the lost one.
        said += [(slot, ("",)) for slot in lost]
        self._run(
            [
                ScriptRun(ACKNOWLEDGE, self._slots.keys(slot), (proposed(slot), *words))
                for slot, words in said
            ]
        )

    @contextmanager
    def flight(self) -> Iterator[Callable[[], object] | None]:
        """Yield None if another process flushes, else a function to call now and then meanwhile.

        This saves work. A flush is correct without it.
        """
        key, mark = self._slots.flight, secrets.token_hex(8)
        hold = ScriptRun(HOLD, (key,), (mark, _FLIGHT))

        def held() -> bool:
            # A full server refuses the mark, and needs the flush all the more.
            with self._reading():
                return bool(self._client.run_many([hold])[0])

        if not held():
            yield None
            return
        try:
            yield held
        finally:
            with suppress(CounterUnavailable, OutcomeUnknown):
                self._client.run_many([ScriptRun(RELEASE, (key,), (mark,))])

    def clear(self) -> None:
        """Delete all keys of this database except tokens, which expire. For tests."""
        for slot in range(SLOTS):
            keys = self._slots.keys(slot)
            self._client.call("DEL", *keys, key=keys[0], reads=False)
        first = (self._slots.flight, self._slots.owner)
        self._client.call("DEL", *first, key=first[0], reads=False)

    def _run(self, commands: Sequence[ScriptRun]) -> list[Any]:
        """Run commands that can be repeated: if one fails, nothing is lost."""
        with self._reading():
            replies = self._client.run_many(commands)
        for reply in replies:
            if isinstance(reply, ServerRefused):
                raise CounterUnavailable(using=self.shown, reason=str(reply).rstrip("."))
        return replies

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The block counts nothing, so a lost answer means that the Redis is unavailable."""
        try:
            yield
        except OutcomeUnknown as error:
            reason = "the answer was lost"
            raise CounterUnavailable(using=self.shown, reason=reason) from error


class _Read(NamedTuple):
    """The fields of a generation, told apart. ``strange``: what another process has written
    there."""

    sums: dict[str, int]
    tokens: dict[str, Tokened]
    strange: dict[str, str]
    cells: dict[tuple[str, Cell | None], int]
    registers: dict[tuple[str, Cell], bytearray]

    def parcel(self, sealed: SealedGeneration, source: str) -> Parcel:
        """All of it, under the id of the generation."""
        more = {where: bytes(body) for where, body in self.registers.items()}
        told = self.sums, sealed.slot, self.tokens, self.cells, self.strange, more
        return Parcel(sealed.generation, source, *told)

    def take(self, name: str, text: str) -> None:
        """Take one field.

        Raises:
            ValueError: another process has written it.
        """
        if name.startswith(TOKEN):
            token = str(UUID(name.removeprefix(TOKEN)))
            self.tokens[token], unknown = _tokened(text)
            if unknown:
                self.strange[name] = "\n".join(unknown)
        elif one := set_in(name):
            self._take_of_set(*one, text)
        elif name[:1] != "\0":
            cell = cell_in(name)
            if cell is None:
                self.sums[name] = int(text)
            else:
                self.cells[cell] = int(text)

    def _take_of_set(self, counter: str, cell: Cell, chunk: int | None, text: str) -> None:
        if chunk is None:
            int(text)  # the landing counts them itself
        else:
            ranks, begin = ranks_in(text), chunk * CHUNK
            body = self.registers.setdefault((counter, cell), bytearray(REGISTERS))
            body[begin : begin + CHUNK] = ranks


def _read(fields: Mapping[str, str]) -> _Read:
    special = {name: text for name, text in fields.items() if name[:1] in _SPECIAL}
    try:
        sums = {name: int(text) for name, text in fields.items() if name not in special}
        read = _Read(sums, {}, {}, {}, {})
        for name, text in special.items():
            read.take(name, text)
    except ValueError:
        # Another process has written something, too: it is told apart from what is ours.
        read = _Read({}, {}, {}, {}, {})
        for name, text in fields.items():
            try:
                read.take(name, text)
            except ValueError:
                read.strange[name] = text
    return read


def _tokened(text: str) -> tuple[Tokened, list[str]]:
    """The increment of a token, and the fields of kinds that no installed app has."""
    first, *fields = text.split("\n")
    by, _, rest = first.partition(" ")
    # Behind the counter stands what tells other tags and moments apart.
    counter, _, _ = rest.partition(" ")
    counter.encode()  # raises for bytes that another program has written
    cells, unknown = cells_in(fields)
    return Tokened(counter, int(by), tuple(cells)), unknown


def _cut(slot: int, reply: Sequence[Any]) -> Cut:
    generation, before, server = map(str, reply[:3])
    sealed = [
        SealedGeneration(slot, int(place), str(one), str(parent), str(history), int(fields), server)
        for place, one, parent, history, fields in reply[4:]
    ]
    return Cut(slot, generation, before, server, int(reply[3]), sealed)
