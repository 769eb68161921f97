"""The client of Redis for async code. Nothing that may have arrived is sent again. See `client`."""

from __future__ import annotations

import asyncio
import os
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from django_counters.redis.addresses import Address, Node
from django_counters.redis.client import ANSWERED, BROKEN, Client, client_of, polling
from django_counters.redis.commands import (
    Lost,
    OnceRequest,
    ScriptRun,
    ServerRefused,
    Word,
    decoded,
    packed,
    refusal,
    requested,
)
from django_counters.redis.routes import Ask, Discover, Flow, Step, run, run_many

_T = TypeVar("_T")
# Connections of one event loop to one server. Waiting for one is faster than more connections.
POOL = 16


class AsyncWire:
    """A connection to one server, for one task at a time."""

    __slots__ = ("_connection", "_poll", "_timeout")

    def __init__(self, connection: Any, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._poll: Callable[[], Sequence[object]] = tuple

    async def connect(self) -> None:
        """Connect and log in.

        Raises:
            Lost: the connection is closed then, as after every other error.
        """
        try:
            async with asyncio.timeout(self._timeout):
                await self._connection.connect()
        except BROKEN as error:
            self.close()
            raise Lost(str(error) or "no answer in time", sent=False) from error
        except BaseException:
            self.close()
            raise
        opened = self._connection._writer.get_extra_info("socket")
        self._poll = polling(opened.fileno())

    def is_stale(self) -> bool:
        """Whether the server has closed it or sent something. Sends nothing."""
        # When the loop has closed the socket, another one may have its number.
        if self._connection._writer.transport.is_closing():
            return True
        return bool(self._poll())

    async def ask(self, request: bytes, replies: int) -> list[Any]:
        """Send once and read the replies.

        Raises:
            Lost: the connection is closed then, as after every other error.
        """
        try:
            async with asyncio.timeout(self._timeout) as limit:
                await self._connection.send_packed_command((request,), check_health=False)
                told = [await self._reply()]
                for _ in range(1, replies):
                    limit.reschedule(asyncio.get_running_loop().time() + self._timeout)
                    told.append(await self._reply())
                return told
        except BROKEN as error:
            self.close()
            raise Lost(str(error) or "no answer in time", sent=True) from error
        except BaseException:
            self.close()
            raise

    async def _reply(self) -> Any:
        try:
            return decoded(await self._connection.read_response())
        except ANSWERED as error:
            return refusal(str(error))

    def close(self) -> None:
        """Close it at once, without sending what is buffered."""
        writer = self._connection._writer
        # The loop may be closed already.
        with suppress(RuntimeError):
            if writer is not None:
                writer.transport.abort()
            self._connection._close()


class _Pool:
    """The connections of one event loop."""

    def __init__(self, guard: AsyncGenerator[None]) -> None:
        self.guard = guard
        self.closed = False
        self._idle: dict[Node, list[AsyncWire]] = {}
        self._gates: dict[Node, asyncio.Semaphore] = {}

    def gate(self, node: Node) -> asyncio.Semaphore:
        """Limits the tasks that talk to a server at a time."""
        return self._gates.get(node) or self._gates.setdefault(node, asyncio.Semaphore(POOL))

    def take(self, node: Node) -> AsyncWire | None:
        """The idle connection that was used last, if there is one."""
        idle = self._idle.get(node)
        while idle:
            wire = idle.pop()
            if not wire.is_stale():
                return wire
            wire.close()
        return None

    def put(self, node: Node, wire: AsyncWire) -> None:
        """Keep a connection for the next task."""
        if self.closed:
            wire.close()
        else:
            self._idle.setdefault(node, []).append(wire)

    def drop(self, nodes: Sequence[Node]) -> None:
        """Close the connections to these servers."""
        for node in nodes:
            for wire in self._idle.pop(node, []):
                wire.close()

    def nodes(self) -> list[Node]:
        """The servers with idle connections."""
        return list(self._idle)


class AsyncClient:
    """Runs scripts and commands on the Redis of one address, for all event loops of a process.

    A loop has connections of its own, which close before it ends. A task that is cancelled during a
    command closes its connection, and the outcome of the command is unknown.
    """

    def __init__(self, client: Client) -> None:
        self.name = client.name
        self._client = client
        self._route = client.route
        self._making = client.making
        self._pools: dict[AbstractEventLoop, _Pool] = {}
        self._inherited: list[object] = []

    async def run(self, command: ScriptRun) -> Any:
        """`Client.run` for async code."""
        return await self._one(requested(command), reads=False)

    async def run_many(self, commands: Sequence[ScriptRun]) -> list[Any]:
        """`Client.run_many` for async code."""
        requests = [requested(command) for command in commands]
        try:
            return await self._take(run_many(self._route, requests))
        except Lost as lost:
            raise self._client.meaning(lost, reads=False) from lost

    async def call(self, *words: Word, key: str | None = None, reads: bool = True) -> Any:
        """`Client.call` for async code."""
        return await self._one(OnceRequest(key, packed(*words)), reads=reads)

    async def close(self) -> None:
        """Close the connections of this loop, those in use when they have their answers."""
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is not None:
            await pool.guard.aclose()

    def renew(self) -> None:
        """Forget what belongs to the parent process, after a fork."""
        # Keep a reference: garbage collection would use the loop of the parent to close it.
        self._inherited.append(self._pools)
        self._pools = {}

    async def _one(self, request: OnceRequest, *, reads: bool) -> Any:
        try:
            reply = await self._take(run(self._route, request))
        except Lost as lost:
            raise self._client.meaning(lost, reads=reads) from lost
        if type(reply) is ServerRefused:
            raise reply
        return reply

    async def _take(self, flow: Flow[_T]) -> _T:
        try:
            step = next(flow)
            while True:
                try:
                    came = await self._step(step)
                except Lost as lost:
                    step = flow.throw(lost)
                else:
                    step = flow.send(came)
        except StopIteration as end:
            result: _T = end.value
            return result

    async def _step(self, step: Step) -> Any:
        if isinstance(step, Ask):
            return await self._ask(step)
        if isinstance(step, Discover):
            return await self._discover()
        return await asyncio.sleep(step.seconds)

    async def _ask(self, ask: Ask) -> list[Any]:
        pool, node = await self._pool(), ask.node
        async with pool.gate(node):
            ticket = self._route.admit(node)
            try:
                wire = pool.take(node) or await self._connect(pool, node)
                replies = await wire.ask(ask.request, ask.replies)
            except BaseException as error:
                self._route.broken(node, ticket, error)
                raise
            if self._route.answered(node, ticket, replies):
                pool.put(node, wire)
            else:
                wire.close()
        return replies

    async def _connect(self, pool: _Pool, node: Node) -> AsyncWire:
        pool.drop([other for other in pool.nodes() if not self._route.keeps(other)])
        wire = AsyncWire(self._making.aconnection(node), self._making.timeout)
        await wire.connect()
        return wire

    async def _discover(self) -> Node:
        ticket = self._route.admit(None)
        try:
            node = await self._making.amaster()
        except BaseException as error:
            self._route.broken(None, ticket, error)
            raise
        self._route.answered(None, ticket, ())
        return node

    async def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is not None:
            return found
        # Some loops ended without closing their generators.
        for other in [other for other in self._pools if other.is_closed()]:
            del self._pools[other]
        guard = self._until_the_end(loop)
        pool = self._pools[loop] = _Pool(guard)
        await anext(guard)
        return pool

    async def _until_the_end(self, loop: AbstractEventLoop) -> AsyncGenerator[None]:
        """Close the pool when the loop closes its generators, the last moment in which it runs."""
        try:
            yield
        finally:
            pool = self._pools.pop(loop)
            pool.closed = True
            pool.drop(pool.nodes())
            # The loop closes sockets in its next round.
            await asyncio.sleep(0)


_aclients: dict[Address, AsyncClient] = {}


def aclient_of(address: Address) -> AsyncClient:
    """The client of this process for async code, as `client_of`."""
    found = _aclients.get(address)
    return found or _aclients.setdefault(address, AsyncClient(client_of(address)))


def _renew() -> None:
    for aclient in _aclients.values():
        aclient.renew()


# As in `client`: a child process has the sockets of its parent.
os.register_at_fork(after_in_child=_renew)
